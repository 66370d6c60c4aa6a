"""Load, use and close 60 times; print how resident memory moved."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from held_memory import cycles

sys.path.insert(0, str(Path(__file__).parents[1]))
from conftest import real_path
from scripted_gguf import build, chain


def main(rounds: int = 60) -> int:
    """Return 1 where the least of the last ten rounds is 4 MB over the least of the second to tenth."""
    with tempfile.TemporaryDirectory() as folder:
        scripted = build(Path(folder) / "scripted.gguf", chain("a", "b", "c"))
        sizes = list(cycles([scripted.path, real_path("smollm2")], rounds))
    grown = min(sizes[-10:]) - min(sizes[1:10])
    print(
        f"{rounds} rounds of two models: {sizes[0] / 1e6:.0f} MB after the first, {sizes[-1] / 1e6:.0f} MB "
        f"after the last, {grown / 1e6:+.1f} MB between the least of the first ten and of the last"
    )
    return int(grown > 4e6)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
