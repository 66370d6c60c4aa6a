"""A real InteractiveShell for each test, with the magics registered and a scripted model behind them."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fake_model import FakeLoader, FakeModel


@pytest.fixture
def ip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A fresh shell as `get_ipython()`, in an empty folder, its history in memory."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    from llama_magic import magics
    from llama_magic.session import session

    # Another test of this process may have left a model open; a kernel of its own has none.
    monkeypatch.setattr(session, "_loaded_in_python", list)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / ".ipython"))
    monkeypatch.setenv("LLAMA_MAGIC_CACHE", str(tmp_path / ".cache"))
    monkeypatch.setenv("HF_HOME", str(tmp_path / ".hf"))
    config = Config()
    config.HistoryManager.hist_file = ":memory:"
    config.HistoryManager.enabled = False
    InteractiveShell.clear_instance()
    hook, main = sys.displayhook, sys.modules["__main__"]
    shell = InteractiveShell.instance(config=config)
    magics.register(shell)
    yield shell
    magics.unregister(shell)
    atexit.unregister(shell.atexit_operations)
    shell.atexit_operations()
    InteractiveShell.clear_instance()
    sys.displayhook, sys.modules["__main__"] = hook, main


@pytest.fixture
def session(ip: Any) -> Any:
    """The shell's session, its loader scripted."""
    from llama_magic.session import session

    current = session.current(ip)
    current.loader = FakeLoader()
    return current


@pytest.fixture
def model(session: Any) -> FakeModel:
    """A loaded scripted model, current in the session."""
    found = session.load("fake")
    assert isinstance(found, FakeModel)
    return found


@pytest.fixture
def run(ip: Any) -> Any:
    """Run a cell as a user does; returns the `ExecutionResult`, raising nothing."""

    def run_cell(source: str, cell_id: str | None = None) -> Any:
        return ip.run_cell(source, store_history=True, cell_id=cell_id)

    return run_cell
