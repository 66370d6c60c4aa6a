"""The long run of test_structured_random.py: `python tests/structured/soak_structured_random.py FROM TO`."""

from __future__ import annotations

import sys
import time

from test_structured_random import check


def main(first: int = 0, last: int = 2000) -> None:
    """Check the random schemas of these seeds; the first broken one raises."""
    begun, answers, ended = time.monotonic(), 0, 0
    for seed in range(first, last):
        asked, done = check(seed)
        answers, ended = answers + asked, ended + done
        if seed % 100 == 99:
            print(
                f"{seed + 1} schemas, {answers} answers, {ended} ended, {time.monotonic() - begun:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
