"""Calls that write nothing, bounded: by `timeout`, or because a task that awaits them was cancelled."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, TypeVar

from llama_magic.doors import option
from llama_magic.errors import GenerationInterrupted, OutOfTimeError
from llama_magic.model.mail import mail
from llama_magic.threads import Bound
from llama_magic.words.given import seconds_of

T = TypeVar("T")
_END_S = 0.15  # for a stopped call: it hears of it a tenth of a second later, at most


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
        remedy=f"Allow more seconds ({option('timeout')}), or ask for less.",
    )
    error.completion = completion
    return error


async def beside_the_loop(name: str, call: Callable[[], T]) -> T:
    """Make a call that waits on a thread beside the loop; where its task is cancelled it ends there, too.

    The `CancelledError` has the `completion` that an interrupt would have.
    """
    bound = Bound()

    def work() -> T:
        with bound:
            return call()

    copied = contextvars.copy_context().run
    made = asyncio.get_running_loop().run_in_executor(None, partial(copied, work))
    try:
        with mail().awaited():
            return await asyncio.shield(made)
    except asyncio.CancelledError as error:
        bound.end()
        made.add_done_callback(_heard)
        shown = GenerationInterrupted(words=f"{name} was stopped; nothing of it is kept")
        await asyncio.wait({made}, timeout=_END_S)  # what it prints at its end belongs to this call
        if not made.done():  # on a busy machine it hears of it later
            shown = bound.so_far() if bound.so_far is not None else shown
        elif isinstance(stop := made.exception(), GenerationInterrupted):
            shown = stop
        error._render_traceback_ = shown._render_traceback_  # type: ignore[attr-defined]
        error.completion = shown.completion  # type: ignore[attr-defined]
        raise


def _heard(made: asyncio.Future[Any]) -> None:
    """Look at how a call ended that nobody awaits any more, so that asyncio has nothing to complain of."""
    if not made.cancelled():
        made.exception()
