"""Load, use and close 60 times; print how resident memory moved."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from test_model_loading import cycles

sys.path.insert(0, str(Path(__file__).parents[1]))
from conftest import real_path
from scripted_gguf import build, chain


def main(rounds: int = 60) -> int:
    """Return 1 where memory grew by more than 8 MB after the first ten rounds."""
    with tempfile.TemporaryDirectory() as folder:
        scripted = build(Path(folder) / "scripted.gguf", chain("a", "b", "c"))
        sizes = list(cycles([scripted.path, real_path("smollm2")], rounds))
    grown = sizes[-1] - max(sizes[:10])
    print(
        f"{rounds} rounds of two models: {sizes[0] / 1e6:.0f} MB after the first, {sizes[-1] / 1e6:.0f} MB "
        f"after the last, {grown / 1e6:+.1f} MB since the tenth"
    )
    return int(grown > 8e6)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
