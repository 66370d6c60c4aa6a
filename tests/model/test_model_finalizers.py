"""Finalizers, signal handlers and the collector run on any thread at any moment: nothing may hang."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from scripted_gguf import build, chain

SCRIPT = Path(__file__).with_name("finalizers.py")
CASES = {"cycles": 150, "on_the_engine": 60, "closing": 5}
if sys.platform != "win32":
    CASES["signals"] = 60
CASES["at_every_step"] = 4  # the last: the engine's thread is traced from then on


def test_nothing_hangs(tmp_path: Path) -> None:
    """Streams that die in cycles, on the engine's thread, at each of its bytecodes and under signals leave
    a model that gives the same seeded answer.
    """
    run(tmp_path, CASES, 480)


def run(folder: Path, cases: dict[str, int], seconds: int) -> None:
    """Run cases in a child that ends by itself, with the stacks of its threads, where it hangs."""
    file = build(folder / "endless.gguf", chain("a", "b", "a"), default="a")
    command = [sys.executable, str(SCRIPT), str(file.path), str(seconds)]
    command += [f"{case}={count}" for case, count in cases.items()]
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds + 60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "".join(f"{case}\n" for case in cases), "")
