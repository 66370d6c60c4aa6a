"""Kernels that write to a record, killed at random moments; a hundred times."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from test_record_file import kills


def main(count: int = 100) -> int:
    """Raise AssertionError where a kill left something half, or lost what was known to be kept."""
    with tempfile.TemporaryDirectory() as folder:
        states = kills(Path(folder) / "answers.sqlite", count)
    print(
        f"{len(states)} kills, {states[-1]['kept']} answers kept, {states[-1]['told']} of them known",
        flush=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        states = kills(Path(folder) / "answers.sqlite", 4 * count, "full")
    print(f"{len(states)} full disks, {sum(not state['named'] for state in states)} not named", flush=True)
    return int(not all(state["named"] for state in states))


if __name__ == "__main__":
    sys.exit(main())
