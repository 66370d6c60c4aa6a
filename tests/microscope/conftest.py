"""The two models of the tests, those of all folders; each test begins with empty caches."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture(scope="session")
def smollm2(loaded: Callable[..., Any]) -> Any:
    """SmolLM2 135M: 49,152 tokens, no BOS in front, full attention."""
    return loaded("smollm2")


@pytest.fixture(scope="session")
def gemma(loaded: Callable[..., Any]) -> Any:
    """Gemma 3 270M: 262,144 tokens, BOS in front, sliding-window layers."""
    return loaded("gemma")


@pytest.fixture
def model(either: Any) -> Any:
    """A model of each kind, its caches empty."""
    either.kv_clear()
    return either
