"""Events of the engine become chunks, and at the end a `Completion`.

They are put together on the compute thread, so an interrupt of the caller can lose nothing:
whatever was decoded is in the completion, wherever the caller stood.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

from llama_magic.model.drafts import drafts_of
from llama_magic.model.journal import journal
from llama_magic.model.logprobs import TokenLogprob, TopLogprob
from llama_magic.model.results import Budget, Chunk, Completion, Usage
from llama_magic.model.sample import Sample
from llama_magic.model.stats import ModelStats, timings_of
from llama_magic.request.events import (
    EndEvent,
    Event,
    FinishEvent,
    KnownEvent,
    PromptEvent,
    Stats,
    TokenEvent,
)
from llama_magic.request.fixed import Fixed
from llama_magic.request.request import Request, piece_of
from llama_magic.request.text import TextStream
from llama_magic.threads import Latch
from llama_magic.words.progress import Progress

if TYPE_CHECKING:
    from llama_magic.formatters import Formatter
    from llama_magic.model.prompt import Prompt
    from llama_magic.model.tools.offer import Offer
    from llama_magic.request.tokenizer import Tokenizer
    from llama_magic.structured import Constraint


@dataclass(frozen=True)
class Terms:
    """Everything that a completion repeats of its request."""

    mode: str
    model: str
    prompt: Prompt
    max_tokens: int
    window: int
    load_s: float
    timeout: float | None = None  # seconds
    formatter: Formatter | None = None
    constraint: Constraint | None = None
    thinking: str = ""  # what was chosen of thinking, in words
    reads: bool = True  # the formatter reads marks of its family out of the answer
    made_with: dict[str, Any] = field(default_factory=dict)
    advice: tuple[str, ...] = ()  # what was asked for and does nothing
    tag: str | None = None
    request: str = ""  # what equal requests have in common
    offer: Offer | None = None  # tools that may be called
    steps: tuple[dict[str, Any], ...] = ()  # turns that the call itself added before this answer
    again: Again | None = None


class Again(Protocol):
    """Prepare the same call with other options, its answer beginning with these tokens."""

    def __call__(self, changes: Mapping[str, Any], begun: Sequence[int]) -> Assembler: ...


class Assembler:
    """Put the events of one request together. Called by the compute thread; read by the caller."""

    def __init__(self, terms: Terms, tokenizer: Tokenizer, request: Request) -> None:
        self.terms = terms
        self.tokenizer = tokenizer
        self.request = request
        self.stats = Stats()
        self.counts: ModelStats | None = None
        self.id = uuid.uuid4().hex
        self.asked_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.samples = [self._sample(index) for index in range(self.request.n)]
        self.progress: Progress | None = None
        self.error: BaseException | None = None
        self.ended = Latch()
        self.timed_out = False
        self.abandoned = False  # nobody will ask for the completion
        self._told = itertools.count()
        self._known: list[Completion[Any]] = []
        self.listed = True  # history and records are told of it
        self.branches: list[Completion[Any]] = []  # of the answer that this one goes on from
        self.deliver: Callable[[Chunk | None], None] = lambda _chunk: None
        self.silent = False  # nobody reads chunks any more, so none are made

    def _reader(self) -> Any:
        terms = self.terms
        if terms.formatter is None or not terms.reads:
            return None
        if terms.constraint is None and terms.offer is not None:
            return terms.offer.reader(terms.formatter, terms.prompt.head)
        return terms.formatter.reader(terms.prompt.head, once=terms.constraint is not None)

    def _sample(self, index: int) -> Sample:
        """Return a sample that holds what the answer was given to begin with."""
        request = self.request
        sample = Sample(self._reader(), self.terms.prompt.text, request.sample_seed(index))
        pieces = (self.piece(token) for token in request.begun)
        sample.begin(request.begun, TextStream.begun(request.stops, pieces)[1])
        return sample

    def piece(self, token: int) -> bytes:
        """Return the bytes that a token adds to the text."""
        return piece_of(self.tokenizer, self.request, token)

    def __call__(self, event: Event) -> None:
        if isinstance(event, TokenEvent):
            self._token(event)
        elif isinstance(event, PromptEvent):
            self._prompt(event)
        elif isinstance(event, FinishEvent):
            self._finish(event)
        elif isinstance(event, KnownEvent):
            self._know(event.answers)
        elif isinstance(event, EndEvent):
            self.error = event.error
            self.stats.ended = time.perf_counter()
            self.stats = event.stats or self.stats
            self._count()
            self.ended.set()
            self.deliver(None)
            if self.abandoned and self.error is None:
                with contextlib.suppress(Exception):  # of a listener: this is the compute thread
                    self.tell(self.completions())

    def _count(self) -> None:
        if self.counts is None:
            return
        begun = len(self.request.begun)
        tokens = sum(len(sample.ids) - begun for sample in self.samples)
        ends = {sample.reason for sample in self.samples}
        failed = self.error is not None
        self.counts.add(self.stats, len(self.request.prompt), tokens, ends, failed=failed)

    def _know(self, answers: Sequence[Completion[Any]]) -> None:
        """End at once, with answers that were written before."""
        self._known = list(answers)
        for at, one in enumerate(answers):
            told = one.text, one.text, one.token_ids, one.logprobs or (), one.finish_reason, one.thinking
            self.deliver(Chunk(*told, sample=at, tool_calls=one.tool_calls))
        self.ended.set()
        self.deliver(None)

    def _prompt(self, event: PromptEvent) -> None:
        self.progress = Progress("prompt", event.done, event.total, unit="tokens")
        now = time.perf_counter()
        self.stats.started = self.stats.started or now
        self.stats.cached_tokens = event.cached
        if event.done >= event.total:
            self.stats.prompt_done = now

    def _token(self, event: TokenEvent) -> None:
        index, token, text, forced, logprob, _, outside, guessed, struck = event
        stats, sample = self.stats, self.samples[index]
        stats.last_token = time.perf_counter()
        if not stats.first_token:
            stats.first_token = stats.last_token
        if guessed or struck:
            sample.guess(struck, guessed=guessed)
        sample.ids.append(token)
        sample.forced += forced
        logprobs: tuple[TokenLogprob, ...] = ()
        if logprob is not None and self.request.logprobs is not None:
            logprobs = (self._logprob(event),)
            sample.logprobs += logprobs
        begin = len(sample.raw)
        delta, thinking, calls = sample.read(text)
        if self.request.measure_outside:
            mass, wish = (math.nan if told is None else told for told in (outside, logprob))
            sample.scores.append((begin, len(sample.raw), mass, wish))
        if not self.silent:
            self._send(index, delta, thinking, (token,), logprobs, calls, None, struck, forced, guessed)

    def _finish(self, event: FinishEvent) -> None:
        sample = self.samples[event.sample]
        sample.guess(event.struck)
        # Now, for a model that is closed cannot say what struck tokens were.
        sample.drafts = drafts_of(sample.ids, sample.guesses, self.piece)
        delta, thinking, calls = sample.read(event.text, final=True)
        late = self.timed_out and event.reason == "interrupted"
        sample.reason, sample.stop = "timeout" if late else event.reason, event.stop
        if not self.silent:
            self._send(event.sample, delta, thinking, (), (), calls, sample.reason, event.struck)

    def _send(
        self,
        index: int,
        delta: str,
        thinking: str,
        ids: tuple[int, ...],
        logprobs: tuple[TokenLogprob, ...],
        calls: tuple[dict[str, Any], ...],
        reason: Any = None,
        struck: tuple[int, ...] = (),
        forced: bool = False,
        guessed: bool = False,
    ) -> None:
        sample = self.samples[index]
        if sample.unsent is not None:
            begun, thought, given = sample.unsent
            sample.unsent = None
            delta, thinking, ids = begun + delta, thought + thinking, given + ids
        failed = tuple([self.piece(token).decode("utf-8", "replace") for token in struck])
        told = delta, sample.text, ids, logprobs, reason, thinking, None, index, calls, ()
        self.deliver(Chunk(*told, int(forced), int(guessed), failed))

    def _logprob(self, event: TokenEvent) -> TokenLogprob:
        def shown(token: int) -> str:
            return self.tokenizer.piece(token).decode("utf-8", "replace")

        top = tuple(TopLogprob(token, shown(token), value) for token, value in event.top)
        assert event.logprob is not None
        return TokenLogprob(event.token, shown(event.token), event.logprob, top, self.piece(event.token))

    def tell(self, made: Sequence[Completion[Any]]) -> None:
        """Tell the journal of the completions, once."""
        if self.listed and next(self._told) == 0:
            journal.add(*made)
            self.branches.extend(made)

    # --- the caller's side ----------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        terms = self.terms
        return terms.prompt.budget(terms.window, terms.max_tokens)

    def completions(self) -> list[Completion[Any]]:
        """Return what was written so far, one completion a sample."""
        if self._known:
            return list(self._known)
        return [self._completion(index, sample) for index, sample in enumerate(self.samples)]

    def _completion(self, index: int, sample: Sample) -> Completion[Any]:
        terms, request, stats = self.terms, self.request, self.stats
        written = len(sample.ids) - (begun := len(request.begun))
        budget = replace(self.budget, cached_tokens=stats.cached_tokens, generated_tokens=written)
        return Completion(
            text=sample.text,
            prompt=terms.prompt.text,
            prompt_token_ids=Fixed(request.prompt),
            token_ids=Fixed(sample.ids),
            finish_reason=sample.reason or "interrupted",
            usage=Usage(
                stats.prompt_tokens or len(request.prompt),
                stats.cached_tokens,
                stats.completion_tokens or written,
                sample.forced,
                sample.drafted,
                sample.accepted,
            ),
            timings=timings_of(stats, terms.load_s, written - sample.forced),
            seed=request.sample_seed(index),
            sampling=request.sampling,
            model=terms.model,
            budget=budget,
            raw_text=sample.raw,
            thinking=sample.thinking,
            stop=sample.stop,
            logprobs=tuple(sample.logprobs) if request.logprobs is not None else None,
            messages=Fixed(terms.prompt.answered(sample.text, sample.called, sample.thinking)),
            tool_calls=tuple(sample.called),
            steps=terms.steps,
            notes=(*terms.prompt.notes, *terms.advice, *_notes(terms, sample.text)),
            seeded=request.exact,
            mode=terms.mode,
            fields=sample.reports(),
            thinking_choice=terms.thinking,
            made_with=terms.made_with,
            sample=index,
            begun=begun,
            request=terms.request,
            id=f"{self.id}-{index}",
            time=self.asked_at,
            tag=terms.tag,
            _drafts=sample.drafts,
            _unguessed=stats.unguessed,
        )


def _notes(terms: Terms, text: str) -> tuple[str, ...]:
    """Return what was chosen of thinking, and what the schema gives occasion to say."""
    chosen = (terms.thinking,) if terms.thinking else ()
    return chosen if terms.constraint is None else (*chosen, *terms.constraint.notes_on(text))
