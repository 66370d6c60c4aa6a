"""`amap`, `asweep` and `adecide`: the calls of experiments, for `await`."""

from __future__ import annotations

import ast
import asyncio
import inspect
import threading
from typing import Any

import pytest

import llama_magic as lm
from llama_magic.errors import OptionError
from llama_magic.testing import scripted_model


@pytest.mark.parametrize("name", ["map", "sweep", "decide"])
def test_a_twin_has_the_signature_of_its_call(name: str) -> None:
    """Shift-Tab shows the same options, and the name of the twin."""
    twin, call = getattr(lm, f"a{name}"), getattr(lm, name)
    assert inspect.signature(twin) == inspect.signature(call)
    assert (twin.__name__, twin.__qualname__) == (f"a{name}",) * 2
    assert not inspect.iscoroutinefunction(call)


def test_what_is_awaited_is_what_the_call_gives() -> None:
    """Together in one loop, with names of the line that awaits; an option that is wrong is refused there."""
    model = scripted_model(lambda request: request.text.split()[1].partition("<")[0].upper())

    async def ask() -> Any:
        thing = "sea"  # noqa: F841 - asweep finds it
        made = lm.amap(["a", "b"], "x{{ text }} {{ text }}", model=model, progress=False, nope=1)
        with pytest.raises(OptionError, match="nope"):
            await made
        return await asyncio.gather(
            lm.amap(["a", "b"], "Say {{ text }}", model=model, progress=False),
            lm.asweep("Say {{ thing }}", {"top_k": [1, 2]}, model=model, progress=False),
            lm.adecide(["a"], "Say {{ text }}", options=["A", "B"], model=model, progress=False),
        )

    runs, swept, odds = asyncio.run(ask())
    assert [run.text for run in runs] == [
        run.text for run in lm.map(["a", "b"], "Say {{ text }}", model=model)
    ]
    assert [run.text for run in swept] == [swept[0].text] * 2
    assert "Say sea" in swept[0].completion.prompt
    assert list(odds[0].probabilities) == ["A", "B"]


def test_a_cell_that_is_cancelled_keeps_what_is_done() -> None:
    """A kernel cancels what a cell awaits: the name on its left has the rows, though its thread is busy."""
    busy, begun = threading.Event(), threading.Event()
    model = scripted_model(lambda _: "done")

    def tell(standing: Any) -> None:
        if standing.done >= 3 and not begun.is_set():
            begun.set()
            busy.wait()

    flags = ast.PyCF_ALLOW_TOP_LEVEL_AWAIT  # as IPython compiles a cell
    cell = "runs = await lm.amap([f'row {i}' for i in range(500)], model=model, progress=tell, max_tokens=4)"
    names: dict[str, Any] = {"lm": lm, "model": model, "tell": tell}

    async def press() -> asyncio.CancelledError:
        task = asyncio.ensure_future(eval(compile(cell, "cell", "exec", flags), names))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        busy.set()
        return caught.value

    error: Any = asyncio.run(press())  # it ends when the thread has
    runs = names["runs"]
    assert runs is error.completion
    assert 3 <= len(runs) < 500
    assert "runs.resume() goes on" in " ".join(error._render_traceback_()[0].split())
    assert len(runs.resume()) == 500
