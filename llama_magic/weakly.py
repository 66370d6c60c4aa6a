"""What is held weakly, and what is done when it is gone: without a line of Python where it goes.

The callback of a weak reference runs on whichever thread lets the object go, between two bytecodes. If it is
written in Python (those of `weakref.finalize`, `WeakKeyDictionary`, `WeakSet` and `WeakMethod` are, and so is
`__del__`), a Ctrl-C can strike in it; Python prints that `KeyboardInterrupt` and forgets it, and what the
user wanted stopped goes on. So the one callback here is `SimpleQueue.put`, which is C.
"""

from __future__ import annotations

import itertools
import queue
import traceback
import weakref
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from llama_magic.errors import BackendError
from llama_magic.threads import at_fork, start_thread

K = TypeVar("K")
V = TypeVar("V")


class _Held(weakref.ref[Any]):
    """A reference with what is to be done, once its object is gone."""

    __slots__ = ("name", "work")
    name: int
    work: Callable[[], object]


class _Undertaker:
    """Does on a thread of its own what is to be done for objects that are gone."""

    def __init__(self) -> None:
        self.gone: queue.SimpleQueue[_Held] = queue.SimpleQueue()
        self.held: dict[int, _Held] = {}
        self._names = itertools.count()
        self._begun = False

    def add(self, thing: Any, work: Callable[[], object]) -> int:
        if not self._begun:
            self._begun = True
            try:
                start_thread(self._run, "llama_magic gone")
            except BackendError:  # no thread is left: what is gone meanwhile waits for the next that is added
                self._begun = False
        held = _Held(thing, self.gone.put)
        held.name, held.work = next(self._names), work
        self.held[held.name] = held
        return held.name

    def _run(self) -> None:
        while True:
            self._bury(self.gone.get())

    def _bury(self, held: _Held) -> None:  # a frame of its own: a waiting loop would hold the last one
        if self.held.pop(held.name, None) is not None:
            try:
                held.work()
            except Exception:  # of one; the others go on
                traceback.print_exc()


_undertaker = _Undertaker()


def _after_fork() -> None:
    """Begin anew in a forked child: the thread is not there, and what was held is the parent's."""
    global _undertaker
    _undertaker = _Undertaker()


at_fork(_after_fork)


def when_gone(thing: Any, work: Callable[[], object]) -> Callable[[], None]:
    """Have `work` called when `thing` is gone, on a thread of ours, soon; not at the end of the process.

    `work` must not hold `thing`, nor wait for anything. Returns what calls it off, as often as you like.
    """
    undertaker = _undertaker
    name = undertaker.add(thing, work)

    def call_off() -> None:
        undertaker.held.pop(name, None)

    return call_off


class WeakTable(Generic[K, V]):
    """A few values by objects that are held weakly, told apart by identity; the dead leave at a `put`."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[weakref.ref[K], V]] = {}

    def get(self, key: K) -> V | None:
        found = self._kept.get(id(key))
        return found[1] if found is not None and found[0]() is key else None

    def put(self, key: K, value: V) -> V:
        """Keep a value, unless there is one; return the one that is kept."""
        for name, (held, _) in list(self._kept.items()):
            if held() is None:
                self._kept.pop(name, None)
        kept = self._kept.setdefault(id(key), (weakref.ref(key), value))
        if kept[0]() is not key:  # another thread's key died in this very place
            kept = self._kept[id(key)] = (weakref.ref(key), value)
        return kept[1]


class WeakMethods:
    """Bound methods that are called in order as long as their objects live; an object is not kept for it."""

    def __init__(self) -> None:
        self._kept: list[tuple[weakref.ref[Any], Callable[..., Any]]] = []

    def __bool__(self) -> bool:
        return bool(self._kept)

    def add(self, method: Any) -> None:
        self._kept.append((weakref.ref(method.__self__), method.__func__))

    def call(self, *arguments: Any) -> None:
        """Call all of them on this thread; those of dead objects leave."""
        for entry in list(self._kept):
            thing = entry[0]()
            if thing is not None:
                entry[1](thing, *arguments)
            else:
                # A new list at once: another thread may do the same.
                self._kept = [kept for kept in self._kept if kept is not entry]
