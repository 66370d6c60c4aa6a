"""A call for structured answers: the constraint, the messages, and what is begun of them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.model.asked import Beside
from llama_magic.model.attempts import AsyncStructuredStream, StructuredStream
from llama_magic.model.batch import AnswerList, all_or_error
from llama_magic.model.call import Calls
from llama_magic.model.options import OF_A_SCHEMA, taken
from llama_magic.model.prompt import as_messages
from llama_magic.model.thinking import Thinking
from llama_magic.request.request import row_seed
from llama_magic.request.sampling import check_seed
from llama_magic.structured import schema_text
from llama_magic.words.counting import counted
from llama_magic.words.given import at_least, flag, quoted

if TYPE_CHECKING:
    from llama_magic.model.answer import Assembler
    from llama_magic.structured import Constraint


@dataclass
class StructuredCall:
    """One call of `Model.structured`."""

    calls: Calls
    schema: Any
    options: dict[str, Any]
    system: str | None = None
    retries: int = 0
    thinking: bool = False
    show_schema: bool = False
    template_variables: Mapping[str, Any] | None = None
    constraint: Constraint = field(init=False)
    _thinking: Thinking = field(init=False)

    @classmethod
    def of(cls, calls: Calls, schema: Any, options: dict[str, Any]) -> StructuredCall:
        """Return the call that the options of `Model.structured` make."""
        own = taken(options, OF_A_SCHEMA)
        return cls(calls, schema, options, **own)

    def __post_init__(self) -> None:
        self.retries = at_least(0, "retries", self.retries)
        self.thinking = flag("thinking", self.thinking)
        self.show_schema = flag("show_schema", self.show_schema)
        self.constraint = self.calls.constraint(self.schema)
        self._thinking = Thinking.choose(self.calls.formatter, self.thinking, self._variables)

    @property
    def _variables(self) -> Mapping[str, Any]:
        return {} if self.template_variables is None else self.template_variables

    def run(self, prompt: Any, *, stream: bool) -> Any:
        """Run it for one prompt, one conversation, or a list of prompts together."""
        if _is_batch(prompt):
            if flag("stream", stream):
                raise _no_stream()
            rows = [self.messages(p) for p in prompt]
            return AnswerList(lambda row: StructuredStream(self.of_row(row), rows[row]), len(rows)).run()
        made: StructuredStream[Any] = StructuredStream(self, self.messages(prompt))
        return made if flag("stream", stream) else made.run()

    def of_row(self, row: int) -> StructuredCall:
        """Return the call for one prompt of a list: with a seed each row has its own, made from it."""
        seed = self.options.get("seed")
        if seed is None or not row:
            return self
        return replace(self, options={**self.options, "seed": row_seed(check_seed(seed), row)})

    def messages(self, prompt: Any) -> list[Any]:
        """Return what is asked as a conversation, with the schema where it is to be shown."""
        if isinstance(prompt, str):
            return self._with_schema(as_messages(prompt, self.system))
        if not isinstance(prompt, (list, tuple)):
            raise InputTypeError(
                f"The prompt is a {type(prompt).__name__}; expected a str, messages, or a list of str."
            )
        head = [] if self.system is None else [{"role": "system", "content": self.system}]
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

    async def arun(self, prompt: Any) -> Any:
        """Run it in an event loop; a cancelled task cancels what is decoded for it."""
        if _is_batch(prompt):
            rows = (self.of_row(row).arun(p) for row, p in enumerate(prompt))
            return all_or_error(await asyncio.gather(*rows, return_exceptions=True))
        return await self.astream(prompt).run()

    def astream(self, prompt: Any) -> AsyncStructuredStream[Any]:
        """Begin it in an event loop, to be read chunk by chunk."""
        if _is_batch(prompt):
            raise _no_stream()
        return AsyncStructuredStream(self, self.messages(prompt))

    def assembler(self, messages: Sequence[Any]) -> Assembler:
        """Return one attempt, prepared."""
        beside = Beside(self.retries, self.thinking, template_variables=self._variables)
        return self.calls.chat(
            "structured", messages, self.constraint, self.options, beside, thinking=self._thinking
        )


def _is_batch(prompt: Any) -> bool:
    """Tell a list of prompts, decoded together, from a conversation; `InputTypeError` for a mixture."""
    if not isinstance(prompt, (list, tuple)) or not any(isinstance(p, str) for p in prompt):
        return False
    for row, text in enumerate(prompt, 1):
        if not isinstance(text, str):
            raise InputTypeError(
                f"Row {row:,} of {counted(len(prompt), 'prompt')} is {quoted(text)}; expected a text.",
                remedy="Leave it out, or ask lm.map(rows, prompt), where a bad row costs no other.",
            )
    return True


def _no_stream() -> OptionError:
    return OptionError("A list of prompts cannot be streamed; ask for one, or leave out stream.")
