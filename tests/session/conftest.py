"""Each test here begins with a kernel of its own."""

from __future__ import annotations

import pytest

from llama_magic.session import session


@pytest.fixture(autouse=True)
def _no_models_of_other_tests(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models that other tests of this process hold open are none of this session's."""
    monkeypatch.setattr(session, "loaded", list)
