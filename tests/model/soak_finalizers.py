"""20,000 streams that die in cycles, 2,000 of them on the engine's thread, 2,000 under signals."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from test_model_finalizers import run


def main() -> int:
    """Return 0; a hang is an AssertionError that shows where each thread stands."""
    counts = {"cycles": 16_000, "on_the_engine": 2_000, "signals": 2_000, "at_every_step": 50, "closing": 50}
    for case, count in counts.items():
        with tempfile.TemporaryDirectory() as folder:
            run(Path(folder), {case: count}, 1800)
        print(f"{case}: {count:,}, no hang", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
