"""Many requests at a time: as many as the backend works on, each one's end told as soon as it is there."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar

from llama_magic.threads import Bell, despite_interrupts, look

T = TypeVar("T")
_AHEAD = 2  # requests that wait in the backend, so that it never waits for the next one


class Answering(Protocol):
    """A request under way: `Stream`, `StructuredStream`."""

    def on_end(self, call: Callable[[], None]) -> None: ...
    def settled(self) -> bool: ...
    def halt(self) -> None: ...
    def cancel(self) -> None: ...


class Scheduler(Generic[T]):
    """Ask for tasks in order, `width` and a few at a time; the first one alone.

    So somebody who watches sees an answer as soon as there can be one, and what all prompts begin with is
    read once. (Eighteen prompts that are read together all come late.)

    `begin` starts one; an exception there is that task's alone. `take` is told of each that has ended: its
    stream, or the exception. `tick` is called a few times a second. An interrupt cancels what is under way.
    """

    def __init__(
        self,
        width: int,
        begin: Callable[[T], Answering],
        take: Callable[[T, Answering | Exception], None],
        tick: Callable[[], None],
    ) -> None:
        self._width = width + _AHEAD
        self._begin, self._take, self._tick = begin, take, tick
        self._bell = Bell()
        self._under_way: list[tuple[T, Answering]] = []
        self._one_has_ended = False

    def run(self, tasks: Iterable[T]) -> None:
        """Return when all tasks have ended. Raises what `take` and `tick` raise, and interrupts."""
        coming = iter(tasks)
        try:
            while self._fill(coming):
                self._bell.wait(look())
                self._collect()
                self._tick()
        except BaseException:
            self._cancel()
            raise

    def _fill(self, coming: Iterable[T]) -> bool:
        """Begin tasks while there is room; say whether any is under way."""
        while len(self._under_way) < (self._width if self._one_has_ended else 1):
            task = next(iter(coming), None)
            if task is None:
                break
            try:
                stream = self._begin(task)
            except Exception as error:  # whatever it is, it is this task's
                self._take(task, error)
                self._tick()
                continue
            self._under_way.append((task, stream))
            stream.on_end(self._bell.ring)
        return bool(self._under_way)

    def _collect(self) -> None:
        for task, stream in list(self._under_way):
            outcome: Answering | Exception = stream
            try:
                if not stream.settled():
                    continue
            except Exception as error:  # of a validator, say
                outcome = error
            self._one_has_ended = True
            self._take(task, outcome)
            self._under_way.remove((task, stream))

    def _cancel(self) -> None:
        """Stop what is under way; an impatient further Ctrl-C does not leave the rest running."""

        def stop() -> None:
            for _, stream in self._under_way:  # all at once: those that go on would keep the engine busy
                with contextlib.suppress(Exception):
                    stream.halt()
            while self._under_way:
                with contextlib.suppress(Exception):
                    self._under_way[-1][1].cancel()
                self._under_way.pop()

        with contextlib.suppress(KeyboardInterrupt):
            despite_interrupts(stop)
