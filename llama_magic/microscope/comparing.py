"""The same text in the eyes of several tokenizers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.request.tokenizer import length_in
from llama_magic.words.counting import counted
from llama_magic.words.harmless import blanks_shown
from llama_magic.words.shown import Printed
from llama_magic.words.tables import Table

if TYPE_CHECKING:
    from llama_magic.microscope.tokens import TokenStrip


@dataclass(frozen=True)
class TokenComparison(Printed):
    """One text, one strip for each model. BOS and other tokens without text are left out of `rows`."""

    text: str
    names: tuple[str, ...]
    strips: tuple[TokenStrip, ...]

    @property
    def rows(self) -> tuple[tuple[tuple[str, ...], ...], ...]:
        """The text cut where all tokenizers cut: for each stretch, each model's tokens in it."""
        return _align(self.text, self.strips)

    def to_pandas(self) -> Any:
        """Return one row a stretch: the tokens of each model in it, joined by `|`."""
        import pandas

        data = [["|".join(pieces) for pieces in row] for row in self.rows]
        return pandas.DataFrame(data, columns=list(self.names))

    def table(self) -> Table:
        """Return the rows as a table: blanks shown, the tokens of a stretch joined by `|`."""
        counts = ", ".join(
            f"{n}: {counted(s.count, 'token')}" for n, s in zip(self.names, self.strips, strict=True)
        )
        rows = tuple(
            tuple("|".join(blanks_shown(piece) for piece in pieces) for pieces in row) for row in self.rows
        )
        return Table(self.names, rows, caption=counts)


class Splitter(Protocol):
    """What is asked of a model here: its name, and the tokens that it makes of a text."""

    @property
    def name(self) -> str: ...

    def token_strip(self, text: str, *, parse_special: bool = True) -> TokenStrip: ...


def compare_tokens(text: str, *models: Splitter) -> TokenComparison:
    """Split `text` with the tokenizer of each model. Special tokens in the text stay ordinary text."""
    if not isinstance(text, str):
        raise InputTypeError(f"The text is a {type(text).__name__}; expected a str.")
    if not models:
        raise OptionError("No model was given to compare.", remedy="compare_tokens(text, model_a, model_b).")
    strips = tuple(model.token_strip(text, parse_special=False) for model in models)
    return TokenComparison(text, tuple(model.name for model in models), strips)


def _align(text: str, strips: tuple[TokenStrip, ...]) -> tuple[tuple[tuple[str, ...], ...], ...]:
    data = text.encode("utf-8", "replace")
    ends = [_ends(data, strip) for strip in strips]
    common = sorted(set.intersection(*({end for end, _ in marks} for marks in ends)) | {len(data)})
    rows = []
    for low, high in zip([0, *common], common, strict=False):
        row = tuple(tuple(piece for end, piece in marks if low < end <= high) for marks in ends)
        if any(row):
            rows.append(row)
    return tuple(rows)


def _ends(data: bytes, strip: TokenStrip) -> list[tuple[int, str]]:
    """Return where each token ends in the text (bytes), and its text."""
    marks: list[tuple[int, str]] = []
    position = 0
    for piece in strip.tokens:
        if size := length_in(data, piece.bytes, position):
            position += size
            marks.append((position, piece.text))
    return marks
