"""Interrupt one generation at a given moment with a real SIGINT, again and again, in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from typing import Any

import llama_magic as lm

PROMPT = "The river runs through the valley. " * 20  # some 140 tokens
OPTIONS: dict[str, Any] = {"max_tokens": 10, "seed": 3, "temperature": 0}


def interrupt(model: Any, delay: float, seed: int | None, stream: bool) -> dict[str, Any]:
    """Start a long call, send SIGINT after `delay` seconds, say what came of it and after how long."""
    sent: list[float] = []

    def send() -> None:
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    timer = threading.Timer(delay, send)
    facts: dict[str, Any] = {"kind": "none"}
    written = ""
    try:
        timer.start()
        made = model.complete(PROMPT, max_tokens=1500, seed=seed, stream=stream, ignore_eos=True)
        for chunk in made if stream else ():
            written += chunk.delta
        threading.Event().wait(60)  # the call was over before: take the interrupt here
    except lm.GenerationInterrupted as caught:
        done = caught.completion
        facts = {"kind": "before the call had begun"} if done is None else {
            "kind": "generation",
            "reason": done.finish_reason,
            "tokens": len(done.token_ids),
            "whole": done.text.startswith(written),
            "text": model.detokenize(done.token_ids).startswith(done.text[:20]) if done.token_ids else True,
        }  # fmt: skip
    except KeyboardInterrupt:  # a busy machine: the signal came while the timer's thread was starting
        facts = {"kind": "before the call had begun"}
    if sent:
        facts["felt"] = time.perf_counter() - sent[0]
    timer.join()
    facts["busy"] = model.backend.call(lambda core: any(lane.busy for lane in core.lanes))
    return facts


def main(path: str, moments: int, threads: int) -> int:
    """Print one JSON line: facts of each moment, and whether seeded answers stayed the same.

    The moments lie between a call's beginning and twice the time in which, on this machine as busy as it is
    now, the prompt is read and 10 tokens are written.
    """
    with lm.load(path, ctx=2048, threads=threads) as model:
        first = model.complete(PROMPT, reuse=False, **OPTIONS)
        expected, longest = first.token_ids, 2 * first.timings.total_s
        facts, same = [], 0
        for i in range(moments):
            delay = 0.001 + longest * ((i * 0.618) % 1)
            if i % 2:
                model.backend.call(lambda core: [lane.forget() for lane in core.lanes])
            facts.append(interrupt(model, delay, seed=9 if i % 3 else None, stream=i % 2 == 0))
            if i % 4 == 3:
                same += model.complete(PROMPT, **OPTIONS).token_ids == expected
    print(json.dumps({"facts": facts, "same": same, "asked": moments // 4}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
