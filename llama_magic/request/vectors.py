"""Vectors of texts, whoever made them: a row a text, of length 1 where that is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from llama_magic.errors import InputTypeError
from llama_magic.words.counting import counted
from llama_magic.words.given import items_of, quoted
from llama_magic.words.standing import Clock, Standing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def as_texts(texts: object, *, tokens: bool = False) -> list[Any]:
    """Return one text or several as a list; with `tokens` a text may be a list of these. `InputTypeError`.

    Several are anything that gives them one after another in an order: a list, a column, a generator.
    """
    if isinstance(texts, str):
        return [texts]
    unordered = isinstance(texts, (bytes, Mapping, AbstractSet)) or type(texts).__name__ == "DataFrame"
    if unordered or not isinstance(texts, Iterable):
        raise InputTypeError(
            f"The texts are a {type(texts).__name__}; expected a text or several: a list, or a column."
        )
    several: list[Any] = items_of("The texts", texts)
    kinds = (str, list, tuple) if tokens else (str,)
    for place, text in enumerate(several):
        if not isinstance(text, kinds):
            raise InputTypeError(
                f"Text {place} is {quoted(text)}; expected a str.",
                remedy="Leave it out, or give a text in its place.",
            )
    return several


_PORTION = 64  # texts that a server is sent at a time


def portions(texts: Sequence[Any]) -> Iterator[Sequence[Any]]:
    """Yield the texts, as many at a time as a server is sent."""
    return (texts[i : i + _PORTION] for i in range(0, len(texts), _PORTION))


class Vectors:
    """The vectors of `total` texts while they are made, each of `width` numbers; how far they are."""

    def __init__(self, total: int, width: int) -> None:
        self.total = total
        self._width = width
        self._rows: list[Any] = []
        self._clock = Clock()

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, rows: Iterable[Any]) -> None:
        """Keep the vectors of the next texts."""
        before = len(self._rows)
        self._rows += rows
        self._clock.done += len(self._rows) - before

    @property
    def missing(self) -> int:
        """How many of them are not there."""
        return self.total - len(self)

    @property
    def standing(self) -> Standing:
        """How far it is now."""
        rate, left = self._clock.pace(self.missing)
        return Standing(len(self), self.total, 0, rate, left, "text")

    @property
    def words(self) -> str:
        """What is kept, where it was stopped."""
        of = counted(self.total, "text")
        if not self._rows:
            return f"none of {of} is embedded yet"
        return f"{len(self):,} of {of} embedded; sys.last_value.completion holds their vectors"

    def matrix(self, normalize: bool) -> NDArray[np.float32]:
        """Return (len(self), width) float32, with `normalize` each row scaled to length 1; zeros stay."""
        import numpy as np

        width = len(self._rows[0]) if self._rows else self._width
        matrix = np.asarray(self._rows, np.float32).reshape(len(self), width)
        if normalize:
            lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
            matrix /= np.where(lengths > 0, lengths, 1)
        return matrix
