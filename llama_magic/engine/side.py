"""Work beside generation, in contexts of its own: texts are read there piece by piece.

A piece is read on the compute thread, between the steps of running answers.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, TypeVar

from llama_magic.doors import option
from llama_magic.engine.contexts import CUT
from llama_magic.engine.native import Context, DecodeStatus
from llama_magic.errors import (
    BackendError,
    ContextOverflowError,
    InputTypeError,
    ModelClosedError,
    OptionError,
)
from llama_magic.request.tokenizer import TooManyTokensError, checked_ids

if TYPE_CHECKING:
    from llama_magic.engine.core import Core
    from llama_magic.engine.engine import Engine
    from llama_magic.engine.native import ContextOptions
    from llama_magic.request.tokenizer import Tokenizer

T = TypeVar("T")


def tokens_within(tokenizer: Tokenizer, window: int, text: object, *, what: str, purpose: str) -> list[int]:
    """Return the tokens of a text (or tokens) that is read for itself; `what` names it in errors ("Text 3").

    Raises `InputTypeError` for what is no text, `OptionError` for an empty one, `ContextOverflowError`.
    """
    if not isinstance(text, (str, list, tuple)):
        raise InputTypeError(f"{what} is a {type(text).__name__}; expected a str, or tokens.")
    try:
        tokens = (
            tokenizer.encode(text, most=window)
            if isinstance(text, str)
            else checked_ids(tokenizer, text, what)
        )
        count, said = len(tokens), f"{len(tokens):,}"
    except TooManyTokensError as many:
        tokens, count, said = [0], many.least, f"at least {many.least:,}"
    if not text or not tokens:
        raise OptionError(f"{what} is empty, so there is nothing to {purpose}.", remedy="Write some text.")
    if count > window:
        raise ContextOverflowError(
            f"{what} has {said} tokens, but the window holds {window:,}: {count - window:,} too many.",
            prompt_tokens=count,
            max_tokens=0,
            window=window,
            parts=(("text", count),),
            remedy=f"Give it in shorter parts, or load the model with a larger {option('ctx')}.",
        )
    return tokens


@contextlib.contextmanager
def side_reader(
    engine: Engine, name: str, options: Callable[[Core], ContextOptions], *, keep: bool = False
) -> Iterator[SideReader]:
    """Make the side context `name`, or take the one that was kept, to read one text in; freed at the end.

    llama.cpp cannot be stopped while it makes one. That is done on the compute thread, and nobody waits
    for it, nor for its end, after an interrupt: the freeing is queued behind it. (An interrupt stops
    what is being read.)
    """
    reader = SideReader(engine, name, options)
    try:
        engine.call(reader.begin)
        yield reader
        if not keep:
            with contextlib.suppress(ModelClosedError):
                engine.call(reader.free)
    except BaseException:
        reader.stop()
        if not keep:
            engine.later(reader.free)
        raise


def side_context(core: Core, name: str, options: Callable[[Core], ContextOptions]) -> Context:
    """Return the side context `name`, made at its first use. A model that is closed frees it."""
    made = core.side.get(name)
    if made is None:
        made = core.side[name] = Context(core.weights, options(core))
    return made


def cuts(length: int, size: int) -> Iterator[int]:
    """Yield where the pieces of a text end, of `size` tokens at most.

    A rest that is shorter than a cut joins the piece before it: llama.cpp's attention rounds differently
    below so many tokens.
    """
    if length > size:
        chunk = size - CUT + 1
        yield from range(chunk, length - CUT + 1, chunk)
    yield length


class SideReader:
    """Reads the pieces of one text, in order. `size` is how many tokens a batch takes."""

    def __init__(self, engine: Engine, name: str, options: Callable[[Core], ContextOptions]) -> None:
        self.size = 0
        self._engine = engine
        self._name = name
        self._options = options
        self._stopped = False

    def read(self, tokens: Sequence[int], start: int, measure: Callable[[Context], T]) -> T:
        """Read a piece that begins at position `start`; return what `measure` makes of the context then."""
        return self._engine.call(lambda core: measure(self._read(core, tokens, start)))

    def pass_over(self, tokens: Sequence[int], start: int) -> None:
        """Read a piece for what follows it only: nothing of it is kept to be measured."""
        self._engine.call(lambda core: self._read(core, tokens, start, measured=False))

    def stop(self) -> None:
        """Stop what is being read, for good."""
        self._stopped = True
        self._engine.abort(self._name)

    # --- on the compute thread ------------------------------------------------------------

    def begin(self, core: Core) -> None:
        """Make the context, or empty it."""
        context = side_context(core, self._name, self._options)
        context.clear()
        self.size = context.n_batch

    def free(self, core: Core) -> None:
        """Free the context."""
        if self._name in core.side:
            core.side.pop(self._name).close()

    def _read(self, core: Core, tokens: Sequence[int], start: int, *, measured: bool = True) -> Context:
        context = core.side[self._name]
        context.clear_abort()  # that of an earlier text; one that comes from now on is seen
        if self._stopped or core.stopping:
            raise BackendError("The reading was interrupted.")
        n = len(tokens)
        if context.options.embeddings:
            context.embed(measured)
        status = context.decode(tokens, range(start, start + n), [0] * n, range(n if measured else 0))
        must_be_read(status)
        return context


def must_be_read(status: DecodeStatus) -> None:
    """Raise `BackendError` where a text was not read to its end."""
    if status is not DecodeStatus.DONE:
        how = status.name.lower().replace("_", " ")
        raise BackendError(f"llama.cpp could not read the text ({how}).")
