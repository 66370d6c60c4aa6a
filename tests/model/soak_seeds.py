"""Seeds on each model, with weights repacked and as they are: the tests, and long random schedules of calls
and cancellations, after which every seeded answer is that of a cold engine."""

from __future__ import annotations

import random
import sys
import time
from pathlib import Path

import llama_magic as lm

sys.path.insert(0, str(Path(__file__).parents[1]))
from conftest import REAL, real_path
from test_model_seeds import (
    cold,
    schedule,
    test_alternating_chats_over_the_sliding_window,
    test_beside_seven_others_and_after_cancels,
    test_lengths_around_cuts,
    test_samples_of_one_call_are_one_unit,
)

TESTS = (
    test_lengths_around_cuts,
    test_alternating_chats_over_the_sliding_window,
    test_beside_seven_others_and_after_cancels,
    test_samples_of_one_call_are_one_unit,
)


def main(steps: int = 60) -> int:
    """Return 1 where an answer differed."""
    wrong = 0
    for name in REAL:
        for profile in ("balanced", "quality"):  # weights repacked, and as they are in the file
            began = time.perf_counter()
            with lm.load(real_path(name), ctx=2048, profile=profile) as model:
                for test in TESTS:
                    test(model)
                draw = random.Random(f"{name} {profile}")
                answers = list(schedule(model, draw, steps, [20, 63, 64, 65, 130, 300, 600]))
                different = sum(cold(model, prompt, **options) != ids for prompt, options, ids in answers)
            wrong += different
            took = time.perf_counter() - began
            facts = f"{len(answers)} seeded answers, {different} differ from cold"
            print(f"{name}, {profile}: {facts} ({took:.0f} s)", flush=True)
    return int(wrong > 0)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
