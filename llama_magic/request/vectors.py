"""Vectors of texts, whoever made them: a row a text, of length 1 where that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any

from llama_magic.errors import InputTypeError

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
    several = list(texts)
    kinds = (str, list, tuple) if tokens else (str,)
    for place, text in enumerate(several):
        if not isinstance(text, kinds):
            raise InputTypeError(
                f"Text {place} is {text!r:.60}; expected a str.",
                remedy="Leave it out, or give a text in its place.",
            )
    return several


def unit_rows(matrix: NDArray[np.float32]) -> NDArray[np.float32]:
    """Scale each row, in place, to length 1; rows of zeros stay."""
    import numpy as np

    lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
    matrix /= np.where(lengths > 0, lengths, 1)
    return matrix


def rows_of(
    embed: Callable[[Sequence[str]], list[list[float]]], texts: object, *, normalize: bool
) -> NDArray[np.float32]:
    """Return (len(texts), n_embd) float32 of what `embed` makes of the texts."""
    import numpy as np

    wanted = as_texts(texts)
    matrix = np.asarray(embed(wanted) if wanted else [], np.float32).reshape(len(wanted), -1)
    return unit_rows(matrix) if normalize else matrix
