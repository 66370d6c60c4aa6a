"""The seam to constrained decoding."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Matcher(Protocol):
    """The seam to constrained decoding: one object per running sequence, used by one thread at a time."""

    def prepare(self) -> None:
        """Compute what `apply` needs; called while the logits are still being computed, or not at all."""

    def apply(self, logits: NDArray[np.float32]) -> None:
        """Set the logits of tokens that may not come next to -inf, in place."""

    def allowed_bits(self) -> NDArray[np.uint8] | None:
        """Return which tokens may come next, one bit a token, the lowest first; None: any."""

    def accept(self, token: int) -> None: ...

    def forced(self) -> list[int]:
        """Return the tokens that must come next, if there is but one way on."""

    @property
    def finished(self) -> bool: ...


class CarriedConstraint(Protocol):
    """What an answer must be, as a request carries it.

    `kind` is json, regex, choices, gbnf or lark; `schema` the JSON schema, None for the other kinds.
    """

    @property
    def kind(self) -> str: ...

    @property
    def schema(self) -> Any: ...

    def start(self) -> Matcher:
        """Return the state for one new answer."""
