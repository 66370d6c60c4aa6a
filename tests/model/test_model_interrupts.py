"""Ctrl-C: a real SIGINT at scattered moments, prompt reading included."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("interrupts.py")


def run(path: Path, moments: int, threads: int = 1) -> dict[str, Any]:
    """Interrupt `moments` calls and return what came of them."""
    command = [sys.executable, str(SCRIPT), str(path), str(moments), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr == ""
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_interrupt_at_scattered_moments(path_of: Callable[[str], Path]) -> None:
    """Each of 8 ends its call long before the call would end, keeps what was written, leaves the engine idle;
    seeded answers stay the same. (How soon it is felt is measured in soak_interrupts.py.)
    """
    found = run(path_of("short"), 8)
    kinds = [fact["kind"] for fact in found["facts"]]
    assert kinds.count("generation") >= 7, kinds
    for fact in found["facts"]:
        assert not fact["busy"]
        if fact["kind"] == "generation":
            assert fact["reason"] == "interrupted"
            assert fact["tokens"] < 1000  # of 1,500
            assert fact["whole"]
            assert fact["text"]
    counts = [fact.get("tokens", 0) for fact in found["facts"]]
    assert 0 in counts  # in the middle of the prompt
    assert any(counts)
    assert (found["same"], found["asked"]) == (2, 2)
