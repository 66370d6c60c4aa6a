"""Vectors of texts, whoever made them: a row a text, of length 1 where that is asked for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from llama_magic.errors import InputTypeError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def as_texts(texts: object, *, tokens: bool = False) -> list[Any]:
    """Return one text or several as a list; with `tokens` a text may be a list of these. `InputTypeError`."""
    if isinstance(texts, str):
        return [texts]
    kinds = (str, list, tuple) if tokens else (str,)
    if not isinstance(texts, (list, tuple)) or not all(isinstance(text, kinds) for text in texts):
        raise InputTypeError(f"The texts are a {type(texts).__name__}; expected a str or a list of str.")
    return list(texts)


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
