"""Interrupt 100 generations at scattered moments; print the slowest reaction. Limit: 0.25 s."""

from __future__ import annotations

import sys
from pathlib import Path

from test_model_interrupts import run

sys.path.insert(0, str(Path(__file__).parents[1]))
from conftest import real_path


def main() -> int:
    """Return 1 where one was felt late, lost text, or changed a seeded answer."""
    found = run(real_path("smollm2"), 100, threads=2)
    felt = sorted(fact["felt"] for fact in found["facts"])
    kinds = [fact["kind"] for fact in found["facts"]]
    print(f"100 interrupts: median {felt[50] * 1000:.0f} ms, slowest {felt[-1] * 1000:.0f} ms; "
          f"{kinds.count('generation')} in a generation; {found['same']} of {found['asked']} "
          "seeded answers unchanged")  # fmt: skip
    return int(felt[-1] > 0.25 or found["same"] != found["asked"] or any(f["busy"] for f in found["facts"]))


if __name__ == "__main__":
    sys.exit(main())
