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
    return 0


if __name__ == "__main__":
    sys.exit(main())
