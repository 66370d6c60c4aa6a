"""What the tests of the display share: a notebook that shows widgets, and no views of other tests."""

from __future__ import annotations

from typing import Any

import front_ends
import pytest

from llama_magic.display import hosts


@pytest.fixture(autouse=True)
def _no_views_of_other_tests() -> None:
    front_ends.answer_views()


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A shell in a notebook that shows widgets."""
    made = front_ends.shell()
    monkeypatch.setattr(hosts, "current_shell", lambda: made)
    monkeypatch.setattr(hosts, "host", lambda shell: "live")
    return made
