"""A scripted model behind the magics of each test's shell."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from llama_magic.model.model import Model
from llama_magic.testing import ScriptedLoader, scripted_loader


@pytest.fixture(scope="package")
def client() -> Iterator[Any]:
    """A kernel, spoken to as a front end does."""
    from jupyter_client.manager import start_new_kernel

    manager, found = start_new_kernel(startup_timeout=600, kernel_name="python3")
    yield found
    found.stop_channels()
    manager.shutdown_kernel(now=True)


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
