"""Structured answers: a constraint on the way, an instance at the end, asking again if need be."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic

from typing_extensions import TypeVar

from llama_magic.errors import InputTypeError, OptionError, StructuredOutputError
from llama_magic.model.call import Calls
from llama_magic.model.prompt import as_messages
from llama_magic.model.stream import AsyncStream, Stream
from llama_magic.model.thinking import Thinking

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
    template_variables: Mapping[str, Any]
    options: dict[str, Any]
    thinking: bool = False
    constraint: Constraint = field(init=False)
    _thinking: Thinking = field(init=False)

    def __post_init__(self) -> None:
        if isinstance(self.retries, bool) or not isinstance(self.retries, int) or self.retries < 0:
            raise OptionError(f"retries is {self.retries!r}; expected 0 or more.")
        self.constraint = self.calls.constraint(self.schema)
        self._thinking = Thinking.choose(self.calls.formatter, self.thinking, self.template_variables)

    def run(self, prompt: Any, *, system: str | None, stream: bool) -> Any:
        """Run it for one prompt, one conversation, or a list of prompts together."""
        if isinstance(prompt, (list, tuple)) and prompt and all(isinstance(p, str) for p in prompt):
            if stream:
                raise OptionError("A list of prompts cannot be streamed; ask for one, or leave out stream.")
            streams: list[StructuredStream[Any]] = [
                StructuredStream(self, self._messages(p, system)) for p in prompt
            ]
            try:
                return [one.run() for one in streams]
            except BaseException:
                for one in streams:
                    one.cancel()
                raise
        made: StructuredStream[Any] = StructuredStream(self, self._messages(prompt, system))
        return made if stream else made.run()

    def _messages(self, prompt: Any, system: str | None) -> list[Any]:
        if isinstance(prompt, str):
            return list(as_messages(prompt, system))
        if not isinstance(prompt, (list, tuple)):
            raise InputTypeError(
                f"The prompt is a {type(prompt).__name__}; expected a str, messages, or a list of str."
            )
        head = [] if system is None else [{"role": "system", "content": system}]
        return [*head, *prompt]

    async def arun(self, prompt: Any, *, system: str | None) -> Any:
        """Run it in an event loop; a cancelled task cancels what is decoded for it."""
        if isinstance(prompt, (list, tuple)) and prompt and all(isinstance(p, str) for p in prompt):
            return list(await asyncio.gather(*(self.arun(p, system=system) for p in prompt)))
        attempts = _Attempts(self._messages(prompt, system), self.retries)
        while True:
            made: AsyncStream[Any] = AsyncStream(self.calls.backend, self._assembler(attempts.messages))
            try:
                return await made.run()
            except StructuredOutputError as error:
                if not attempts.again(error):
                    raise

    def stream(self, messages: Sequence[Any]) -> Stream[Any]:
        """Start one attempt."""
        return Stream(self.calls.backend, self._assembler(messages))

    def _assembler(self, messages: Sequence[Any]) -> Assembler:
        return self.calls.chat("structured", messages, self.constraint, self.options, thinking=self._thinking)


@dataclass
class _Attempts:
    """What is asked now, and how often it may be asked again."""

    messages: list[Any]
    left: int

    def again(self, error: StructuredOutputError) -> bool:
        """Prepare the next attempt, which is told what was wrong; False where none is left."""
        cut = error.completion is None or error.completion.finish_reason != "stop"
        if cut or self.left < 1:
            return False
        self.left -= 1
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

    def __iter__(self) -> Iterator[Chunk]:
        while True:
            yield from self._stream
            if not self._again():
                return

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
        return True

    def cancel(self) -> None:
        self._attempts.left = 0
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
