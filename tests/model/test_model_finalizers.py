"""Finalizers, signal handlers and the collector run on any thread at any moment: nothing may hang."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from scripted_gguf import build, chain

SCRIPT = Path(__file__).with_name("finalizers.py")
CASES = {"cycles": 150, "on_the_engine": 60, "at_every_step": 4, "closing": 5}
if sys.platform != "win32":
    CASES["signals"] = 60


@pytest.mark.parametrize("case", CASES)
def test_nothing_hangs(tmp_path: Path, case: str) -> None:
    """Streams that die in cycles, on the engine's thread, at each of its bytecodes and under signals leave
    a model that gives the same seeded answer.
    """
    run(tmp_path, case, CASES[case], 240)


def run(folder: Path, case: str, count: int, seconds: int) -> None:
    """Run a case in a child that ends by itself, with the stacks of its threads, where it hangs."""
    file = build(folder / "endless.gguf", chain("a", "b", "a"), default="a")
    command = [sys.executable, str(SCRIPT), str(file.path), case, str(count), str(seconds)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
