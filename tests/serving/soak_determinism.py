"""A request with a seed or at temperature 0, beside seven others: the same bytes each time, streamed and not.

Asked of three of SmolLM2's blocks, which cost a tenth; MODEL is "smollm2" for all of them:

    PYTHONPATH=tests python tests/serving/soak_determinism.py [TIMES [MODEL]]
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))
from conftest import real_path
from short_model import SHORT, shorten

import llama_magic as lm

OTHERS = 7
CLIENT = httpx.Client(timeout=600, verify=False)
TOOL = {"name": "look", "parameters": {"type": "object", "properties": {"at": {"type": "string"}}}}
STORY = [{"role": "user", "content": "Tell me a story."}]
ASKED: dict[str, dict[str, Any]] = {
    "seeded": {"messages": STORY, "max_tokens": 8, "temperature": 0.9, "seed": 11},
    "a named call": {
        "messages": [{"role": "user", "content": "What is up?"}],
        "max_tokens": 24,
        "seed": 11,
        "tools": [{"type": "function", "function": TOOL}],
        "tool_choice": {"type": "function", "function": {"name": "look"}},
    },
    "temperature 0": {"messages": STORY, "max_tokens": 8, "temperature": 0},
}


def main(times: int = 100, name: str = "short") -> int:
    """Ask each so many times; return how many answers were not the first one's bytes."""
    with TemporaryDirectory() as folder:
        file = real_path("smollm2")
        if name == "short":
            file = shorten(file, Path(folder) / "short.gguf", SHORT)
        with lm.load(file, ctx=2048, threads=1) as model, lm.serve(model, port=0) as server:
            same, asked = _beside_others(f"{server.url}/v1/chat/completions", times)
    print(f"with {OTHERS} others at work ({asked} answers), the same bytes as alone:")
    for which, count in same.items():
        print(f"  {which}: {count} of {times}")
    return sum(times - count for count in same.values())


def _beside_others(url: str, times: int) -> tuple[Counter[str], int]:
    """Return how often each answer was the one given alone, and how many the others had."""
    alone = {which: _said(url, asked, stream=False) for which, asked in ASKED.items()}
    assert [name for name, _ in alone["a named call"][1]] == ["look"]
    over, begun, same = threading.Event(), threading.Semaphore(0), Counter(dict.fromkeys(ASKED, 0))
    with ThreadPoolExecutor(OTHERS) as pool:
        others = [pool.submit(_other, url, number, over, begun) for number in range(OTHERS)]
        for _ in range(OTHERS):
            begun.acquire()
        try:
            for turn in range(times):
                for which, asked in ASKED.items():
                    same[which] += _said(url, asked, stream=bool(turn % 2)) == alone[which]
        finally:
            over.set()
        return same, sum(other.result() for other in others)


def _said(url: str, asked: dict[str, Any], *, stream: bool) -> tuple[str, list[tuple[str, str]]]:
    """Return the text and the calls of an answer."""
    answer = CLIENT.post(url, json={**asked, "stream": stream})
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
            "max_tokens": 2 + 2 * number,
        }
        if number == OTHERS - 1:
            body["seed"] = count
        if count == 0:
            begun.release()
        assert CLIENT.post(url, json=body).status_code == 200
        count += 1
    return count


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1]) if sys.argv[1:] else 100, *sys.argv[2:]))
