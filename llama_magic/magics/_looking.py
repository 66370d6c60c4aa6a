"""The modes that generate nothing: a text cut into tokens, read through, or one step of the sampler."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from llama_magic import display
from llama_magic.errors import GenerationInterrupted, OptionError, OutOfTimeError
from llama_magic.magics._call import CellRun
from llama_magic.session.blocks import split_blocks, split_named
from llama_magic.session.history import of_reading


def tokens(call: CellRun) -> Any:
    """Cut the body into tokens; where its first line is `=== name`, each text below such a line."""
    several = split_named(call.body) if call.body.lstrip().startswith("===") else None
    if several is not None:
        if call.options.get("live"):
            raise OptionError("--live shows one text, and there are several.", remedy="Leave out === name.")
        texts = {name: call.fill(text, f"the text {name!r}") for name, text in several.items()}
        return _look(call, lambda model: model.token_strips(texts))
    text = call.fill(call.body)
    if not call.options.get("live"):
        return _look(call, lambda model: model.token_strip(text))
    return _live(call, lambda model: model.token_strip(text), lambda _: display.live_tokens(call.model, text))


def surprise(call: CellRun) -> Any:
    """Read the body through; the history lists it among what was asked of the model."""
    text = call.fill(call.body)
    began = time.perf_counter()

    def note(read: Any) -> None:
        call.kernel.session.remember(of_reading(read, call.model, time.perf_counter() - began))

    return _look(call, lambda model: model.read(text, timeout=call.options.get("timeout")), note)


def xray(call: CellRun) -> Any:
    """Trace the next token of the body: a raw text, or after system:/user: blocks as a chat has them."""
    blocks = split_blocks(call.body)
    prompt: Any = [{"role": role, "content": call.fill(text)} for role, text in blocks]
    if blocks == [("user", call.body)]:  # no block opens
        prompt = prompt[0]["content"]

    def trace(model: Any) -> Any:
        given = call.kernel.call_defaults() | dict(call.options)
        own = {name: given[name] for name in ("seed", "timeout") if name in given}
        return model.xray(prompt, model.sampling.replace(**call.sampling()), **own)

    if not call.options.get("live"):
        return _look(call, trace)
    return _live(call, trace, display.live_view)


def _live(call: CellRun, look: Callable[[Any], Any], board: Callable[[Any], Any]) -> Any:
    """Run a mode that generates nothing, and show the board of its result."""
    call.model = call.kernel.get_model(call.options.get("model"))
    result = _interruptible(lambda: look(call.model))
    call.bind(result)
    if not call.quiet:
        display.show_board(board(result), call.kernel.shell)
    return None if "out" in call.options else call.kernel.mark_shown(result, quiet=call.quiet)


def _look(call: CellRun, look: Callable[[Any], Any], note: Callable[[Any], None] = lambda _: None) -> Any:
    """Run a mode that generates nothing; the display hook shows its result, or this does for `-o`.

    What an interrupted reading has so far, or one whose time was up, is bound and shown, then that is raised.
    """
    call.model = call.kernel.get_model(call.options.get("model"))
    interruption: GenerationInterrupted | OutOfTimeError | None = None
    try:
        result = _interruptible(lambda: look(call.model))
    except (GenerationInterrupted, OutOfTimeError) as error:
        if error.completion is None:
            raise
        result, interruption = error.completion, error
    note(result)
    call.bind(result)
    if ("out" in call.options or interruption is not None) and not call.quiet:
        display.show(result, call.kernel.shell)
    if interruption is not None:
        raise interruption
    if "out" in call.options:
        return None
    return call.kernel.mark_shown(result, quiet=True) if call.quiet else result


def _interruptible(look: Callable[[], Any]) -> Any:
    """Return what `look` does; an interrupt between its steps is said in the same short way."""
    try:
        return look()
    except GenerationInterrupted:
        raise
    except KeyboardInterrupt:
        raise GenerationInterrupted(None) from None
