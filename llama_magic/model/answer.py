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
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from llama_magic.formatters import parse_tool_calls
from llama_magic.model.journal import journal
from llama_magic.model.results import Budget, Chunk, Completion, Timings, TokenLogprob, Usage
from llama_magic.request.events import EndEvent, Event, FinishEvent, PromptEvent, Stats, TokenEvent
from llama_magic.request.messages import assistant_message
from llama_magic.request.request import Request
from llama_magic.structured import field_report
from llama_magic.threads import Latch
from llama_magic.words.progress import Progress

if TYPE_CHECKING:
    from llama_magic.formatters import Formatter
    from llama_magic.model.prompt import Prompt
    from llama_magic.model.tools.offer import Offer
    from llama_magic.request.tokenizer import Tokenizer
    from llama_magic.structured import Constraint


@dataclass(frozen=True)
class Plan:
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


@dataclass
class _Sample:
    """What one sample wrote so far."""

    reader: Any
    text: str = ""
    thinking: str = ""
    raw: str = ""
    ids: list[int] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)
    scores: list[tuple[int, int, float, float]] = field(default_factory=list)
    reason: Any = None
    stop: str | None = None
    forced: int = 0
    calls: list[str] = field(default_factory=list)  # tool calls as they were written
    read: int = 0  # how many of them are through
    called: list[dict[str, Any]] = field(default_factory=list)  # these, as data


class Assembler:
    """Put the events of one request together. Called by the compute thread; read by the caller."""

    def __init__(self, plan: Plan, tokenizer: Tokenizer, request: Request) -> None:
        self.plan = plan
        self.tokenizer = tokenizer
        self.request = request
        self.stats = Stats()
        self.id = uuid.uuid4().hex
        self.asked_at = datetime.now(UTC).isoformat(timespec="milliseconds")
        self.samples = [_Sample(self._reader()) for _ in range(self.request.n)]
        self.progress: Progress | None = None
        self.error: BaseException | None = None
        self.ended = Latch()
        self.timed_out = False
        self.abandoned = False  # nobody will ask for the completion
        self._told = itertools.count()
        self.deliver: Callable[[Chunk | None], None] = lambda _chunk: None

    def _reader(self) -> Any:
        plan = self.plan
        if plan.formatter is None or not plan.reads:
            return None
        if plan.constraint is None and plan.offer is not None:
            return plan.offer.reader(plan.formatter, plan.prompt.text)
        return plan.formatter.reader(plan.prompt.text, once=plan.constraint is not None)

    def __call__(self, event: Event) -> None:
        if isinstance(event, TokenEvent):
            self._token(event)
        elif isinstance(event, PromptEvent):
            self._prompt(event)
        elif isinstance(event, FinishEvent):
            self._finish(event)
        elif isinstance(event, EndEvent):
            self.error = event.error
            self.stats.ended = time.perf_counter()
            self.stats = event.stats or self.stats
            self.ended.set()
            self.deliver(None)
            if self.abandoned and self.error is None:
                with contextlib.suppress(Exception):  # of a listener: this is the compute thread
                    self.tell(self.completions())

    def _prompt(self, event: PromptEvent) -> None:
        self.progress = Progress("prompt", event.done, event.total, unit="tokens")
        now = time.perf_counter()
        self.stats.started = self.stats.started or now
        self.stats.cached_tokens = event.cached
        if event.done >= event.total:
            self.stats.prompt_done = now

    def _token(self, event: TokenEvent) -> None:
        self.stats.last_token = time.perf_counter()
        self.stats.first_token = self.stats.first_token or self.stats.last_token
        sample = self.samples[event.sample]
        sample.ids.append(event.token)
        sample.forced += event.forced
        logprobs: tuple[TokenLogprob, ...] = ()
        if event.logprob is not None and self.request.logprobs is not None:
            logprobs = (self._logprob(event),)
            sample.logprobs += logprobs
        begin = len(sample.raw)
        delta, thinking, calls = self._read(event.sample, event.text)
        if self.request.measure_outside:
            outside = math.nan if event.outside_mass is None else event.outside_mass
            logprob = math.nan if event.logprob is None else event.logprob
            sample.scores.append((begin, len(sample.raw), outside, logprob))
        self._send(event.sample, delta, thinking, (event.token,), logprobs, calls)

    def _finish(self, event: FinishEvent) -> None:
        sample = self.samples[event.sample]
        delta, thinking, calls = self._read(event.sample, event.text, final=True)
        late = self.timed_out and event.reason == "interrupted"
        sample.reason, sample.stop = "timeout" if late else event.reason, event.stop
        self._send(event.sample, delta, thinking, (), (), calls, reason=sample.reason)

    def _read(
        self, index: int, text: str, *, final: bool = False
    ) -> tuple[str, str, tuple[dict[str, Any], ...]]:
        """Add text to a sample; return what is new of answer and thinking, and calls that are whole now."""
        sample = self.samples[index]
        sample.raw += text
        if sample.reader is None:
            sample.text += text
            return text, "", ()
        pieces = sample.reader.feed(text) if text else []
        if final:
            pieces = [*pieces, *sample.reader.flush()]
        delta = "".join(p.text for p in pieces if p.kind == "text")
        thinking = "".join(p.text for p in pieces if p.kind == "thinking")
        sample.text += delta
        sample.thinking += thinking
        for piece in pieces:
            if piece.kind == "tool_call":
                sample.calls += [""] if not piece.text else []
                sample.calls[-1] += piece.text
        return delta, thinking, self._called(index, final=final) if sample.calls else ()

    def _called(self, index: int, *, final: bool) -> tuple[dict[str, Any], ...]:
        """Return the tool calls of a sample that are through now."""
        sample = self.samples[index]
        open_still = not final and sample.reader.state == "tool_call"
        through = len(sample.calls) - open_still
        made: list[dict[str, Any]] = []
        for raw in sample.calls[sample.read : through]:
            made += parse_tool_calls(raw) if raw.strip() else []
        sample.read = through
        seed, first = self.request.sample_seed(index), len(sample.called)
        new = tuple(
            {"id": _call_id(self.plan.prompt.text, seed, number), **call}
            for number, call in enumerate(made, first)
        )
        sample.called += new
        return new

    def _send(
        self,
        index: int,
        delta: str,
        thinking: str,
        ids: tuple[int, ...],
        logprobs: tuple[TokenLogprob, ...],
        calls: tuple[dict[str, Any], ...],
        reason: Any = None,
    ) -> None:
        text = self.samples[index].text
        self.deliver(Chunk(delta, text, ids, logprobs, reason, thinking, None, index, calls))

    def _logprob(self, event: TokenEvent) -> TokenLogprob:
        def shown(token: int) -> str:
            return self.tokenizer.piece(token).decode("utf-8", "replace")

        top = tuple((token, shown(token), value) for token, value in event.top)
        assert event.logprob is not None
        return TokenLogprob(event.token, shown(event.token), event.logprob, top)

    def tell(self, made: Sequence[Completion[Any]]) -> None:
        """Tell the journal of the completions, once."""
        if next(self._told) == 0:
            journal.add(*made)

    # --- the caller's side ----------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        plan = self.plan
        return plan.prompt.budget(plan.window, plan.max_tokens)

    def completions(self) -> list[Completion[Any]]:
        """Return what was written so far, one completion a sample."""
        return [self._completion(index, sample) for index, sample in enumerate(self.samples)]

    def _completion(self, index: int, sample: _Sample) -> Completion[Any]:
        plan, request, stats = self.plan, self.request, self.stats
        budget = replace(self.budget, cached_tokens=stats.cached_tokens, generated_tokens=len(sample.ids))
        messages = plan.prompt.messages
        if plan.prompt.continues:
            *before, begun = messages
            messages = (*before, {**begun, "content": f"{begun['content']}{sample.text}"})
        elif messages:
            messages = (*messages, assistant_message(sample.text, sample.called))
        writing = stats.last_token - stats.first_token
        ended = stats.ended or stats.last_token
        began = stats.started or ended
        timings = Timings(
            load_s=plan.load_s,
            prompt_s=max(0.0, (stats.prompt_done or stats.ended) - (stats.started or stats.ended)),
            first_token_s=max(0.0, stats.first_token - began) if stats.first_token else 0.0,
            total_s=max(0.0, ended - began),
            tokens_per_second=(len(sample.ids) - 1) / writing if writing > 0 and len(sample.ids) > 1 else 0.0,
            waiting_s=max(0.0, began - stats.submitted),
        )
        return Completion(
            text=sample.text,
            prompt=plan.prompt.text,
            prompt_token_ids=tuple(request.prompt),
            token_ids=tuple(sample.ids),
            finish_reason=sample.reason or "interrupted",
            usage=Usage(
                stats.prompt_tokens or len(request.prompt),
                stats.cached_tokens,
                stats.completion_tokens or len(sample.ids),
                sample.forced,
            ),
            timings=timings,
            seed=request.sample_seed(index),
            sampling=request.sampling,
            model=plan.model,
            budget=budget,
            raw_text=sample.raw,
            thinking=sample.thinking,
            stop=sample.stop,
            logprobs=tuple(sample.logprobs) if request.logprobs is not None else None,
            messages=messages,
            tool_calls=tuple(sample.called),
            steps=plan.steps,
            notes=(*plan.prompt.notes, *plan.advice, *_notes(plan, sample.text)),
            seeded=request.exact,
            mode=plan.mode,
            fields=_fields(sample) if sample.scores else {},
            thinking_choice=plan.thinking,
            made_with=plan.made_with,
            sample=index,
            request=plan.request,
            id=f"{self.id}-{index}",
            time=self.asked_at,
            tag=plan.tag,
        )


def _call_id(prompt: str, seed: int, number: int) -> str:
    """Return the id of a call: nine letters and digits, as Mistral's templates want it; the same by seed."""
    return sha256(f"{number} {seed} {prompt}".encode("utf-8", "replace")).hexdigest()[:9]


def _notes(plan: Plan, text: str) -> tuple[str, ...]:
    """Return what was chosen of thinking, and what the schema gives occasion to say."""
    chosen = (plan.thinking,) if plan.thinking else ()
    return chosen if plan.constraint is None else (*chosen, *plan.constraint.notes_on(text))


def _fields(sample: _Sample) -> dict[str, Any]:
    """Return the report of each field of a structured answer, by JSON pointer."""
    shift = max(0, sample.raw.find(sample.text))  # a thinking part stands before the answer
    begins, ends, outside, logprobs = zip(*sample.scores, strict=True)
    offsets = [(begin - shift, end - shift) for begin, end in zip(begins, ends, strict=True)]
    return dict(field_report(sample.text, offsets, outside, logprobs))
