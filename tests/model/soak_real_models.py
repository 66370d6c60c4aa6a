"""Tests with the real models in place of the small ones that stand for them in `make test`.

Decisions, forks, prefill, steps of answers, restored sequences, embeddings of two pieces on Gemma and
SmolLM2; all real servers on SmolLM2.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
WHICH = (
    "experiments/test_experiments_decide.py::test_probabilities_are_those_of_teacher_forcing",
    "model/test_model_forks.py", "model/test_model_prefill.py",
    "model/test_model_embed.py::test_embeddings_are_the_mean_over_the_text",
    "microscope/test_microscope_xray.py::test_every_step_of_an_answer_draws_what_the_answer_has",
    "microscope/test_microscope_kv.py::test_restored_continuations_are_fresh_ones",
    "remote/test_remote_real.py",
)  # fmt: skip

if __name__ == "__main__":
    os.environ["ONLY_REAL_MODELS"] = "1"
    sys.exit(pytest.main(["-q", *(str(TESTS / which) for which in WHICH)]))
