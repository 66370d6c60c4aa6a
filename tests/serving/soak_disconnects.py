"""Requests of which a third hang up at a random moment, 50 at a time; cells of the kernel run beside them.

    PYTHONPATH=tests python tests/serving/soak_disconnects.py [REQUESTS [AT_A_TIME]]

What is left at the end: no answer, no running sequence, no thread and no descriptor more than at the
beginning.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import random
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).parents[1]))
from conftest import real_path
from scripted_gguf import build, chain

import llama_magic as lm

CHAT = "/v1/chat/completions"
_SPARE = 2  # descriptors and threads that come and go by themselves


def main(requests: int = 2000, at_a_time: int = 50, which: str = "tiny") -> int:
    """Return 1 where something is left."""
    folder = Path(os.environ.get("TMPDIR", "/tmp"))
    tiny = build(folder / f"soak-{os.getpid()}.gguf", {**chain("a", "b"), "b": "a"}, default="a").path
    path = real_path("smollm2") if which == "real" else tiny
    with lm.load(path, ctx=4096, threads=1) as model, lm.serve(model, port=0) as server:
        _many(server.url, server.port, at_a_time * 2, at_a_time)
        before = _counts(server)
        over = threading.Event()
        cells: list[str] = []
        beside = threading.Thread(target=_cells, args=(model, over, cells))
        beside.start()
        began = time.monotonic()
        done = _many(server.url, server.port, requests, at_a_time)
        took = time.monotonic() - began
        over.set()
        beside.join()
        after = _settled(server, before)
        running = [s for s in model.kv.sequences if s.running]
        left = len(server._state.answers)
    tiny.unlink()
    print(f"{requests} requests, {at_a_time} at a time, {took:.0f} s: {done}; {len(cells)} cells beside them")
    print(f"descriptors {before[0]} -> {after[0]}, threads {before[1]} -> {after[1]}, "
          f"running sequences {len(running)}, answers under way {left}")  # fmt: skip
    grown = any(b > a + _SPARE for a, b in zip(before, after, strict=True))
    return int(grown or bool(running) or bool(left) or not cells or len(set(cells)) > 1)


def _cells(model: Any, over: threading.Event, cells: list[str]) -> None:
    """Ask as a cell does, until it is over; a seeded answer is always the same."""
    while not over.is_set():
        cells.append(model.complete("a", max_tokens=8, seed=3).text)


def _many(url: str, port: int, count: int, at_a_time: int) -> dict[str, int]:
    """Send requests; return how many ended how."""
    draw = random.Random(count)
    kinds = ("whole", "stream", "gone")
    plans = [(draw.choice(kinds), draw.random(), draw.randrange(5, 120)) for _ in range(count)]
    with ThreadPoolExecutor(at_a_time) as pool:
        ended = list(pool.map(lambda plan: _one(url, port, *plan), plans))
    return {kind: ended.count(kind) for kind in dict.fromkeys(ended)}


def _one(url: str, port: int, kind: str, moment: float, most: int) -> str:
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": "a" * (1 + most)}],
        "max_tokens": most,
        "ignore_eos": True,
        "stream": kind != "whole",
    }
    if kind != "gone":
        with httpx.Client(timeout=600) as client:
            answer = client.post(url + CHAT, json=body)
            assert answer.status_code == 200, answer.text
            return kind
    data = json.dumps({**body, "stream": moment < 0.7}).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n\r\n".encode()
    with socket.create_connection(("127.0.0.1", port), timeout=600) as sock:
        cut = len(data) if moment > 0.1 else len(data) // 2  # some go in the middle of their question
        sock.sendall(head + data[:cut])
        if cut == len(data):
            sock.settimeout(moment)
            with contextlib.suppress(TimeoutError):
                sock.recv(1 + int(2000 * moment))
    return kind


def _counts(server: Any) -> tuple[int, int]:
    _rest(server)
    gc.collect()
    return len(os.listdir("/proc/self/fd")), threading.active_count()


def _settled(server: Any, before: tuple[int, int]) -> tuple[int, int]:
    """Return the counts when they are down again, or after a minute."""
    give_up = time.monotonic() + 60
    while any(b > a for a, b in zip(before, _counts(server), strict=True)) and time.monotonic() < give_up:
        time.sleep(0.2)
    return _counts(server)


def _rest(server: Any) -> None:
    give_up = time.monotonic() + 60
    while not all(row.ended for row in list(server.log)) and time.monotonic() < give_up:
        time.sleep(0.05)


if __name__ == "__main__":
    sys.exit(main(*(int(word) if word.isdecimal() else word for word in sys.argv[1:])))  # type: ignore[arg-type]
