"""What is held weakly: done soon when it is gone, without a line of Python where it goes."""

from __future__ import annotations

import ast
import asyncio
import gc
import sys
import threading
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from settled import WATCHDOG, until

from llama_magic import weakly
from llama_magic.model.mail import mail
from llama_magic.testing import Script, scripted_model
from llama_magic.threads import may_wait
from llama_magic.weakly import WeakMethods, WeakTable, when_gone

PACKAGE = Path(weakly.__file__).parent
# What runs Python where an object goes; `ref` with one argument does not.
IN_PYTHON = {"finalize", "WeakKeyDictionary", "WeakValueDictionary", "WeakSet", "WeakMethod", "__del__"}


class Thing:
    """Something that can be held weakly."""

    def __init__(self) -> None:
        self.heard: list[Any] = []

    def hear(self, *words: Any) -> None:
        self.heard.append(words)


def python_run_by(work: Callable[[], object]) -> list[str]:
    """Return the functions that Python enters on this thread while `work`, which is C, is called."""
    entered: list[str] = []

    def profile(frame: Any, event: str, _argument: Any) -> None:
        if event == "call":
            entered.append(frame.f_code.co_qualname)

    gc.collect()
    gc.disable()
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)
        gc.enable()
    return entered


def test_nothing_runs_python_where_an_object_goes() -> None:
    """The package has no `__del__` and no weak reference whose callback is written in Python."""
    found = []
    for path in PACKAGE.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = getattr(node, "attr", None) or getattr(node, "id", None) or getattr(node, "name", None)
            callback = (
                isinstance(node, ast.Call) and len(node.args) > 1 and name_of(node.func) in ("ref", "proxy")
            )
            if name in IN_PYTHON or callback:
                found.append(f"{path.relative_to(PACKAGE)}:{getattr(node, 'lineno', 0)} {name}")
    assert found == []


def name_of(function: ast.expr) -> str:
    return getattr(function, "attr", None) or getattr(function, "id", "")


def test_work_is_done_on_a_thread_of_ours_when_a_thing_is_gone() -> None:
    """Where it goes nothing is run; its work is done once, on a thread for which nobody may wait."""
    done: list[tuple[str, bool]] = []
    told = threading.Event()
    things = [Thing()]
    when_gone(things[0], lambda: (done.append((threading.current_thread().name, may_wait())), told.set()))
    assert not told.wait(0.01)
    assert python_run_by(things.clear) == []
    assert told.wait(WATCHDOG)
    assert done == [("llama_magic gone", False)]


def test_work_that_is_called_off_is_not_done() -> None:
    """What is called off, twice even, is not done; what fails keeps nothing else from being done."""
    done: list[str] = []
    told = threading.Event()
    things = [Thing(), Thing(), Thing()]
    call_off = when_gone(things[0], lambda: done.append("called off"))
    when_gone(things[1], lambda: 1 / 0)
    call_off()
    when_gone(things[2], told.set)
    call_off()
    things.clear()
    assert told.wait(WATCHDOG)
    assert done == []


def test_a_stream_that_dies_runs_no_python_and_is_stopped() -> None:
    """A stream that nobody holds is cancelled, and no line is run where a Ctrl-C would be lost."""
    with scripted_model([Script("a b c d e", at=2, hold=threading.Event())]) as model:  # which nobody sets
        streams = [model.complete("x", stream=True, max_tokens=9)]
        next(streams[0])
        assert python_run_by(streams.clear) == []
        until(lambda: model.stats.interrupted == 1)


def test_a_table_holds_its_keys_weakly() -> None:
    """A value is found by its very key, the first one put stays, the dead leave; no Python runs."""
    table: WeakTable[Any, Thing] = WeakTable()
    keys, values = [Thing(), Thing()], [Thing(), Thing()]
    assert table.get(keys[0]) is None
    assert table.put(keys[0], values[0]) is values[0]
    assert table.put(keys[0], values[1]) is values[0]
    assert table.get(keys[0]) is values[0]
    assert table.get(keys[1]) is None
    assert python_run_by(keys.clear) == []
    first = weakref.ref(values[0])
    values.clear()
    assert first() is not None
    other = Thing()
    table.put(other, other)
    assert first() is None


def test_methods_are_called_as_long_as_their_objects_live() -> None:
    """Bound methods are called in order with what is told; those of dead objects leave, and run nothing."""
    methods = WeakMethods()
    things = [Thing(), Thing()]
    kept = things[1]
    for thing in things:
        methods.add(thing.hear)
    methods.call("one", 1)
    assert [thing.heard for thing in things] == [[("one", 1)], [("one", 1)]]
    del thing
    assert python_run_by(things.clear) == []
    methods.call("two")
    assert kept.heard == [("one", 1), ("two",)]
    del kept
    methods.call("three")
    assert not methods


def test_each_loop_has_a_mail_of_its_own() -> None:
    """In one loop the mail is one; another loop has another."""

    async def both() -> tuple[Any, Any]:
        return mail(), mail()

    first, second = asyncio.run(both()), asyncio.run(both())
    assert first[0] is first[1]
    assert second[0] is second[1]
    assert first[0] is not second[0]
