"""A conversation in which tools are run: the model calls, functions answer, until it answers in words.

A tool is run only after its call was said in one visible line. What a function gives back, or the error that
it ends with, goes back to the model as a tool turn. After `rounds` rounds of calls the model is asked once
more, and then cannot call.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from llama_magic.doors import here, option
from llama_magic.errors import ContextOverflowError, GenerationInterrupted, OptionError
from llama_magic.model.asked import Beside
from llama_magic.model.assemble import advised
from llama_magic.model.astream import AsyncStream
from llama_magic.model.mail import mail
from llama_magic.model.results import Chunk
from llama_magic.model.stream import Stream
from llama_magic.model.succession import AsyncSuccession, Succession
from llama_magic.model.tools import ROUNDS
from llama_magic.model.tools.offer import Offer
from llama_magic.model.tools.tool import error_text, result_text
from llama_magic.request.messages import assistant_message
from llama_magic.threads import LeftBehind
from llama_magic.words.calls import call_words
from llama_magic.words.counting import counted
from llama_magic.words.given import quoted

if TYPE_CHECKING:
    from llama_magic.model.answer import Assembler
    from llama_magic.model.call import Calls
    from llama_magic.model.results import Completion


def say(call: dict[str, Any]) -> None:
    """Print what is called with what."""
    print(f"→ {call_words(call['name'], call['arguments'])}", flush=True)


def beside_of(offer: Offer, template_variables: Mapping[str, Any] | None) -> Beside:
    """Return what a call asks for beside its own options, where these tools are offered."""
    return Beside(
        tools=offer.descriptions or None,
        tool_choice=offer.chosen(offer.choice),
        parallel_tool_calls=offer.parallel,
        tools_as_text=offer.as_text,
        template_variables={} if template_variables is None else template_variables,
    )


@dataclass
class Rounds:
    """The turns of one call that runs tools: what was said so far, and what is asked next."""

    calls: Calls
    offer: Offer
    messages: Sequence[Any]
    options: dict[str, Any]
    beside: Beside
    most: int = ROUNDS
    announce: Callable[[dict[str, Any]], None] | None = say
    steps: list[dict[str, Any]] = field(default_factory=list)
    _done: int = 0  # rounds of calls

    def __post_init__(self) -> None:
        if isinstance(self.most, bool) or not isinstance(self.most, int) or self.most < 1:
            raise OptionError(f"tool_rounds is {quoted(self.most)}; expected 1 or more.")
        if self.options.get("n", 1) != 1:
            raise OptionError(
                "Tools are run for one answer, and n asks for several.",
                remedy="Leave n out, or give tools as descriptions (dicts), whose calls are not run.",
            )

    def next(self) -> Assembler:
        """Prepare the next answer. Results that do not fit the window are told to the model as an error."""
        choice = self.beside.tool_choice if not self._done else self.offer.chosen("auto")
        if self._done >= self.most and "none" in self.calls.backend.capabilities.tools:
            choice = "none"
        beside = replace(self.beside, tool_choice=choice)
        try:
            return self._ask(beside)
        except ContextOverflowError as error:
            results = [step for step in self.steps[self._round_begins() :] if step["role"] == "tool"]
            if not results:
                raise
            for step in results:
                step["content"] = (
                    f"Error: the result is too long; with it the conversation has "
                    f"{counted(error.prompt_tokens, 'token')} of {error.window:,}."
                )
            return self._ask(beside)

    def _ask(self, beside: Beside) -> Assembler:
        asked = [*self.messages, *self.steps]
        made = self.calls.chat("chat", asked, None, self.options, beside, steps=self.steps)
        if self._done >= self.most:
            rounds = counted(self._done, "round")
            note = here(f"after {rounds} of tool calls ({option('tool_rounds')}) this answer could call none")
            return advised(made, note)
        return made

    def _round_begins(self) -> int:
        at = len(self.steps)
        while at and self.steps[at - 1]["role"] == "tool":
            at -= 1
        return at

    def due(self, completion: Completion[Any]) -> list[dict[str, Any]]:
        """Return the calls to run now: none where the answer was cut, or holds some that others run."""
        if completion.finish_reason != "stop" or self._done >= self.most:
            return []
        made = list(completion.tool_calls)
        others = [call for call in made if call["name"] in self.offer.names and not self._function(call)]
        if not made or others:
            return []
        self._done += 1
        self.steps.append(assistant_message(completion.text, made, completion.thinking))
        return made

    def _function(self, call: dict[str, Any]) -> bool:
        return self.offer.find(call["name"]).function is not None

    def run(self, call: dict[str, Any]) -> Any:
        """Say a call and make it; return what came back, or the error it ended with, as it is."""
        if self.announce is not None:
            self.announce(call)
        try:
            if not call["name"]:
                raise OptionError("this call could not be read; write its name and arguments as JSON")
            return self.offer.find(call["name"]).run(call["arguments"])
        except Exception as error:  # whatever a function does wrong, the model is to hear of it
            return error

    def answered(self, call: dict[str, Any], result: Any) -> dict[str, Any]:
        """Keep what a call gave back as a turn, and return that turn."""
        try:
            text = error_text(result) if isinstance(result, BaseException) else result_text(result)
        except Exception as error:  # a result that JSON has no form for
            text = error_text(error)
        step = {"role": "tool", "tool_call_id": call["id"], "name": call["name"], "content": text}
        self.steps.append(step)
        return step


async def _awaited(result: Awaitable[Any]) -> Any:
    """Return what an async function gives back, or the error it ends with."""
    try:
        return await result
    except Exception as error:  # as in `Rounds.run`
        return error


class ToolStream(Succession[Any]):
    """Answers and tool calls as they are written; then `completion` is the last answer.

    A chunk holds `tool_calls` before these are run, and `turns` with each result. The text begins anew
    with each answer.
    """

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._stream = self._begin(None)

    def _begin(self, until: float | None) -> Stream[Any]:
        return Stream(self._rounds.calls.backend, self._rounds.next(), until=until)

    @property
    def announce(self) -> Callable[[dict[str, Any]], None] | None:
        """What says a call before it is run; None where whoever reads the chunks shows it."""
        return self._rounds.announce

    @announce.setter
    def announce(self, announce: Callable[[dict[str, Any]], None] | None) -> None:
        self._rounds.announce = announce

    def __iter__(self) -> Iterator[Chunk]:
        while True:
            yield from self._stream
            due = self._rounds.due(self._stream.completion)
            if not due:
                return
            for call in due:
                turn = self._run(call)
                yield Chunk("", "", turns=(turn,))
            self._stream = self._begin(self._stream.until)

    def _run(self, call: dict[str, Any]) -> dict[str, Any]:
        try:
            result = self._rounds.run(call)
            if inspect.isawaitable(result):  # a loop may run on this thread
                result = LeftBehind().run(lambda: asyncio.run(_awaited(result)))
        except KeyboardInterrupt:
            raise GenerationInterrupted(self._stream.completion, f"{call['name']} was stopped") from None
        return self._rounds.answered(call, result)

    def run(self) -> Any:
        """Run it to the end and return the completion."""
        for _ in self:
            pass
        return self.completion


class AsyncToolStream(AsyncSuccession[Any]):
    """A `ToolStream` for `async for`. A function that is not async runs on a thread of its own."""

    def __init__(self, rounds: Rounds) -> None:
        self._rounds = rounds
        self._stream = self._begin(None)
        self._chunks = self._read()
        self._turn = asyncio.Lock()  # several tasks may share a stream, each gets some of the chunks

    def _begin(self, until: float | None) -> AsyncStream[Any]:
        return AsyncStream(self._rounds.calls.backend, self._rounds.next(), until)

    async def __anext__(self) -> Chunk:
        async with self._turn:
            return await anext(self._chunks)

    async def _read(self) -> AsyncIterator[Chunk]:
        while True:
            async for chunk in self._stream:
                yield chunk
            due = self._rounds.due(self._stream.completion)
            if not due:
                return
            for call in due:
                with mail().awaited():
                    result = await asyncio.to_thread(self._rounds.run, call)
                if inspect.isawaitable(result):
                    result = await _awaited(result)
                yield Chunk("", "", turns=(self._rounds.answered(call, result),))
            self._stream = self._begin(self._stream.until)
