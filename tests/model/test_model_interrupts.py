"""Ctrl-C: a real SIGINT at scattered moments, prompt reading included."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

SCRIPT = Path(__file__).with_name("interrupts.py")


def run(path: Path, moments: int, longest: float, threads: int = 1) -> dict[str, Any]:
    """Interrupt `moments` calls and return what came of them."""
    command = [sys.executable, str(SCRIPT), str(path), str(moments), str(longest), str(threads)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stderr == ""
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def test_interrupt_at_scattered_moments(path_of: Callable[[str], Path]) -> None:
    """Each of 12 is felt soon, keeps what was written, leaves the engine idle; seeded answers stay the
    same.
    """
    found = run(path_of("smollm2"), 12, 3.0)
    kinds = [fact["kind"] for fact in found["facts"]]
    assert kinds.count("generation") >= 10, kinds
    for fact in found["facts"]:
        assert fact["felt"] < 2  # 0.25 s on a quiet machine: soak_interrupts.py
        assert not fact["busy"]
        if fact["kind"] == "generation":
            assert fact["reason"] == "interrupted"
            assert fact["whole"]
            assert fact["text"]
    counts = [fact.get("tokens", 0) for fact in found["facts"]]
    assert 0 in counts  # in the middle of the prompt
    assert any(counts)
    assert (found["same"], found["asked"]) == (3, 3)
