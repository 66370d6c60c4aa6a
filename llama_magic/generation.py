"""A generation under way: events of the engine become chunks, and at the end a `Completion`.

Events are put together on the engine thread, so an interrupt of the caller can lose nothing:
whatever was decoded is in the completion, wherever the caller stood.
"""

from __future__ import annotations

import asyncio
import math
import queue
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from llama_magic.engine.request import EndEvent, Event, FinishEvent, PromptEvent, Request, TokenEvent
from llama_magic.errors import GenerationInterrupted, StructuredOutputError
from llama_magic.results import Budget, Chunk, Completion, Progress, Timings, TokenLogprob, Usage

if TYPE_CHECKING:
    from llama_magic.engine.engine import Engine
    from llama_magic.engine.vocabulary import Vocabulary
    from llama_magic.formatters import Formatter
    from llama_magic.prompting import Prompt
    from llama_magic.structured import Constraint

_WAIT_S = 0.1  # a bounded wait keeps Ctrl-C working on Windows
# The last generations of this process, for the session's history.
recent: deque[Completion] = deque(maxlen=1000)


@dataclass(frozen=True)
class Plan:
    """Everything that a completion repeats of its request."""

    mode: str
    model: str
    prompt: Prompt
    max_tokens: int
    window: int
    load_s: float
    formatter: Formatter | None = None
    constraint: Constraint | None = None
    notes: tuple[str, ...] = ()


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


class Assembler:
    """Put the events of one request together. Called by the engine thread; read by the caller."""

    def __init__(self, plan: Plan, vocabulary: Vocabulary, request: Callable[[Assembler], Request]) -> None:
        self.plan = plan
        self.vocabulary = vocabulary
        self.request = request(self)
        formatter, prompt = plan.formatter, plan.prompt.text
        self.samples = [
            _Sample(formatter.reader(prompt) if formatter is not None else None)
            for _ in range(self.request.n)
        ]
        self.progress: Progress | None = None
        self.error: BaseException | None = None
        self.ended = threading.Event()
        self.deliver: Callable[[Chunk | None], None] = lambda _chunk: None

    def __call__(self, event: Event) -> None:
        if isinstance(event, TokenEvent):
            self._token(event)
        elif isinstance(event, PromptEvent):
            self.progress = Progress("prompt", event.done, event.total, unit="tokens")
        elif isinstance(event, FinishEvent):
            self._finish(event)
        elif isinstance(event, EndEvent):
            self.error = event.error
            self.ended.set()
            self.deliver(None)

    def _token(self, event: TokenEvent) -> None:
        sample = self.samples[event.sample]
        sample.ids.append(event.token)
        logprobs: tuple[TokenLogprob, ...] = ()
        if event.logprob is not None and self.request.logprobs is not None:
            logprobs = (self._logprob(event),)
            sample.logprobs += logprobs
        begin = len(sample.raw)
        delta, thinking = self._read(sample, event.text)
        if self.request.measure_outside:
            outside = math.nan if event.outside_mass is None else event.outside_mass
            logprob = math.nan if event.logprob is None else event.logprob
            sample.scores.append((begin, len(sample.raw), outside, logprob))
        self._send(event.sample, delta, thinking, (event.token,), logprobs)

    def _finish(self, event: FinishEvent) -> None:
        sample = self.samples[event.sample]
        delta, thinking = self._read(sample, event.text, final=True)
        sample.reason, sample.stop = event.reason, event.stop
        self._send(event.sample, delta, thinking, (), (), reason=event.reason)

    def _read(self, sample: _Sample, text: str, *, final: bool = False) -> tuple[str, str]:
        """Add text to a sample; return what is new of the answer and of the thinking."""
        sample.raw += text
        if sample.reader is None:
            sample.text += text
            return text, ""
        pieces = sample.reader.feed(text) if text else []
        if final:
            pieces = [*pieces, *sample.reader.flush()]
        delta = "".join(p.text for p in pieces if p.kind == "text")
        thinking = "".join(p.text for p in pieces if p.kind == "thinking")
        sample.text += delta
        sample.thinking += thinking
        return delta, thinking

    def _send(
        self,
        index: int,
        delta: str,
        thinking: str,
        ids: tuple[int, ...],
        logprobs: tuple[TokenLogprob, ...],
        reason: Any = None,
    ) -> None:
        text = self.samples[index].text
        self.deliver(Chunk(delta, text, ids, logprobs, reason, thinking, None, index))

    def _logprob(self, event: TokenEvent) -> TokenLogprob:
        def shown(token: int) -> str:
            return self.vocabulary.piece(token).decode("utf-8", "replace")

        top = tuple((token, shown(token), value) for token, value in event.top)
        assert event.logprob is not None
        return TokenLogprob(event.token, shown(event.token), event.logprob, top)

    # --- the caller's side ----------------------------------------------------------------

    @property
    def budget(self) -> Budget:
        plan = self.plan
        return plan.prompt.budget(plan.window, plan.max_tokens)

    def completions(self) -> list[Completion]:
        """Return what was written so far, one completion a sample."""
        return [self._completion(sample) for sample in self.samples]

    def _completion(self, sample: _Sample) -> Completion:
        plan, request, stats = self.plan, self.request, self.request.stats
        reply = plan.formatter.parse(sample.raw, plan.prompt.text) if plan.formatter is not None else None
        budget = replace(self.budget, cached_tokens=stats.cached_tokens, generated_tokens=len(sample.ids))
        messages = plan.prompt.messages
        if messages:
            messages = (*messages, {"role": "assistant", "content": sample.text})
        writing = stats.last_token - stats.first_token
        timings = Timings(
            load_s=plan.load_s,
            prompt_s=max(0.0, (stats.prompt_done or stats.ended) - (stats.started or stats.ended)),
            first_token_s=max(0.0, stats.first_token - stats.submitted) if stats.first_token else 0.0,
            total_s=max(0.0, (stats.ended or stats.last_token) - stats.submitted),
            tokens_per_second=(len(sample.ids) - 1) / writing if writing > 0 and len(sample.ids) > 1 else 0.0,
        )
        extra = {"fields": _fields(sample)} if sample.scores else {}
        return Completion(
            text=sample.text,
            prompt=plan.prompt.text,
            prompt_token_ids=tuple(request.prompt),
            token_ids=tuple(sample.ids),
            finish_reason=sample.reason or "interrupted",
            usage=Usage(len(request.prompt), stats.cached_tokens, len(sample.ids)),
            timings=timings,
            seed=request.sample_seed(self.samples.index(sample)),
            sampling=request.sampling,
            model=plan.model,
            budget=budget,
            raw_text=sample.raw,
            thinking=sample.thinking,
            stop=sample.stop,
            logprobs=tuple(sample.logprobs) if request.logprobs is not None else None,
            messages=messages,
            tool_calls=reply.tool_calls if reply is not None else (),
            notes=(*plan.prompt.notes, *plan.notes),
            seeded=request.exact,
            mode=plan.mode,
            extra=extra,
        )


def _fields(sample: _Sample) -> dict[str, Any]:
    """Return the report of each field of a structured answer, by JSON pointer."""
    from llama_magic.structured import field_report

    shift = max(0, sample.raw.find(sample.text))  # a thinking part stands before the answer
    begins, ends, outside, logprobs = zip(*sample.scores, strict=True)
    offsets = [(begin - shift, end - shift) for begin, end in zip(begins, ends, strict=True)]
    return dict(field_report(sample.text, offsets, outside, logprobs))


class Stream:
    """An answer as it is written: iterate for `Chunk`s, then read `completion`.

    `cancel()` stops it and keeps what was written (finish reason "interrupted"). Ctrl-C while
    waiting does the same and raises `GenerationInterrupted`, which carries the completion.
    Leaving a `with` block, or dropping the stream, cancels what still runs.
    """

    def __init__(
        self,
        engine: Engine,
        assembler: Assembler,
        deliver: Callable[[Chunk | None], None] | None = None,
    ) -> None:
        self._engine = engine
        self._assembler = assembler
        self._request = assembler.request
        self._chunks: queue.SimpleQueue[Chunk | None] = queue.SimpleQueue()
        self._result: Any = None
        self._recorded = False
        assembler.deliver = deliver or self._chunks.put
        engine.submit(self._request)
        self._finalizer = weakref.finalize(self, engine.cancel, self._request)
        self._finalizer.atexit = False

    @property
    def budget(self) -> Budget:
        """How the window is filled: prompt by parts, reserved answer, free."""
        return self._assembler.budget

    def progress(self) -> Progress | None:
        """How much of the prompt is read, None before the engine begins."""
        return self._assembler.progress

    def __iter__(self) -> Iterator[Chunk]:
        return self

    def __next__(self) -> Chunk:
        try:
            chunk = self._next()
        except KeyboardInterrupt:
            raise self._interrupted() from None
        if chunk is None:
            self._end()
            raise StopIteration
        constraint = self._assembler.plan.constraint
        if constraint is not None:
            chunk = replace(chunk, partial=constraint.partial(chunk.text))
        return chunk

    def _next(self) -> Chunk | None:
        while True:
            try:
                return self._chunks.get(timeout=0 if self._assembler.ended.is_set() else _WAIT_S)
            except queue.Empty:
                if self._assembler.ended.is_set() and self._chunks.empty():
                    return None  # its end was read before, perhaps by another thread

    def _end(self) -> None:
        self._finalizer.detach()
        if self._assembler.error is not None:
            raise self._assembler.error

    def run(self) -> Any:
        """Wait for the end and return the completion (a list for n > 1), without making chunks."""
        try:
            while self._next() is not None:
                pass
        except KeyboardInterrupt:
            raise self._interrupted() from None
        self._end()
        return self.completion

    def cancel(self) -> None:
        """Stop now; returns when the engine has let go. Text written so far is kept."""
        self._engine.cancel(self._request)
        self._assembler.ended.wait(10)

    close = cancel

    def _interrupted(self) -> GenerationInterrupted:
        """Stop, whatever an impatient second Ctrl-C says, and return what to raise."""
        for _ in range(5):
            try:
                self.cancel()
                return GenerationInterrupted(self.completion)
            except KeyboardInterrupt:
                continue
        return GenerationInterrupted(self.completion)

    @property
    def completion(self) -> Any:
        """The completion, or a list of them for n > 1; what was written so far while it runs."""
        if self._result is not None:
            return self._result
        ended = self._assembler.ended.is_set()
        raw = self._traceable()
        try:
            made = [finished(c, self._assembler.plan) for c in raw]
        except StructuredOutputError:
            if ended and not self._recorded:
                recent.extend(raw)
                self._recorded = True
            raise
        result = made if self._request.n > 1 else made[0]
        if ended:
            self._result = result
            recent.extend(made)
        return result

    def _traceable(self) -> list[Completion]:
        """Return the completions so far, each with what its `xray` needs."""
        from llama_magic.microscope.tracing import Tracer

        made = self._assembler.completions()
        parts = (self._engine, self._assembler.vocabulary, self._request)
        return [replace(c, _tracer=Tracer(*parts, i, c.token_ids)) for i, c in enumerate(made)]

    def __enter__(self) -> Stream:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.cancel()


def finished(completion: Completion, plan: Plan) -> Completion:
    """Give a structured answer its instance; raise `StructuredOutputError` where it is none."""
    if plan.constraint is None or completion.finish_reason == "interrupted":
        return completion
    partial = plan.constraint.partial(completion.text)
    if completion.finish_reason == "length":
        try:
            return replace(completion, parsed=plan.constraint.parse(completion.text))
        except StructuredOutputError:
            pass
        raise StructuredOutputError(
            f"The answer was cut after {len(completion.token_ids):,} tokens, before it was complete.",
            text=completion.text,
            partial=partial,
            completion=completion,
            remedy="Allow more tokens (--max-tokens), or ask for less.",
        )
    try:
        return replace(completion, parsed=plan.constraint.parse(completion.text))
    except StructuredOutputError as error:
        error.completion = completion
        raise


def _courier(
    loop: asyncio.AbstractEventLoop, chunks: asyncio.Queue[Chunk | None], request: Request
) -> Callable[[Chunk | None], None]:
    """Return what carries chunks from the engine thread into a loop. It does not hold the stream."""

    def deliver(chunk: Chunk | None) -> None:
        try:
            loop.call_soon_threadsafe(chunks.put_nowait, chunk)
        except RuntimeError:  # the loop was closed while the answer was written
            request.cancelled = True

    return deliver


class AsyncStream:
    """An answer as it is written, for `async for`. Leaving the loop, or cancelling its task, stops it."""

    def __init__(self, engine: Engine, assembler: Assembler) -> None:
        self._chunks: asyncio.Queue[Chunk | None] = asyncio.Queue()
        self._done = False
        courier = _courier(asyncio.get_running_loop(), self._chunks, assembler.request)
        self._inner = Stream(engine, assembler, courier)

    @property
    def budget(self) -> Budget:
        return self._inner.budget

    def __aiter__(self) -> AsyncStream:
        return self

    async def __anext__(self) -> Chunk:
        if self._done:
            raise StopAsyncIteration
        try:
            chunk = await self._chunks.get()
        except asyncio.CancelledError:
            self.cancel()
            raise
        if chunk is None:
            self._done = True
            self._inner._end()
            raise StopAsyncIteration
        constraint = self._inner._assembler.plan.constraint
        return replace(chunk, partial=constraint.partial(chunk.text)) if constraint is not None else chunk

    async def run(self) -> Any:
        """Wait for the end and return the completion."""
        async for _ in self:
            pass
        return self.completion

    def cancel(self) -> None:
        """Stop now; what was written is kept."""
        self._inner._engine.cancel(self._inner._request)

    async def aclose(self) -> None:
        self.cancel()

    @property
    def completion(self) -> Any:
        return self._inner.completion
