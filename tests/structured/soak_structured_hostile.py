"""Hostile inputs in numbers: `python tests/structured/soak_structured_hostile.py FROM TO`.

Each is compiled and stepped a little: it works, or it is a `SchemaError`, within two seconds of
processor time; a crash of the native code ends this process.
"""

from __future__ import annotations

import faulthandler
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import hostile
import numpy as np
from structured_support import smollm2

from llama_magic import structured
from llama_magic.errors import BackendError, SchemaError

MAKERS: list[tuple[str, Callable[[random.Random], Any]]] = [
    ("schema", hostile.schema),
    ("schema", hostile.bomb),
    ("regex", hostile.regex),
    ("grammar", hostile.gbnf),
    ("lark", hostile.lark),
]
LIMIT_S = 2.0


def check(seed: int) -> tuple[str, float]:
    """Try one input; return how it went and the seconds of processor time; anything else raises."""
    chance = random.Random(seed)
    kind, make = MAKERS[seed % len(MAKERS)]
    given = make(chance)
    begun = time.process_time()
    try:
        spec = {"spec": given} if kind == "schema" else {kind: given}
        constraint = structured.compile(vocabulary=smollm2(), **spec)
    except SchemaError:
        return f"{kind} refused", time.process_time() - begun
    constraint.min_tokens()
    for text in ("", "a", '{"a":1}', "[[null]]", '"' + "a" * 40 + '"'):
        constraint.accepts(text)
    if kind == "lark":  # /a+/{2} forces "a" for ever inside llguidance; no call generates under Lark
        return "lark compiles", time.process_time() - begun
    matcher = constraint.start()
    try:
        for _ in range(12):
            if matcher.finished:
                break
            allowed = matcher.allowed()
            assert allowed.size, (seed, "nothing may come next")
            matcher.accept(int(allowed[chance.randrange(allowed.size)]))
            matcher.forced()
    except BackendError:
        return f"{kind} stopped", time.process_time() - begun
    return f"{kind} works", time.process_time() - begun


def main(first: int = 0, last: int = 5000) -> None:
    """Check the inputs of these seeds; print how many went which way and the slowest."""
    faulthandler.enable()
    constraint = structured.compile({"type": "null"}, vocabulary=smollm2())
    constraint.start().apply(np.zeros(smollm2().n_tokens, dtype=np.float32))
    results: Counter[str] = Counter()
    slowest = (0.0, 0)
    for seed in range(first, last):
        faulthandler.dump_traceback_later(60, exit=True)
        print(f"\r{seed} ", end="", file=sys.stderr, flush=True)
        how, spent = check(seed)
        results[how] += 1
        slowest = max(slowest, (spent, seed))
        if spent > LIMIT_S:
            print(f"SLOW seed {seed}: {how}, {spent:.1f} s", flush=True)
    faulthandler.cancel_dump_traceback_later()
    print(f"{last - first} inputs: {dict(sorted(results.items()))}")
    print(f"slowest {slowest[0]:.2f} s, seed {slowest[1]}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
