"""What kinds of server have in common: a question is a path and a body, an answer a stream of values."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from llama_magic.errors import StreamCutError
from llama_magic.formatters import Formatter
from llama_magic.remote.errand import Ask
from llama_magic.request.backend import Expected
from llama_magic.request.events import Event, FinishEvent, FinishReason, TokenEvent
from llama_magic.request.request import Request
from llama_magic.request.sampling import Sampling
from llama_magic.request.stages import DEFAULT_ORDER, STAGES, Parameters, chain
from llama_magic.request.tokenizer import Tokenizer

OFF: Mapping[str, Any] = {"top_k": 0, "top_p": 1.0, "min_p": 0.0}  # where that is not the default


@dataclass
class Facts:
    """What a server says of itself, before anything is measured.

    `window` 0: it does not say. `slots`: requests that it answers at once. `notes` are what to know of it.
    """

    model: str
    build: str = ""
    window: int = 0
    n_ctx_train: int = 0
    slots: int = 8
    notes: tuple[str, ...] = ()


def window_of(model: Mapping[str, Any]) -> int:
    """Return the window that a list of models tells, in the places where servers put it."""
    meta = model.get("meta") or {}
    for found in (
        model.get("max_model_len"),
        model.get("context_length"),
        model.get("context_window"),
        model.get("max_context_length"),
        meta.get("n_ctx"),
    ):
        if isinstance(found, int) and found > 0:
            return found
    return 0


class Dialect(Protocol):
    """A kind of server.

    `fields` are the sampling parameters it has, by our names, with its own; of these `refused` are not taken
    by this model of it: its own values count, and ours must be the default. `takes_tokens`: a prompt is
    sent as tokens, rendered here, so counts are exact. `constraints` and `tools` are the kinds, and the tool
    choices, that it is believed to keep. `ignores_eos`: it can be told to write
    on, `keeps_least`: for a number of tokens (`min_tokens`). `reads`: it tells how likely the tokens of a
    text are, and which were likelier; `scores`: those of given texts after a prompt.
    """

    name: str

    @property
    def fields(self) -> Mapping[str, str]: ...

    @property
    def tokenizer(self) -> Tokenizer: ...

    orders: bool
    takes_tokens: bool
    refused: frozenset[str]
    constraints: frozenset[str]
    tools: frozenset[str]
    ignores_eos: bool
    keeps_least: bool
    logprobs: int | None
    reads: bool
    scores: bool
    facts: Facts
    formatter: Formatter

    def question(self, request: Request, seed: int) -> tuple[str, dict[str, Any]]:
        """Return the path and the body that ask for one sample, streamed."""

    def reader(self, request: Request, sample: int) -> SampleReader:
        """Return what makes events of the values that are streamed for a sample."""

    def count(self, messages: Sequence[Mapping[str, Any]]) -> int:
        """Return how many tokens the server makes of a conversation, counted by the server."""

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Return a vector a text."""

    async def read(self, ask: Ask, tokens: Sequence[int]) -> list[Expected] | None:
        """Return what is known of each token of a text but the first; None where the server does not tell."""

    async def score(
        self, ask: Ask, prompt: Sequence[int], texts: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        """Return the log-probability of each token of each text after a prompt, where it `scores`."""


class Untold:
    """A kind that does not tell how likely given texts are."""

    reads = scores = False

    async def read(self, ask: Ask, tokens: Sequence[int]) -> list[Expected] | None:
        return None

    async def score(
        self, ask: Ask, prompt: Sequence[int], texts: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        raise NotImplementedError


def default_sampling(dialect: Dialect) -> Sampling:
    """Return the sampling for calls that name none: ours, without what the server does not have."""
    lacking = {name: value for name, value in OFF.items() if name not in dialect.fields}
    return Sampling(**lacking)


def lacking(dialect: Dialect, sampling: Sampling) -> str | None:
    """Return the parameter of a sampling that a server does not have, in words; None where it has all."""
    plain, usual = Parameters(), default_sampling(dialect)
    for name in dialect.refused:
        if (value := getattr(sampling, name)) != getattr(usual, name):
            return f"{name}={value!r}"
    for stage in chain(sampling):
        for parameter in STAGES[stage].parameters if stage in STAGES else ():
            value = getattr(sampling, parameter.name)
            off = OFF.get(parameter.name, getattr(plain, parameter.name))
            if parameter.name not in dialect.fields and value != off:
                return f"{parameter.name}={value!r}"
    if sampling.samplers != DEFAULT_ORDER and not dialect.orders and sampling.plain:
        return "an order of the samplers"
    return None


def parameters(dialect: Dialect, sampling: Sampling) -> dict[str, Any]:
    """Return the server's own fields for a sampling: all that it has, so that its defaults do not count."""
    found = {
        theirs: getattr(sampling, ours)
        for ours, theirs in dialect.fields.items()
        if ours != "logit_bias" and ours not in dialect.refused
    }
    if "logit_bias" in dialect.fields and sampling.logit_bias:
        found[dialect.fields["logit_bias"]] = {str(token): bias for token, bias in sampling.logit_bias}
    return found


def count_of(told: Any) -> int:
    """Return a count that a server tells, 0 for what is none: an answer is not lost for it."""
    return told if isinstance(told, int) and told > 0 else 0


def _likely(told: float | None) -> bool:
    """Whether this can be a log-probability: none is above 0, but for what rounding adds. NaN: not told."""
    return told is not None and not told > 1e-3


def joined_pairs(text: str) -> str:
    """Return a text with halves of surrogate pairs joined; a half without its other one is U+FFFD."""
    if text.isascii():
        return text
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


@dataclass
class SampleReader:
    """Makes events of one sample. `text` is all that came; the counts are the server's, once it says them."""

    request: Request
    sample: int
    text: str = ""
    pieces: int = 0
    ended: bool = False
    prompt_tokens: int = 0
    cached_tokens: int = 0
    completion_tokens: int = 0
    _thinking: bool = False
    _half: str = ""  # the first half of a surrogate pair, whose other one comes with the next piece

    @property
    def complete(self) -> bool:
        """Whether the server said that the answer is at its end."""
        return self.ended

    def feed(self, found: Any) -> Iterator[Event]:
        """Yield the events of one value."""
        raise NotImplementedError

    def last(self) -> Iterator[Event]:
        """Yield what is due when the stream is over."""
        return iter(())

    def finish(self, where: str) -> None:
        """Check, when the stream is over, that the answer had an end. Raises `StreamCutError`."""
        if not self.ended:
            raise StreamCutError(
                f"{where} closed the connection in the middle of the answer.",
                remedy="Ask again; what came is kept in the error's completion.",
            )

    def marked(self, thought: str, text: str) -> str:
        """Return what came as one text: a thought that is told by itself is put between marks."""
        if thought and not self._thinking:
            self._thinking, thought = True, f"<think>{thought}"
        elif text and self._thinking:
            self._thinking, text = False, f"</think>{text}"
        return thought or text

    def token(
        self,
        token: int,
        text: str,
        logprob: float | None = None,
        top: Sequence[tuple[int, float]] = (),
    ) -> TokenEvent:
        """Return the event of a token, with as many alternatives as were asked for."""
        text = self._joined(text)
        self.text += text
        self.pieces += 1
        asked = self.request.logprobs
        told = logprob if asked is not None and _likely(logprob) else None
        likely = [(other, value) for other, value in top if _likely(value)]
        return TokenEvent(self.sample, token, text, logprob=told, top=tuple(likely)[: asked or 0])

    def _joined(self, text: str) -> str:
        """Return a piece with what was held back before it, less a half at its end."""
        text = self._half + text
        self._half = text[-1:] if "\ud800" <= text[-1:] <= "\udbff" else ""
        return joined_pairs(text.removesuffix(self._half))

    def end(self, reason: FinishReason, text: str = "", stop: str | None = None) -> FinishEvent:
        """Return the event that ends the sample; `text` was held back until now."""
        self.ended = True
        text = joined_pairs(self._half + text)
        self._half = ""
        self.text += text
        return FinishEvent(self.sample, reason, text, stop)
