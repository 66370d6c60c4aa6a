"""The harness of the benchmarks: what it says of programs whose speed is known."""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import itertools
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "benchmarks"


@pytest.fixture
def harness(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    """The harness, which keeps its results in a folder of the test."""
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = importlib.util.spec_from_file_location("harness", FOLDER / "harness.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "harness", module)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "FOLDER", tmp_path)
    return module


def _never(_options: object) -> dict[str, float]:
    raise AssertionError("a side runs in a process of its own")


# How fast the machine is at its n-th run.
WEATHER: dict[str, Callable[[int], float]] = {
    "steady": lambda n: 100.0,
    "slower and slower": lambda n: 100 - 3.0 * n,
    "faster and faster": lambda n: 100 + 5.0 * n,
    "now and then": lambda n: 40.0 if n % 5 == 2 else 100.0,
    "every other": lambda n: 100 + 7.0 * (n // 2 % 2),
}


@pytest.mark.parametrize("weather", WEATHER)
@pytest.mark.parametrize("rounds", [5, 8, 9])
@pytest.mark.parametrize("times", [False, True])
@pytest.mark.parametrize("factor", [1.0, 2.0])
def test_ratio_is_the_programs_not_the_machines(
    harness: ModuleType, weather: str, rounds: int, times: bool, factor: float
) -> None:
    """The same program on both sides gives 1.0 within its own quartiles, one twice as fast 2.0, rates or
    times, whatever the machine does meanwhile.
    """
    count = itertools.count()

    def run(side: object) -> dict[str, float]:
        rate = WEATHER[weather](next(count)) * (factor if side.name == "b" else 1)  # type: ignore[attr-defined]
        return {"case": 1 / rate if times else rate}

    sides = [harness.Side("a", _never), harness.Side("b", _never)]
    bench = harness.Bench("same", "Same", "per second", sides, less_is_better=times)
    result = harness.measure(bench, rounds, run, say=lambda _: None)
    ratios = {row.side: row.ratios for row in result.rows}
    assert [len(ratios[side]) for side in "ab"] == [rounds] * 2
    low, middle, high = harness.quartiles(ratios["b"])
    assert low <= factor * (1 + 1e-9)
    assert high >= factor * (1 - 1e-9)
    assert middle == pytest.approx(factor, rel=0.05)
    assert harness.quartiles(ratios["a"]) == (1, 1, 1)


def test_sides_take_turns_forwards_and_backwards(harness: ModuleType) -> None:
    """Every round runs each side once; rounds alternate in direction; the first one is not counted."""
    order: list[str] = []

    def run(side: object) -> dict[str, float]:
        order.append(side.name)  # type: ignore[attr-defined]
        return {"case": float(len(order))}

    sides = [harness.Side(name, _never) for name in "abc"]
    result = harness.measure(harness.Bench("x", "X", "u", sides), 3, run, say=lambda _: None)
    assert "".join(order) == "cbaabccbaabc"
    assert {row.side: row.values for row in result.rows}["a"] == [4, 9, 10]
    assert len(result.loads) == 12


def test_side_that_fails_is_a_row_that_says_why(harness: ModuleType) -> None:
    """A side that cannot run, or stops to run, is named with its reason; the others are measured."""

    def run(side: object) -> dict[str, float]:
        if side.name == "b":  # type: ignore[attr-defined]
            raise RuntimeError("not installed | here")
        return {"case": 2.0}

    sides = [harness.Side(name, _never) for name in "abc"]
    result = harness.measure(harness.Bench("x", "X", "u", sides), 5, run, say=lambda _: None)
    table = harness.markdown(result)
    assert "| all | b | left out: not installed / here | |" in table
    assert "| case | c | 2.00 (2.00 to 2.00) | 1.00 (1.00 to 1.00) |" in table


@pytest.mark.parametrize("path", sorted(FOLDER.glob("bench_*.py")), ids=lambda path: path.stem)
def test_every_benchmark_stands_on_the_harness(
    harness: ModuleType, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    """It names its sides, and what they take from this project and its tests is there."""
    for folder in (FOLDER.parent / "tests", FOLDER.parent / "tests" / "display"):
        monkeypatch.syspath_prepend(str(folder))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sides = [side.name for side in module.BENCH.sides]
    assert sides
    assert len(set(sides)) == len(sides)
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in {"llama_magic", "browser"}:
            found = importlib.import_module(str(node.module))
            assert [name.name for name in node.names if not hasattr(found, name.name)] == [], node.module


_SCRIPT = """
import os, sys
sys.path.insert(0, {folder!r})
from harness import Bench, Side, main
def same(options):
    print("noise on the way")
    return {{"threads": options.threads, "model": len(options.model)}}
def dies(options):
    raise SystemExit("no such library")
def process(options):
    return {{"process": os.getpid()}}
sides = [Side("a", same), Side("b", same), Side("c", dies), Side("d", process)]
sides.append(Side("e", same, peer="gguf-py"))
import harness, pathlib, peers
harness.FOLDER = pathlib.Path({results!r})
peers.FOLDER = harness.FOLDER / "nothing here"
main(Bench("script", "Script", "units", sides))
"""


def test_script_runs_each_side_in_processes_of_its_own(tmp_path: Path) -> None:
    """A benchmark script as a whole: five rounds at least, a process a run, one table kept as JSON; a side
    that ends with an error and one whose library is missing are rows with the reason.
    """
    script = tmp_path / "bench.py"
    script.write_text(_SCRIPT.format(folder=str(FOLDER), results=str(tmp_path)))
    command = [sys.executable, str(script), "--threads", "3", "--rounds", "1", "12345"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    rows = {
        (r["side"], r["case"]): r for r in json.loads((tmp_path / "script-12345-3.json").read_text())["rows"]
    }
    assert rows["b", "threads"]["values"] == [3.0] * 5
    assert rows["b", "model"]["ratios"] == [1.0] * 5
    assert len(set(rows["d", "process"]["values"])) == 5
    assert rows["c", "all"]["failure"] == "no such library"
    assert "peers.py gguf-py" in rows["e", "all"]["failure"]
    assert "| threads | b | 3.00 (3.00 to 3.00) | 1.00 (1.00 to 1.00) |" in done.stdout


def test_results_are_collected_in_one_table(harness: ModuleType, tmp_path: Path) -> None:
    """`harness.py` by itself puts all kept results into one Markdown and one JSON file."""
    for name in ("one", "two"):
        bench = harness.Bench(name, name.title(), "u", [harness.Side("a", _never)])
        harness.save(harness.measure(bench, 5, lambda side: {"case": 1.0}, say=lambda _: None), name)
    harness.collect()
    harness.collect()  # the table itself is no result
    table = (tmp_path / "table.md").read_text()
    assert [table.count(f"### {title}\n") for title in ("One", "Two")] == [1, 1]
    assert len(json.loads((tmp_path / "table.json").read_text())) == 2


def test_what_is_called_of_the_browser_tests_page_is_there() -> None:
    """No test runs the benchmark of the live view, and what it drives is the tests' own."""
    page = importlib.import_module("browser.page").Page
    calls = [
        node
        for node in ast.walk(ast.parse((FOLDER / "bench_live_view.py").read_text("utf-8")))
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and isinstance(node.func.value, ast.Name)
        and node.func.value.id == "tab"
    ]
    assert {"start", "open", "run", "finished"} <= {call.func.attr for call in calls}
    for call in calls:
        given = {str(keyword.arg): None for keyword in call.keywords}
        inspect.signature(getattr(page, call.func.attr)).bind(page, *call.args, **given)
