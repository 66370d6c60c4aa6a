"""Calls that write nothing, bounded: by `timeout`, or because a task that awaits them was cancelled."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from typing import TypeVar

from llama_magic.errors import GenerationInterrupted, OutOfTimeError
from llama_magic.model.mail import mail
from llama_magic.threads import Bound
from llama_magic.words.given import seconds_of

T = TypeVar("T")


@contextlib.contextmanager
def bounded(timeout: object) -> Iterator[None]:
    """Stop what is done here after so many seconds, as an interrupt would. Raises `OutOfTimeError` then."""
    seconds = seconds_of(timeout)
    bound = Bound(seconds)
    try:
        with bound:
            yield
    except GenerationInterrupted as stop:
        if not bound.reached:
            raise
        raise out_of_time(seconds, stop.words, stop.completion) from None
    except KeyboardInterrupt:
        if not bound.reached:
            raise
        raise out_of_time(seconds, "nothing is kept") from None


def out_of_time(seconds: object, words: str, completion: object = None) -> OutOfTimeError:
    """Return what to raise where the time was up: `words` say what is kept, which `completion` holds."""
    error = OutOfTimeError(
        f"The time was up after {seconds} s: {words}.",
        remedy="Allow more seconds (timeout=, --timeout), or ask for less.",
    )
    error.completion = completion
    return error


async def beside_the_loop(name: str, call: Callable[[], T]) -> T:
    """Make a call that waits on a thread beside the loop; where its task is cancelled it ends there, too."""
    bound = Bound()

    def work() -> T:
        with bound:
            return call()

    try:
        with mail().awaited():
            return await asyncio.to_thread(work)
    except asyncio.CancelledError as error:
        bound.end()
        shown = GenerationInterrupted(words=f"{name} was stopped; nothing of it is kept")
        error._render_traceback_ = shown._render_traceback_  # type: ignore[attr-defined]
        raise
