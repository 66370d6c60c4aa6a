"""Interrupt one generation at a given moment with a real SIGINT, again and again, in a process of its own."""

from __future__ import annotations

import itertools
import json
import os
import signal
import sys
import threading
import time
from typing import Any

import llama_magic as lm
from llama_magic.engine.native import Context

PROMPT = "The river runs through the valley. " * 20  # some 140 tokens
OPTIONS: dict[str, Any] = {"max_tokens": 10, "seed": 3, "temperature": 0}


class Press:
    """A SIGINT `delay` seconds after that decode began; at 0 the decode waits until the signal is heard."""

    def __init__(self, number: int, delay: float) -> None:
        self.sent: list[float] = []
        self._decode, self._heard = Context.decode, threading.Event()
        self._timer = threading.Timer(delay, self._send)
        decodes = itertools.count(1)

        def decode(context: Context, *batch: Any) -> Any:
            if next(decodes) == number:
                if delay:
                    self._timer.start()
                else:
                    self._send()
                    self._heard.wait(600)
            return self._decode(context, *batch)

        signal.signal(signal.SIGINT, self._hear)
        Context.decode = decode  # type: ignore[method-assign]

    def _send(self) -> None:
        self.sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    def _hear(self, *_signal: object) -> None:
        self._heard.set()
        raise KeyboardInterrupt

    def over(self) -> None:
        Context.decode = self._decode  # type: ignore[method-assign]


def interrupt(model: Any, press: Press, seed: int | None, stream: bool) -> dict[str, Any]:
    """Start a long call that is interrupted, say what came of it and after how long."""
    facts: dict[str, Any] = {"kind": "none"}
    written = ""
    try:
        made = model.complete(PROMPT, max_tokens=1500, seed=seed, stream=stream, ignore_eos=True)
        for chunk in made if stream else ():
            written += chunk.delta
        threading.Event().wait(600)  # the call was over before: take the interrupt here
    except lm.GenerationInterrupted as caught:
        done = caught.completion
        facts = {"kind": "before the call had begun"} if done is None else {
            "kind": "generation",
            "reason": done.finish_reason,
            "tokens": len(done.token_ids),
            "whole": done.text.startswith(written),
            "text": model.detokenize(done.token_ids).startswith(done.text[:20]) if done.token_ids else True,
        }  # fmt: skip
    except KeyboardInterrupt:
        facts = {"kind": "after the call"}
    if press.sent:
        facts["felt"] = time.perf_counter() - press.sent[0]
    press.over()
    facts["busy"] = model.backend.call(lambda core: any(lane.busy for lane in core.lanes))
    return facts


def main(path: str, moments: int, threads: int) -> int:
    """Print one JSON line: facts of each moment, and whether seeded answers stayed the same.

    The moments lie within the first twelve decodes: the prompt's, where it is not known, and those of tokens.
    """
    with lm.load(path, ctx=2048, threads=threads) as model:
        first = model.complete(PROMPT, reuse=False, **OPTIONS)
        expected, step = first.token_ids, first.timings.total_s / 11
        facts, same = [], 0
        for i in range(moments):
            if i % 2 == 0:
                model.backend.call(lambda core: [lane.forget() for lane in core.lanes])
            press = Press(1 + i * 5 % 12, step * ((i * 0.618) % 1))
            facts.append(interrupt(model, press, seed=9 if i % 3 else None, stream=i % 2 == 0))
            if i % 4 == 3:
                same += model.complete(PROMPT, **OPTIONS).token_ids == expected
    print(json.dumps({"facts": facts, "same": same, "asked": moments // 4}))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])))
