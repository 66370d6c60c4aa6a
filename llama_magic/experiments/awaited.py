"""`amap`, `asweep`, `adecide`: the same calls for `await`, in a notebook's loop or a server's."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from llama_magic.experiments.caller import from_afar, names_of_caller
from llama_magic.experiments.choice import decide
from llama_magic.experiments.combinations import sweep
from llama_magic.experiments.each_row import map
from llama_magic.experiments.experiment import interrupted
from llama_magic.model.bounded import beside_the_loop

P = ParamSpec("P")
T = TypeVar("T")


def _awaited(call: Callable[P, T], what: str) -> Callable[P, Coroutine[Any, Any, T]]:
    name = f"a{call.__name__}"

    @functools.wraps(call)
    def twin(*args: P.args, **options: P.kwargs) -> Coroutine[Any, Any, T]:
        begun: list[Any] = []
        asked = from_afar(names_of_caller(), begun, functools.partial(call, *args, **options))
        made: Any = _kept(beside_the_loop(what, asked), begun)
        made.__qualname__ = name  # "… was never awaited" names the call
        return made

    twin.__name__ = twin.__qualname__ = name
    twin.__doc__ = (
        f"Like `{call.__name__}`, for `await`. Cancelled, its error's `completion` is what is done."
    )
    return twin


async def _kept(call: Coroutine[Any, Any, T], begun: list[Any]) -> T:
    """Await a call; of one that is cancelled, bind what there is to the name that it is assigned to."""
    try:
        return await call
    except asyncio.CancelledError as error:
        for results in begun:
            shown = interrupted(results)  # what is under way may still be ending, on its thread
            error._render_traceback_ = shown._render_traceback_  # type: ignore[attr-defined]
            error.completion = results  # type: ignore[attr-defined]
        raise


amap = _awaited(map, "The map")
asweep = _awaited(sweep, "The sweep")
adecide = _awaited(decide, "Deciding")
