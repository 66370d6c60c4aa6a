"""All labels of maskbench, of which test_structured_maskbench.py takes every fourth schema."""

from __future__ import annotations

import sys

from test_structured_maskbench import PATH, labelled, measure


def main() -> int:
    """Print what is right, and how long schemas take to compile; return 1 where something invalid passed."""
    if not PATH.exists():
        print(f"maskbench: {PATH} is not here")
        return 0
    rows = labelled()
    found = measure(rows)
    print(
        f"maskbench: of {len(rows)} schemas {found['right']} are wholly right, {found['masked']} by the mask alone, "
        f"{found['invalid']} invalid texts pass; p50 {found['p50']:.1f} ms, p99 {found['p99']:.1f} ms to compile"
    )
    return int(found["invalid"] > 0 or found["right"] < 0.99 * len(rows) or found["masked"] < 0.9 * len(rows))


if __name__ == "__main__":
    sys.exit(main())
