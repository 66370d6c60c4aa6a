"""Texts that are read beside generation: one error for all that are too long, pieces, and stopping."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from llama_magic.engine import side
from llama_magic.engine.native import DecodeStatus
from llama_magic.errors import BackendError, ContextOverflowError, InputTypeError, OptionError
from llama_magic.request.tokenizer import TooManyTokensError


class Words:
    """A tokenizer whose tokens are words."""

    def encode(self, text: str, most: int | None = None) -> list[int]:
        if text.count(" ") > 1000:
            raise TooManyTokensError(900)
        return list(range(len(text.split())))


class Reads:
    """A context that notes what is decoded, and an engine around it that runs calls at once."""

    n_batch = 4
    options = SimpleNamespace(embeddings=False)

    def __init__(self) -> None:
        self.parts: list[tuple[list[int], list[int]]] = []
        self.status = DecodeStatus.DONE
        self.flag = self.closed = False
        self.cleared = 0
        self.core: Any = SimpleNamespace(side={}, stopping=False, weights=None)

    def decode(self, tokens: Any, positions: Any, sequences: Any, outputs: Any) -> DecodeStatus:
        assert set(sequences) == {0}
        assert list(outputs) == list(range(len(tokens)))
        self.parts.append((list(tokens), list(positions)))
        return DecodeStatus.ABORTED if self.flag else self.status

    def clear(self) -> None:
        self.cleared += 1

    def clear_abort(self) -> None:
        self.flag = False

    def close(self) -> None:
        self.closed = True

    def call(self, function: Any) -> Any:
        return function(self.core)

    later = call

    def abort(self, purpose: str) -> None:
        self.flag = self.flag or purpose in self.core.side


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch) -> Any:
    made = Reads()
    monkeypatch.setattr(side, "Context", lambda weights, options: made)
    return made


@pytest.mark.parametrize(("text", "said"), [("a b c d", "4"), ("a " * 2000, "at least 900")])
def test_a_text_over_the_window_is_one_error(text: str, said: str) -> None:
    """It says how many tokens there are, as far as they were counted, and how many the window holds."""
    with pytest.raises(
        ContextOverflowError, match=f"^Text 3 has {said} tokens, but the window holds 3"
    ) as caught:
        side.tokens_within(Words(), 3, text, what="Text 3", purpose="embed")
    assert (caught.value.prompt_tokens, caught.value.window) == (int(said.rsplit(maxsplit=1)[-1]), 3)


def test_what_is_no_text_or_empty_is_refused() -> None:
    """The error names it and says what it was wanted for; a text of the window's length is taken."""

    def given(text: object) -> list[int]:
        return side.tokens_within(Words(), 3, text, what="The text", purpose="read")

    with pytest.raises(InputTypeError, match="The text holds 'a'; expected a str"):
        given(["a"])
    for empty in ("", " "):
        with pytest.raises(OptionError, match="nothing to read"):
            given(empty)
    assert given("a b c") == [0, 1, 2]


def test_pieces_are_read_in_order_and_the_context_is_freed(engine: Any) -> None:
    """Each at its position, measured at once; one that is to be kept is emptied for the next text."""
    with side.side_reader(engine, "reading", lambda core: None) as reader:
        assert engine.core.side == {"reading": engine}
        sizes = [reader.read([7] * n, start, lambda made: len(made.parts)) for n, start in ((4, 0), (3, 4))]
    assert sizes == [1, 2]
    assert engine.parts == [([7] * 4, [0, 1, 2, 3]), ([7] * 3, [4, 5, 6])]
    assert engine.core.side == {}
    assert engine.closed
    for times in (2, 3):
        with side.side_reader(engine, "kept", lambda core: None, keep=True):
            assert engine.cleared == times
        assert engine.core.side == {"kept": engine}


@pytest.mark.parametrize("keep", [True, False])
def test_an_interrupt_stops_what_is_read_for_good(engine: Any, keep: bool) -> None:
    """A piece that was asked for meanwhile is not read; the next text is, with the flag taken back."""
    readers: list[Any] = []

    def interrupted() -> None:
        with side.side_reader(engine, "x", lambda core: None, keep=keep) as reader:
            readers.append(reader)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert engine.flag
    assert ("x" in engine.core.side) == keep
    if keep:
        with pytest.raises(BackendError, match="interrupted"):
            readers[0].read([1], 0, len)
    assert engine.parts == []
    with side.side_reader(engine, "x", lambda core: None, keep=keep) as reader:
        reader.read([1], 0, lambda made: None)
    assert engine.parts == [([1], [0])]


def test_a_model_that_closes_reads_no_further_piece(engine: Any) -> None:
    """Nor does one whose llama.cpp did not come to the end of a piece: that is an error."""

    def read() -> None:
        with side.side_reader(engine, "x", lambda core: None) as reader:
            reader.read([1], 0, lambda made: None)

    engine.status = DecodeStatus.NO_CELLS
    with pytest.raises(BackendError, match=r"could not read the text \(no cells\)"):
        read()
    engine.core.stopping = True
    with pytest.raises(BackendError, match="interrupted"):
        read()
    assert len(engine.parts) == 1


@pytest.mark.parametrize("size", [127, 191])
@pytest.mark.parametrize("length", [1, 2, 63, 64, 65, 127, 128, 129, 191, 192, 500, 1024])
def test_pieces_cover_a_text_and_none_is_short(length: int, size: int) -> None:
    """Every token is read once; only a text under 64 tokens has a shorter piece, none is over `size`."""
    ends = list(side.cuts(length, size))
    pieces = np.diff([0, *ends])
    assert ends[-1] == length
    assert pieces.min() >= min(64, length)
    assert pieces.max() <= size
