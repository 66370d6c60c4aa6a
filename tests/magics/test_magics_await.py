"""Ctrl-C on a cell of the terminal's IPython that awaits: it ends there, and nothing of it goes on later."""

from __future__ import annotations

import asyncio
import itertools
import signal
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from IPython.core.async_helpers import get_asyncio_loop

from llama_magic.testing import Script, scripted_model

LINE = "Interrupted: what was written is in the history."
CELLS = {
    "a call": "await m.acomplete('Hello')",
    "a stream": "async for _ in m.acomplete('Hello', stream=True): pass",
    "several": "await asyncio.gather(*[m.acomplete('Hello') for _ in range(3)])",
    "one after the other": "for _ in range(3): done.append(await m.acomplete('Hello'))",
}


class _Gate(threading.Event):
    """Never opens; someone presses Ctrl-C when it has been tried ten times."""

    def __init__(self) -> None:
        super().__init__()
        self.tried = itertools.count(1)

    def wait(self, timeout: float | None = None) -> bool:
        if next(self.tried) == 10:
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        return super().wait(timeout)


@pytest.fixture
def gate() -> _Gate:
    """Where a call waits until Ctrl-C comes."""
    return _Gate()


@pytest.fixture
def waiting(gate: _Gate) -> Iterator[Any]:
    """A model whose first three answers wait for the gate, and the fourth does not."""
    with scripted_model([Script("late", reading=gate)] * 3 + [Script("soon")]) as model:
        yield model
        gate.set()


@pytest.mark.parametrize("cell", CELLS)
def test_the_cell_ends_and_does_not_go_on(
    ip: Any, waiting: Any, cell: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line is shown, no task is left in the loop, and the handler is Python's own again."""
    done: list[Any] = []
    ip.push({"m": waiting, "asyncio": asyncio, "done": done})
    result = ip.run_cell(CELLS[cell])
    assert isinstance(result.error_in_exec, asyncio.CancelledError)
    assert capsys.readouterr().out.strip() == LINE
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    ip.run_cell("await asyncio.sleep(0)")
    assert not asyncio.all_tasks(get_asyncio_loop())
    assert done == []


def test_a_loop_that_is_not_ipythons_is_left_alone(waiting: Any) -> None:
    """In a script that runs a loop by itself the interrupt comes out of it, as without us."""
    loop = asyncio.new_event_loop()
    task = loop.create_task(waiting.acomplete("Hello"))
    with pytest.raises(KeyboardInterrupt):
        loop.run_until_complete(task)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        loop.run_until_complete(task)
    loop.close()


def test_who_listens_to_signals_is_left_alone(ip: Any, waiting: Any, gate: _Gate) -> None:
    """A handler of the user's own is called, and stays; the call goes on."""

    def heard(_number: int, _frame: Any) -> None:
        gate.set()

    ip.push({"m": waiting})
    before = signal.signal(signal.SIGINT, heard)
    try:
        ip.run_cell("done = await m.acomplete('Hello')")
        assert signal.getsignal(signal.SIGINT) is heard
    finally:
        signal.signal(signal.SIGINT, before)
    assert ip.user_ns["done"].text == "late"
