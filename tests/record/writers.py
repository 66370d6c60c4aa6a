"""Processes that write to a record: arguments are FILE, CASE, COUNT.

`many` writes COUNT answers, one a call. `kill` starts COUNT writers, kills each at a random moment, and
prints after each what the record holds: whole calls, answers, and those that a writer knew to be kept.
`full` does so with a disk that is full at COUNT places.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import sqlite3
import sys
from pathlib import Path
from typing import Any

from llama_magic.errors import SourceError
from llama_magic.record.record import Record
from llama_magic.testing import scripted_model

SAMPLES = 3
model = scripted_model(lambda request: f"an answer to {request.text}", window=4096)


def answers(number: int) -> list[Any]:
    """Return the answers of one call."""
    made: list[Any] = model.complete(f"question {number} " * 50, n=SAMPLES, max_tokens=200)
    return made


def many(path: Path, count: int) -> None:
    record = Record(path)
    for number in range(count):
        record.add(*model.complete(f"question {number}", n=2, max_tokens=9)[:1])


def write(path: Path, pipe: int) -> None:
    """Write calls until killed, and tell of each that is kept. The calls themselves were made before."""
    record = Record(path)
    for made in READY:
        os.write(pipe, b"b")
        record.add(*made)
        os.write(pipe, b"k")
    os._exit(0)


READY: list[list[Any]] = []


def kill(path: Path, count: int) -> None:
    chance = random.Random(count)
    told = 0
    for turn in range(count):
        READY[:] = [answers(number) for number in range(turn * 6, turn * 6 + 6)]
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            os.close(reader)
            write(path, writer)
        os.close(writer)
        signs = b""
        for _ in range(chance.randrange(12)):
            signs += os.read(reader, 1)
        for _ in range(chance.randrange(4000)):  # a moment
            pass
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        while more := os.read(reader, 100):
            signs += more
        os.close(reader)
        told += SAMPLES * signs.count(b"k")
        print(json.dumps(state(path, told)), flush=True)


def full(path: Path, count: int) -> None:
    """Let the disk be full at `count` places, of a new file and of an old one; print as `kill` does."""
    made = [answers(number) for number in range(4)]
    _kept(path, made)
    size = sum(part.stat().st_size for part in path.parent.glob(f"{path.name}*"))
    for turn in range(count):
        for part in path.parent.glob(f"{path.name}*"):
            part.unlink()
        told = SAMPLES * _kept(path, made[:1]) if turn % 2 else 0
        reader, writer = os.pipe()
        child = os.fork()
        if not child:
            most = size * (turn + 1) // count
            resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))
            with contextlib.suppress(SourceError):  # the file cannot even be begun
                os.write(writer, b"k" * _kept(path, made[1:]))
            os.write(writer, b"named")
            os._exit(0)
        os.close(writer)
        signs = b""
        while more := os.read(reader, 100):
            signs += more
        os.close(reader)
        os.waitpid(child, 0)
        found = state(path, told + SAMPLES * signs.count(b"k"))
        print(json.dumps(found | {"named": signs.endswith(b"named")}), flush=True)


def _kept(path: Path, made: list[list[Any]]) -> int:
    """Add calls until one cannot be kept, which is named by `SourceError`; return how many were."""
    kept = 0
    with Record(path) as record:
        for one in made:
            try:
                record.add(*one)
            except SourceError:
                break
            kept += 1
    return kept


def state(path: Path, told: int) -> dict[str, Any]:
    """Return what is in the record as its own reader and as SQLite see it."""
    with Record(path) as record:
        whole = [len(one.text) > len("an answer to ") and one.text.split()[-1] for one in record]
        calls: dict[str, int] = {}
        for one in record:
            calls[one.id.partition("-")[0]] = calls.get(one.id.partition("-")[0], 0) + 1
    connection = sqlite3.connect(path)
    try:
        ((check,),) = connection.execute("PRAGMA integrity_check")
    finally:
        connection.close()
    return {
        "told": told,
        "kept": len(whole),
        "whole": all(whole),
        "calls": set(calls.values()) <= {SAMPLES},
        "check": check,
    }


if __name__ == "__main__":
    {"many": many, "kill": kill, "full": full}[sys.argv[2]](Path(sys.argv[1]), int(sys.argv[3]))
