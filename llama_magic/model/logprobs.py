"""How likely tokens were, as data."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple


class TopLogprob(NamedTuple):
    """A token that might have stood there, and its natural-log probability before any sampler."""

    token_id: int
    text: str
    logprob: float


@dataclass(frozen=True)
class TokenLogprob:
    """One generated token: natural-log probability before any sampler, and the `top` alternatives.

    `text` has a replacement character for what is no whole one; `bytes` are exact (empty in a record).
    """

    token_id: int
    text: str
    logprob: float
    top: tuple[TopLogprob, ...] = ()
    bytes: bytes = field(default=b"", compare=False, repr=False)
