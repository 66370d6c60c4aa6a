"""Small models that stand for real ones; `soak_real_models.py` runs tests with those in their place."""

from __future__ import annotations

import os

STANDS_FOR = {"short": "smollm2", "windowed": "gemma"}
ONLY_REAL = bool(os.environ.get("ONLY_REAL_MODELS"))
TALKERS = ("smollm2", "gemma") if ONLY_REAL else ("smollm2",)  # what they write has the tokens of its text


def taken(name: str) -> str:
    """Return the name of the model that a test gets."""
    return STANDS_FOR.get(name, name) if ONLY_REAL else name
