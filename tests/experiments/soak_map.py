"""A map over a thousand rows with a schema: interrupted at row 400, resumed, killed, resumed by its record.

    PYTHONPATH=tests python tests/experiments/soak_map.py [ROWS [SEED]]

Three kernels in turn. The first is interrupted at 40 in a hundred rows, goes on by `resume()`, and ends
hard (`os._exit`) at 70 in a hundred; the second makes the same call with the same record; the third finds
all done. Every answer that an engine ends is counted: none may be given twice. Memory may not grow
once a kernel has answered a tenth of the rows, but by the answers.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parents[2] / "benchmarks"))
from bench_map import MAX_TOKENS, QUESTION, SCHEMA, review
from conftest import real_path

import llama_magic as lm
from llama_magic.request.events import FinishEvent

_GROWTH = 32 * 2**20  # bytes that the answers themselves may take, and the allocator keeps


def main(rows: int = 1000, seed: str = "") -> int:
    """Return 1 where a row was done twice or not at all, or memory grew."""
    with tempfile.TemporaryDirectory() as folder:
        for stage in ("first", "second", "third"):
            command = [sys.executable, __file__, "--kernel", stage, folder, str(rows), seed]
            subprocess.run(command, check=stage != "first")
        ended = Counter((Path(folder) / "ended").read_text().split())
        with sqlite3.connect(Path(folder) / "runs.sqlite") as record:
            kept = record.execute("SELECT count(*), count(DISTINCT label) FROM answers").fetchone()
        record.close()
        grown = [int(line) for line in (Path(folder) / "memory").read_text().split()]
    twice = sum(count > 1 for count in ended.values())
    print(f"{len(ended)} prompts ended, {twice} twice; in the record {kept[0]} answers to {kept[1]} rows; "
          f"memory grew by {max(grown) / 2**20:.1f} MiB from a tenth of the rows on")  # fmt: skip
    return int(twice > 0 or len(ended) != rows or kept != (rows, rows) or max(grown) > _GROWTH)


def kernel(stage: str, folder: Path, rows: int, seed: str) -> None:
    """Carry out one kernel's part of the map."""
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    with lm.load(real_path("smollm2"), ctx=2048, threads=1) as model:
        ended = _count(model, folder / "ended")
        cpu, began, first = sum(os.times()[:2]), time.perf_counter(), [0.0]
        memory: dict[int, int] = {}

        def watch(standing: Any) -> None:
            if standing.done and not first[0]:
                first[0] = time.perf_counter() - began
            if len(ended) >= rows // 10:
                memory.setdefault(len(ended) * 20 // rows, _resident())
            if stage == "first" and stops and standing.done >= stops[0]:
                stops.pop()
                if len(stopped) == 0:
                    stopped.append(standing.done)
                    os.kill(os.getpid(), signal.SIGINT)
                else:
                    _note(folder, memory)
                    print(f"first: interrupted at row {stopped[0]}, ended hard at row {standing.done}; first "
                          f"row after {first[0]:.2f} s", flush=True)  # fmt: skip
                    os._exit(0)

        stops, stopped = [rows * 4 // 10], list[int]()
        texts = [{"text": review(row)} for row in range(rows)]
        how: dict[str, Any] = {
            "max_tokens": MAX_TOKENS,
            "temperature": 0.8,
            "seed": int(seed) if seed else None,
        }
        try:
            runs = lm.map(
                texts,
                QUESTION + "{{ text }}",
                schema=SCHEMA,
                model=model,
                record=folder / "runs.sqlite",
                progress=watch,
                **how,
            )
        except lm.GenerationInterrupted as stop:
            stops.append(rows * 7 // 10)
            stop.completion.resume()
            raise AssertionError("the first kernel was to end") from None
        spent = sum(os.times()[:2]) - cpu
        print(f"{stage}: {len(runs)} rows, {len(runs.failures)} failed, {spent:.1f} s of CPU, "
              f"{time.perf_counter() - began:.1f} s, load {os.getloadavg()[0]:.1f}", flush=True)  # fmt: skip
        _note(folder, memory)
        assert [run.row for run in runs] == list(range(rows))
        assert all(set(run.answer()) == set(SCHEMA["required"]) for run in runs if run.error is None)


def _count(model: Any, path: Path) -> list[str]:
    """Write down, and list, the prompt of each request that an engine ends, unless it was interrupted."""
    ended: list[str] = []
    submit = model.backend.submit

    def counted(request: Any, sink: Callable[[Any], None]) -> None:
        prompt = str(hash(tuple(request.prompt)))

        def heard(event: Any) -> None:
            if isinstance(event, FinishEvent) and event.reason != "interrupted":
                ended.append(prompt)
                with path.open("a") as file:
                    file.write(prompt + "\n")
            sink(event)

        submit(request, heard)

    model.backend.submit = counted
    return ended


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _note(folder: Path, memory: dict[int, int]) -> None:
    values = list(memory.values())
    print("resident MiB:", json.dumps([round(value / 2**20) for value in values]), flush=True)
    with (folder / "memory").open("a") as file:
        file.write(f"{max(values) - values[0] if values else 0}\n")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--kernel"]:
        kernel(sys.argv[2], Path(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
    else:
        sys.exit(main(*map(int, sys.argv[1:2]), *sys.argv[2:3]))
