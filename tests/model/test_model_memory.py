"""Memory is given back."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_gguf import Scripted

import llama_magic as lm


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="counted by glibc's mallinfo2")
def test_memory_is_given_back(scripted_file: Scripted, path_of: Callable[[str], Path]) -> None:
    """Load and close two in turn: from the third round on C code holds no more than before, within 1 MB."""
    # In a process of its own: what other tests hold, and give back, would be counted here.
    script = "import sys; from pathlib import Path; from held_memory import cycles\n"
    script += "print(*cycles([*map(Path, sys.argv[1:])], 6))"
    places = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    done = subprocess.run(
        [sys.executable, "-c", script, str(scripted_file.path), str(path_of("short"))],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
        env=environment,
    )
    sizes = [int(size) for size in done.stdout.split()]
    assert sizes[-1] - sizes[2] < 1e6, [round(s / 1e6, 2) for s in sizes]


@pytest.mark.parametrize("raised", [ValueError("mine"), OSError(5, "mine"), RecursionError("mine")])
def test_an_error_of_the_progress_callback_is_the_callers(raised: Exception, scripted_file: Scripted) -> None:
    """It leaves as it is, at whatever stage: no error of the source, of the disk or the network."""
    for stage in ("resolve", "load"):

        def progress(state: Any, stage: str = stage) -> None:
            if state.stage == stage:
                raise raised

        with pytest.raises(type(raised)) as caught:
            lm.load(scripted_file.path, ctx=256, threads=2, progress=progress)
        assert caught.value is raised
