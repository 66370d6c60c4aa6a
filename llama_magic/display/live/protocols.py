"""What the views need of objects that are made elsewhere: shapes only, so that no arrow points back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from llama_magic.model.results import Budget, Chunk, Completion


class Stream(Protocol):
    """A generation under way: iterate for chunks, `cancel()` to stop it.

    `completion` is what was written, once the stream has ended or was cancelled. A stream may
    also have `progress()`, which says how much of the prompt is read (a `Progress`, or `None`).
    """

    @property
    def budget(self) -> Budget: ...
    @property
    def completion(self) -> Completion: ...
    def __iter__(self) -> Iterator[Chunk]: ...
    def cancel(self) -> None: ...


class TokenPiece(Protocol):
    """One token: `special` marks a control token."""

    id: int
    text: str
    special: bool


class TokenStrip(Protocol):
    """The tokens of a text."""

    tokens: Sequence[TokenPiece]
    count: int
    text: str


class ReadToken(Protocol):
    """A token of a text that was read through: natural-log probability, rank from 0 or 1, bits of entropy."""

    text: str
    logprob: float | None
    rank: int | None
    entropy: float | None
    expected: Any


class TraceStage(Protocol):
    """What one sampler left: `leaders` are (text, probability) pairs, likeliest first."""

    @property
    def name(self) -> str: ...
    @property
    def parameters(self) -> Any: ...
    @property
    def survivors(self) -> int: ...
    @property
    def entropy_bits(self) -> float: ...
    @property
    def mass_kept(self) -> float: ...
    @property
    def leaders(self) -> Sequence[tuple[str, float]]: ...


class SamplerTrace(Protocol):
    """A token's road through the sampler chain."""

    @property
    def stages(self) -> Sequence[TraceStage]: ...
    @property
    def drawn(self) -> Any: ...


class PadModel(Protocol):
    """What the prompt pad asks of a model."""

    @property
    def name(self) -> str: ...
    def count_tokens(self, text: Any) -> int: ...
    def chat(self, messages: Any, **options: Any) -> Any: ...
