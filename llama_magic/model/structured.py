"""Structured answers: a constraint on the way, an instance at the end, asking again if need be."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from llama_magic.errors import (
    ContextOverflowError,
    GenerationInterrupted,
    InputTypeError,
    LlamaMagicError,
    OptionError,
    StructuredOutputError,
    TemplateError,
)
from llama_magic.model.asked import Beside
from llama_magic.model.astream import AsyncStream
from llama_magic.model.call import Calls
from llama_magic.model.finished import is_stopped
from llama_magic.model.prompt import as_messages
from llama_magic.model.stream import Stream
from llama_magic.model.thinking import Thinking
from llama_magic.request.request import row_seed
from llama_magic.request.sampling import check_seed
from llama_magic.structured import schema_text
from llama_magic.threads import despite_interrupts
from llama_magic.words.counting import counted
from llama_magic.words.given import flag

if TYPE_CHECKING:
    from llama_magic.model.answer import Assembler
    from llama_magic.model.results import Budget, Chunk
    from llama_magic.structured import Constraint
    from llama_magic.words.progress import Progress

C = TypeVar("C", default=Any)  # what `completion` is


@dataclass
class StructuredCall:
    """One call of `Model.structured`."""

    calls: Calls
    schema: Any
    retries: int
    template_variables: Mapping[str, Any] | None
    options: dict[str, Any]
    thinking: bool = False
    show_schema: bool = False
    constraint: Constraint = field(init=False)
    _thinking: Thinking = field(init=False)

    def __post_init__(self) -> None:
        if isinstance(self.retries, bool) or not isinstance(self.retries, int) or self.retries < 0:
            raise OptionError(f"retries is {self.retries!r}; expected 0 or more.")
        self.thinking = flag("thinking", self.thinking)
        self.show_schema = flag("show_schema", self.show_schema)
        self.constraint = self.calls.constraint(self.schema)
        self._thinking = Thinking.choose(self.calls.formatter, self.thinking, self._variables)

    @property
    def _variables(self) -> Mapping[str, Any]:
        return {} if self.template_variables is None else self.template_variables

    def run(self, prompt: Any, *, system: str | None, stream: bool) -> Any:
        """Run it for one prompt, one conversation, or a list of prompts together."""
        if _is_batch(prompt):
            if flag("stream", stream):
                raise _no_stream()
            return _Batch(self, [self.messages(p, system) for p in prompt]).run()
        made: StructuredStream[Any] = StructuredStream(self, self.messages(prompt, system))
        return made if flag("stream", stream) else made.run()

    def of_row(self, row: int) -> StructuredCall:
        """Return the call for one prompt of a list: with a seed each row has its own, made from it."""
        seed = self.options.get("seed")
        if seed is None or not row:
            return self
        return replace(self, options={**self.options, "seed": row_seed(check_seed(seed), row)})

    def messages(self, prompt: Any, system: str | None) -> list[Any]:
        """Return what is asked as a conversation, with the schema where it is to be shown."""
        if isinstance(prompt, str):
            return self._with_schema(as_messages(prompt, system))
        if not isinstance(prompt, (list, tuple)):
            raise InputTypeError(
                f"The prompt is a {type(prompt).__name__}; expected a str, messages, or a list of str."
            )
        head = [] if system is None else [{"role": "system", "content": system}]
        return self._with_schema([*head, *prompt])

    def _with_schema(self, messages: list[Any]) -> list[Any]:
        """Let the model read the schema, at the end of the last turn, where that is asked for."""
        if not self.show_schema or self.constraint.schema is None:
            return messages
        last = messages[-1]
        if not isinstance(last, Mapping) or not isinstance(last.get("content"), str):
            raise InputTypeError("The schema is shown at the end of the last message, which must be a text.")
        words = f"Answer as JSON that fits this schema:\n{schema_text(self.constraint.schema)}"
        return [*messages[:-1], {**last, "content": f"{last['content']}\n\n{words}"}]

    async def arun(self, prompt: Any, *, system: str | None) -> Any:
        """Run it in an event loop; a cancelled task cancels what is decoded for it."""
        if _is_batch(prompt):
            rows = (self.of_row(row).arun(p, system=system) for row, p in enumerate(prompt))
            return _rows(await asyncio.gather(*rows, return_exceptions=True))
        return await self.astream(prompt, system=system).run()

    def astream(self, prompt: Any, *, system: str | None) -> AsyncStructuredStream[Any]:
        """Begin it in an event loop, to be read chunk by chunk."""
        if _is_batch(prompt):
            raise _no_stream()
        return AsyncStructuredStream(self, self.messages(prompt, system))

    def stream(self, messages: Sequence[Any]) -> Stream[Any]:
        """Start one attempt."""
        return Stream(self.calls.backend, self.assembler(messages))

    def assembler(self, messages: Sequence[Any]) -> Assembler:
        """Return one attempt, prepared."""
        beside = Beside(self.retries, self.thinking, template_variables=self._variables)
        return self.calls.chat(
            "structured", messages, self.constraint, self.options, beside, thinking=self._thinking
        )


def _is_batch(prompt: Any) -> bool:
    """Tell a list of prompts, decoded together, from a conversation."""
    return isinstance(prompt, (list, tuple)) and bool(prompt) and all(isinstance(p, str) for p in prompt)


def _no_stream() -> OptionError:
    return OptionError("A list of prompts cannot be streamed; ask for one, or leave out stream.")


_OF_A_ROW = (StructuredOutputError, ContextOverflowError, TemplateError)


class _Batch:
    """Answers to several prompts: one that fails or is interrupted never costs the others."""

    def __init__(self, call: StructuredCall, rows: list[list[Any]]) -> None:
        self._call = call
        self._rows = rows
        self._streams: list[StructuredStream[Any] | LlamaMagicError] = []
        self._results: list[Any] = []

    def run(self) -> list[Any]:
        try:
            for row, messages in enumerate(self._rows):
                self._streams.append(self._start(self._call.of_row(row), messages))
            for stream in self._streams:
                self._results.append(self._finish(stream))
        except KeyboardInterrupt:
            raise self._interrupted() from None
        except BaseException:
            self._cancel()
            raise
        return _rows(self._results)

    @staticmethod
    def _start(call: StructuredCall, messages: list[Any]) -> StructuredStream[Any] | LlamaMagicError:
        try:
            return StructuredStream(call, messages)
        except _OF_A_ROW as error:
            return error

    def _finish(self, stream: StructuredStream[Any] | LlamaMagicError) -> Any:
        if isinstance(stream, LlamaMagicError):
            return stream
        try:
            return stream.run()
        except LlamaMagicError as error:
            return error

    def _cancel(self) -> None:
        going = [stream for stream in self._streams if isinstance(stream, StructuredStream)]
        for stream in going:  # else the engine goes on with some while one is waited for
            stream.halt()
        for stream in going:
            stream.cancel()

    def _interrupted(self) -> GenerationInterrupted:
        """Stop all, whatever an impatient second Ctrl-C says, and keep what there is of each row."""

        def stop() -> list[Any]:
            self._cancel()
            going = self._streams[len(self._results) :]
            return [_kept(result) for result in self._results] + [_so_far(stream) for stream in going]

        try:
            kept = despite_interrupts(stop)
        except KeyboardInterrupt:
            kept = [_kept(result) for result in self._results]
        kept += [None] * (len(self._rows) - len(kept))
        finished = sum(getattr(row, "finish_reason", "interrupted") != "interrupted" for row in kept)
        rows = counted(len(kept), "row")
        words = f"{finished:,} of {rows} finished; sys.last_value.completion holds what was written"
        return GenerationInterrupted(kept, words)


def _kept(result: Any) -> Any:
    """Return what there is of a row: its completion, also where it is no instance; None of none."""
    if isinstance(result, LlamaMagicError):
        return list(result.completions) or getattr(result, "completion", None)
    return result


def _so_far(stream: StructuredStream[Any] | LlamaMagicError) -> Any:
    if isinstance(stream, LlamaMagicError):
        return None
    try:
        return stream.completion
    except LlamaMagicError as error:
        return _kept(error)


def _rows(results: Sequence[Any]) -> list[Any]:
    """Return the results of all rows; raise the first error, which keeps them all and names its row."""
    failed = [row for row, result in enumerate(results) if isinstance(result, BaseException)]
    if not failed:
        return list(results)
    foreign = (results[row] for row in failed if not isinstance(results[row], LlamaMagicError))
    error = next(foreign, None)
    if error is not None:
        raise error
    raise results[failed[0]].of_row(failed[0], len(failed), [_kept(result) for result in results])


@dataclass
class _Attempts:
    """What is asked now, and how often it may be asked again."""

    messages: list[Any]
    left: int
    asked: int = 1

    def again(self, error: StructuredOutputError) -> bool:
        """Prepare the next attempt, which is told what was wrong; False where none is left."""
        made = error.completion
        cut = made is None or made.finish_reason != "stop" or is_stopped(made)
        if cut or self.left < 1:
            if self.asked > 1:
                error.add(f"It was asked {self.asked} times.")
            return False
        self.left -= 1
        self.asked += 1
        again = f"That answer is not valid: {error.message} Answer again, with a valid value."
        answer = {"role": "assistant", "content": error.text}
        self.messages = [*self.messages, answer, {"role": "user", "content": again}]
        return True


class StructuredStream(Generic[C]):
    """A structured answer as it is written; each chunk has `partial`, an object that only grows.

    When a finished answer fails its check and retries are left, it is asked for again with
    the reason, and the chunks begin anew.
    """

    def __init__(self, call: StructuredCall, messages: list[Any]) -> None:
        self._call = call
        self._attempts = _Attempts(messages, call.retries)
        self._stream: Stream[C] = call.stream(messages)
        self._at_end: Callable[[], None] | None = None

    @property
    def budget(self) -> Budget:
        return self._stream.budget

    @property
    def mode(self) -> str:
        return self._stream.mode

    def progress(self) -> Progress | None:
        return self._stream.progress()

    @property
    def fields(self) -> tuple[str, ...]:
        """Names of the top fields, in order, for a view that shows them before they are written."""
        schema = self._call.constraint.schema
        properties = schema.get("properties") if isinstance(schema, dict) else None
        return tuple(properties) if isinstance(properties, dict) else ()

    @property
    def samples(self) -> int:
        return self._stream.samples

    @property
    def prompt(self) -> str:
        return self._stream.prompt

    def __iter__(self) -> Iterator[Chunk]:
        while True:
            yield from self._stream
            if not self._again():
                return

    def on_end(self, call: Callable[[], None]) -> None:
        """Have `call` called when an attempt has ended; see `Stream.on_end`."""
        self._at_end = call
        self._stream.on_end(call)

    def settled(self) -> bool:
        """Whether `run` would return at once; where a check failed and retries are left, asks again."""
        return self._stream.settled() and not self._again()

    def run(self) -> C:
        """Wait for the end and return the completion."""
        while True:
            try:
                return self._stream.run()
            except StructuredOutputError as error:
                if not self._retry(error):
                    raise

    def _again(self) -> bool:
        try:
            _ = self._stream.completion
        except StructuredOutputError as error:
            return self._retry(error)
        return False

    def _retry(self, error: StructuredOutputError) -> bool:
        if not self._attempts.again(error):
            return False
        self._stream = self._call.stream(self._attempts.messages)
        if self._at_end is not None:
            self._stream.on_end(self._at_end)
        return True

    def halt(self) -> None:
        """Ask the engine to stop, and do not wait for it; see `Stream.halt`."""
        self._attempts.left = 0
        self._stream.halt()

    def cancel(self) -> None:
        self.halt()
        self._stream.cancel()

    close = cancel

    @property
    def completion(self) -> C:
        """The completion; raises `StructuredOutputError` where the answer is not an instance."""
        return self._stream.completion

    def __enter__(self) -> StructuredStream[C]:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.cancel()


class AsyncStructuredStream(Generic[C]):
    """A `StructuredStream` for `async for`: with retries left, the chunks begin anew as there."""

    def __init__(self, call: StructuredCall, messages: list[Any]) -> None:
        self._call = call
        self._attempts = _Attempts(messages, call.retries)
        self._stream = self._begin()

    def _begin(self) -> AsyncStream[C]:
        return AsyncStream(self._call.calls.backend, self._call.assembler(self._attempts.messages))

    @property
    def budget(self) -> Budget:
        return self._stream.budget

    def __aiter__(self) -> AsyncStructuredStream[C]:
        return self

    async def __anext__(self) -> Chunk:
        while True:
            try:
                return await anext(self._stream)
            except StopAsyncIteration:
                if not self._again():
                    raise

    def _again(self) -> bool:
        try:
            _ = self._stream.completion
        except StructuredOutputError as error:
            if self._attempts.again(error):
                self._stream = self._begin()
                return True
        return False

    async def run(self) -> C:
        """Wait for the end and return the completion."""
        async for _ in self:
            pass
        return self.completion

    def cancel(self) -> None:
        """Stop now; what was written is kept."""
        self._attempts.left = 0
        self._stream.cancel()

    async def aclose(self) -> None:
        self.cancel()

    @property
    def completion(self) -> C:
        """The completion; raises `StructuredOutputError` where the answer is not an instance."""
        return self._stream.completion
