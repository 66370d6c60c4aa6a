"""The seam: everything above asks a `Backend` for tokens, and knows nothing of where they come from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from llama_magic.errors import BackendError
from llama_magic.request.events import Event
from llama_magic.request.request import Request
from llama_magic.request.tokenizer import Tokenizer
from llama_magic.threads import Latch, may_wait


def check_waiting() -> None:
    """Raise `BackendError` on a thread that a backend needs: a finalizer there would wait for itself."""
    if not may_wait():
        raise BackendError(
            "This call came from a thread that the engine needs (a finalizer can run there), and would "
            "wait for itself.",
            remedy="Ask a model only from your own code, not from __del__ or from a finalizer.",
        )


def wait_for(ended: Latch) -> None:
    """Wait until a backend has done something; Ctrl-C works meanwhile. Raises as `check_waiting`."""
    check_waiting()
    ended.wait_long()


Sink = Callable[[Event], None]


@dataclass(frozen=True)
class Capabilities:
    """What a source of tokens can honour. What it cannot is refused by name before it is asked.

    `seeds`: the same seed gives the same tokens. `constraints`: the kinds it can keep (json, regex,
    choices, gbnf, lark). `logprobs`: the most alternatives it tells of a token, None for none at all.
    `samples`: the most answers to one request. `pressure`: it can say how hard a constraint held. `tools`:
    the tool choices it keeps to. `masks`: constraints are kept by masks over the tokenizer's tokens.
    `scores`: it says how likely given texts are. `least`: it keeps `min_tokens`. `renders`: a prompt is sent
    as the tokens that were counted; a source without it renders by itself. `parallel`: how many
    requests it works on at a time; more of them wait.
    """

    seeds: bool = True
    constraints: frozenset[str] = frozenset({"json", "regex", "choices", "gbnf", "lark"})
    logprobs: int | None = 1000
    samples: int = 1000
    pressure: bool = True
    scores: bool = True
    masks: bool = True
    least: bool = True
    renders: bool = True
    tools: frozenset[str] = frozenset({"none", "auto", "required", "named"})
    parallel: int = 16

    def lacks(self, request: Request) -> str | None:
        """Return what of a request cannot be honoured, in words; None where all can."""
        if request.exact and not self.seeds:
            return "a seed (the same seed gives other tokens there)"
        choice = request.tool_choice if request.tool_choice in ("none", "auto", "required") else "named"
        if request.tools and choice not in self.tools:
            return f"tool_choice={request.tool_choice!r}" if self.tools else "tools"
        if request.min_tokens and not self.least:
            return f"min_tokens={request.min_tokens}"
        kept = (*self.constraints, "tools", "ends")
        if request.constraint is not None and request.constraint.kind not in kept:
            return f"a constraint of the kind {request.constraint.kind!r}"
        if request.logprobs is not None and (self.logprobs is None or request.logprobs > self.logprobs):
            most = "none" if self.logprobs is None else f"at most {self.logprobs}"
            return f"logprobs={request.logprobs} ({most})"
        if request.n > self.samples:
            return f"n={request.n} (at most {self.samples})"
        if request.begun and request.constraint is not None and not self.masks:
            return "the beginning of an answer that is held to a schema (prefill)"
        if request.measure_outside and not self.pressure:
            return "pressure=True"
        return None


@runtime_checkable
class Counts(Protocol):
    """A source of tokens that counts a conversation by itself."""

    def count(self, messages: Sequence[Any]) -> int: ...


@runtime_checkable
class Embeds(Protocol):
    """A source of tokens that makes vectors of texts by itself."""

    def embed(self, texts: Sequence[str]) -> list[list[float]]: ...


# What a source tells of a token that it read: log-probability, rank, the likeliest (text, probability).
Expected = tuple[float, int, Sequence[tuple[str, float]]]


@runtime_checkable
class Reads(Protocol):
    """A source of tokens that reads a text through by itself."""

    def read(self, tokens: Sequence[int]) -> list[Expected]:
        """Return what is known of each token but the first. Raises `BackendError` where it cannot."""


class Scoring(Protocol):
    """Texts that are scored elsewhere. `seconds` is how long that took; once `done`, `wait` is short."""

    seconds: float

    @property
    def done(self) -> bool: ...

    def wait(self) -> list[list[float]]:
        """Return the natural-log probability of each token of each text, or raise what went wrong."""

    def cancel(self) -> None:
        """Stop it. Any thread, any time."""


@runtime_checkable
class Scores(Protocol):
    """A source of tokens that says by itself how likely given texts are."""

    def score(self, request: Request, texts: Sequence[Sequence[int]]) -> Scoring:
        """Begin to score texts after the prompt of `request`; several such calls go on at a time."""


class Backend(Protocol):
    """A source of tokens: llama.cpp in this process, a server, a script.

    `submit` returns at once; events go to `sink`, from any one thread, in this order: `PromptEvent`s,
    then `TokenEvent`s and one `FinishEvent` for each sample, and one `EndEvent` last, whatever happens; or
    one `KnownEvent` in place of all.
    `cancel` may be called from any thread at any moment, by a finalizer too: it takes no lock and does
    not wait. `close` is idempotent, and ends what runs. `local` is the engine in this process, None
    where there is none: the microscope asks it.
    """

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def capabilities(self) -> Capabilities: ...

    @property
    def closed(self) -> bool: ...

    @property
    def local(self) -> Any: ...

    def submit(self, request: Request, sink: Sink) -> None:
        """Begin to answer a request. Raises `ModelClosedError` where the backend is closed."""

    def cancel(self, request: Request) -> None:
        """Stop a request; its last events say "interrupted"."""

    def settle(self, request: Request) -> None:
        """Help a cancelled request to its end, on the calling thread, where that can be; never waits."""

    def close(self) -> None:
        """End what runs and free what is held."""
