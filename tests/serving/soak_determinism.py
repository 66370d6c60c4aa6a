"""A seeded request, again and again beside seven others: the same bytes each time, streamed and not.

PYTHONPATH=tests python tests/serving/soak_determinism.py [TIMES]
"""

from __future__ import annotations

import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))
from conftest import real_path

import llama_magic as lm

OTHERS = 7
TOOL = {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}
ASKED: tuple[dict[str, Any], ...] = (
    {"messages": [{"role": "user", "content": "Tell me a story."}], "max_tokens": 16, "temperature": 0.9},
    {
        "messages": [{"role": "user", "content": "What is up?"}],
        "max_tokens": 32,
        "tools": [{"type": "function", "function": TOOL}],
        "tool_choice": {"type": "function", "function": {"name": "look"}},
    },
)


def main(times: int = 100) -> int:
    """Return how many answers were not the first one's bytes."""
    with lm.load(real_path("smollm2"), ctx=2048, threads=1) as model, lm.serve(model, port=0) as server:
        url = f"{server.url}/v1/chat/completions"
        alone = [_said(url, asked, stream=False) for asked in ASKED]
        over, begun, differ, named = threading.Event(), threading.Semaphore(0), 0, 0
        with ThreadPoolExecutor(OTHERS) as pool:
            others = [pool.submit(_other, url, number, over, begun) for number in range(OTHERS)]
            for _ in range(OTHERS):
                begun.acquire()
            try:
                for turn in range(times):
                    which = turn // 2 % 2
                    found = _said(url, ASKED[which], stream=bool(turn % 2))
                    differ += found != alone[which]
                    named += which == 1 and [name for name, _ in found[1]] == ["look"]
            finally:
                over.set()
            asked = sum(other.result() for other in others)
    print(f"{times - differ} of {times} were the same bytes, with {OTHERS} others at work ({asked} answers)")
    print(f"{named} of {sum(turn // 2 % 2 for turn in range(times))} named calls were made")
    return differ


def _said(url: str, asked: dict[str, Any], *, stream: bool) -> tuple[str, list[tuple[str, str]]]:
    """Return the text and the calls of a seeded answer."""
    body = {**asked, "seed": 11, "stream": stream}
    answer = httpx.post(url, json=body, timeout=600)
    assert answer.status_code == 200, answer.text
    if not stream:
        message = answer.json()["choices"][0]["message"]
        calls = [(c["function"]["name"], c["function"]["arguments"]) for c in message.get("tool_calls") or ()]
        return message["content"] or "", calls
    text, parts = "", {}
    for line in answer.text.splitlines():
        if not line.startswith("data: {"):
            continue
        for choice in json.loads(line[6:])["choices"]:
            text += choice["delta"].get("content") or ""
            for call in choice["delta"].get("tool_calls") or ():
                kept = parts.setdefault(call["index"], ["", ""])
                kept[0] += call["function"].get("name") or ""
                kept[1] += call["function"].get("arguments") or ""
    return text, [(name, arguments) for name, arguments in parts.values()]


def _other(url: str, number: int, over: threading.Event, begun: threading.Semaphore) -> int:
    """Ask without end, with and without a seed, long and short; return how many answers came."""
    count = 0
    while not over.is_set():
        body: dict[str, Any] = {
            "messages": [{"role": "user", "content": f"Question {number} {'word ' * (9 * number)}{count}?"}],
            "max_tokens": 4 + 3 * number,
        }
        if number == OTHERS - 1:
            body["seed"] = count
        if count == 0:
            begun.release()
        assert httpx.post(url, json=body, timeout=600).status_code == 200
        count += 1
    return count


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
