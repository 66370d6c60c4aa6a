"""A real InteractiveShell for each test, with the magics registered and a scripted model behind them."""

from __future__ import annotations

import atexit
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from llama_magic.model.model import Model
from llama_magic.testing import ScriptedLoader, scripted_loader


@pytest.fixture
def ip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A fresh shell as `get_ipython()`, in an empty folder, its history in memory."""
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    from llama_magic import magics
    from llama_magic.session import session

    # Another test of this process may have left a model open; a kernel of its own has none.
    monkeypatch.setattr(session, "loaded_in_python", list)
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
def loader(ip: Any) -> ScriptedLoader:
    """What `%llama load` asks in this shell: every source is a scripted model."""
    return scripted_loader(shell=ip)


@pytest.fixture
def session(ip: Any, loader: ScriptedLoader) -> Any:
    """The shell's session, its loader scripted."""
    from llama_magic.session import session

    return session.current(ip)


@pytest.fixture
def model(session: Any) -> Model:
    """A scripted model, current in the session; `model.backend` has the answers and the requests."""
    found: Model = session.load("fake")
    return found


@pytest.fixture
def engine(session: Any, scripted: Any) -> Any:
    """A tiny model in a real engine, current in the session: for what only an engine has."""
    session.keep(scripted)
    return scripted


@pytest.fixture
def run(ip: Any) -> Any:
    """Run a cell as a user does; returns the `ExecutionResult`, raising nothing."""

    def run_cell(source: str, cell_id: str | None = None) -> Any:
        return ip.run_cell(source, store_history=True, cell_id=cell_id)

    return run_cell
