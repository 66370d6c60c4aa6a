"""All labels of maskbench, of which test_structured_maskbench.py takes every sixteenth schema."""

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
    right = f"{found['right']} of {len(rows)} schemas are right, {found['masked']} by the mask alone"
    times = f"compiled in {found['p50']:.1f} ms (p50), {found['p99']:.1f} ms (p99)"
    print(f"maskbench: {right}; {found['invalid']} invalid texts pass; {times}")
    print(f"{len(found['disordered'])} valid texts are refused for the order of their keys")
    wrong = found["invalid"] or found["disordered"]
    few = found["right"] < 0.99 * len(rows) or found["masked"] < 0.9 * len(rows)
    return int(bool(wrong or few))


if __name__ == "__main__":
    sys.exit(main())
