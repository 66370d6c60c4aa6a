"""The long run of test_microscope_xray.py: `python tests/microscope/soak_stages.py FROM TO`."""

from __future__ import annotations

import sys
from collections import Counter

from test_microscope_xray import Words, follow, traces_of

import llama_magic as lm


def main(first: int = 0, last: int = 200) -> None:
    """Follow the random chains of these seeds; the first that is not NumPy's raises. Say what was in them."""
    seen: Counter[str] = Counter()
    with lm.load(ctx=2048, threads=1) as model:
        words, traces = Words(model), traces_of(model)
        for seed in range(first, last):
            seen.update(follow(model, words, traces, seed).samplers)
    print(f"{last - first} chains, every stage as NumPy has it: {dict(seen)}")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:3]))
