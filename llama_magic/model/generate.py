"""The calls that generate: `complete`, `chat`, `structured`, and their twins for `await`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Literal, TypeVar, Unpack, overload

from llama_magic.errors import InputTypeError, shown_briefly
from llama_magic.model.answer import Assembler
from llama_magic.model.assemble import advised
from llama_magic.model.astream import AsyncStream, AsyncStreaming
from llama_magic.model.attempts import StructuredStream
from llama_magic.model.call import Calls
from llama_magic.model.options import (
    OF_A_CHAT,
    OF_A_CONSTRAINT,
    OF_A_TEXT,
    ChatOptions,
    CompleteOptions,
    SchemaOptions,
    idle,
    shows,
    taken,
)
from llama_magic.model.prompt import as_messages
from llama_magic.model.results import Completion
from llama_magic.model.stream import Stream
from llama_magic.model.structured import StructuredCall
from llama_magic.model.tools.loop import AsyncToolStream, Rounds, ToolStream, beside_of, say
from llama_magic.model.tools.offer import Offer
from llama_magic.request.messages import Messages
from llama_magic.structured import Constraint
from llama_magic.words.given import flag
from llama_magic.words.signature import refusing

T = TypeVar("T")
No = Literal[False]
Yes = Literal[True]
Text = str | Sequence[int]
Turns = str | Messages
Asked = Turns | list[str]
One = Completion[None]
Many = list[Completion[None]]


@refusing
class Generating:
    """What `Model` can be asked to write. Every call becomes one request to the backend."""

    _calls: Calls

    def _open(self) -> None:
        """Raise `ModelClosedError` where the model is closed."""
        raise NotImplementedError

    # --- complete ---------------------------------------------------------------------------

    @overload
    def complete(self, prompt: Text, *, stream: No = False, **options: Unpack[CompleteOptions]) -> One: ...
    @overload
    def complete(
        self, prompt: Text, *, n: int, stream: No = False, **options: Unpack[CompleteOptions]
    ) -> Many: ...
    @overload
    def complete(
        self, prompt: Text, *, stream: Yes, n: int = 1, **options: Unpack[CompleteOptions]
    ) -> Stream[One]: ...
    @shows(CompleteOptions)
    @shown_briefly("The call")
    def complete(
        self, prompt: str | Sequence[int], *, stream: bool = False, n: int = 1, **options: Any
    ) -> Any:
        """Continue a text as it stands, or its tokens; `instruct` wraps a text as one user turn first.

        `max_tokens`: longest answer (256 or a quarter of the window, whichever is less). `seed`:
        makes the answer reproducible. `stop`: text or texts that end it. `n`: samples of one prompt,
        decoded together. `logprobs`: alternatives to report a token. `overflow`: "error", "drop-oldest"
        or "truncate-prompt" where prompt and answer exceed the window. `reuse`: of the KV cache.
        `min_tokens`: those before which the answer cannot end by itself. `ignore_eos`: go on where the
        model would end. `timeout`: seconds, after which the answer ends with what is there (finish reason
        "timeout"). `prefill`: what the answer begins with, where a template opens it. `drop_thinking`: leave
        out the thinking of earlier turns. `tag`: a word to find the answer again by. `speculate`: "auto"
        guesses tokens ahead from the text before them where that pays; "off" does not. `sampling`: a
        `Sampling` in place of the model's own; its fields (`temperature`, `top_k`, …) may be given one by
        one. `grammar` (GBNF), `regex` and `choices` constrain the text.

        Returns a `Completion`, a list of them for n > 1, or with `stream` a `Stream` of chunks.
        Raises `ContextOverflowError` before any decode, `GenerationInterrupted` on Ctrl-C.
        """
        self._open()
        return self._run(self._completing(prompt, {**options, "n": n}), stream)

    @overload
    def acomplete(
        self, prompt: Text, *, stream: No = False, **options: Unpack[CompleteOptions]
    ) -> Coroutine[Any, Any, One]: ...
    @overload
    def acomplete(
        self, prompt: Text, *, n: int, stream: No = False, **options: Unpack[CompleteOptions]
    ) -> Coroutine[Any, Any, Many]: ...
    @overload
    def acomplete(
        self, prompt: Text, *, stream: Yes, n: int = 1, **options: Unpack[CompleteOptions]
    ) -> AsyncStreaming[One]: ...
    @shows(CompleteOptions)
    def acomplete(
        self, prompt: str | Sequence[int], *, stream: bool = False, n: int = 1, **options: Any
    ) -> Any:
        """Like `complete`, for `await`; with `stream` for `async for`."""
        return self._arun("Model.acomplete", lambda: self._completing(prompt, {**options, "n": n}), stream)

    def _completing(self, prompt: str | Sequence[int], options: dict[str, Any]) -> Assembler:
        constraint, own = self._constraint(options), taken(options, OF_A_TEXT)
        if flag("instruct", own["instruct"]) or own["system"] is not None:
            return self._calls.chat("complete", as_messages(prompt, own["system"]), constraint, options)
        return self._calls.text(prompt, constraint, options)

    # --- chat -------------------------------------------------------------------------------

    @overload
    def chat(self, messages: Turns, *, stream: No = False, **options: Unpack[ChatOptions]) -> One: ...
    @overload
    def chat(
        self, messages: Turns, *, n: int, stream: No = False, **options: Unpack[ChatOptions]
    ) -> Many: ...
    @overload
    def chat(
        self, messages: Turns, *, stream: Yes, n: int = 1, **options: Unpack[ChatOptions]
    ) -> Stream[One]: ...
    @shows(ChatOptions)
    @shown_briefly("The call")
    def chat(self, messages: str | Messages, *, stream: bool = False, n: int = 1, **options: Any) -> Any:
        """Answer messages: dicts of `role` and `content`, or a text: one user turn. Options: see `complete`.

        `tools` are functions that the model may call: their schema is made of signature and docstring, and
        they are run when the model calls them, after one printed line that says with what (`tools_auto`
        leaves the line out). Results and errors go back to the model, for at most `tool_rounds` rounds; the
        turns of that stand in the completion's `steps`. Descriptions in the form of OpenAI's API will do as
        well: their calls are not run, but stand in `tool_calls`. `tool_choice`: "auto", "none", "required"
        or a tool's name, seen to by masks; `parallel_tool_calls`: whether one answer may hold several.
        `tools_as_text` writes tools as text where the template has no place for them.
        `template_variables` go to the chat template.
        """
        self._open()
        made = self._chatting(messages, {**options, "n": n})
        if isinstance(made, Rounds):
            streaming = ToolStream(made)
            return streaming if flag("stream", stream) else streaming.run()
        return self._run(made, stream)

    @overload
    def achat(
        self, messages: Turns, *, stream: No = False, **options: Unpack[ChatOptions]
    ) -> Coroutine[Any, Any, One]: ...
    @overload
    def achat(
        self, messages: Turns, *, n: int, stream: No = False, **options: Unpack[ChatOptions]
    ) -> Coroutine[Any, Any, Many]: ...
    @overload
    def achat(
        self, messages: Turns, *, stream: Yes, n: int = 1, **options: Unpack[ChatOptions]
    ) -> AsyncStreaming[One]: ...
    @shows(ChatOptions)
    def achat(self, messages: str | Messages, *, stream: bool = False, n: int = 1, **options: Any) -> Any:
        """Like `chat`, for `await`; with `stream` for `async for`."""
        return self._arun("Model.achat", lambda: self._chatting(messages, {**options, "n": n}), stream)

    def _chatting(self, messages: str | Messages, options: dict[str, Any]) -> Assembler | Rounds:
        """Return what is to be asked; `Rounds` where tools are to be run here."""
        constraint, own = self._constraint(options), taken(options, OF_A_CHAT)
        messages = as_messages(messages, None) if isinstance(messages, str) else messages
        offer = Offer.read(own["tools"], own["tool_choice"], own["parallel_tool_calls"], own["tools_as_text"])
        beside = beside_of(offer, own["template_variables"])
        if not offer.runs or constraint is not None:
            made = self._calls.chat("chat", messages, constraint, options, beside)
            return advised(made, *idle(own, {"tools"} if offer.tools else ()))
        announce = None if own["tools_auto"] else say
        return Rounds(self._calls, offer, messages, options, beside, own["tool_rounds"], announce)

    # --- structured -------------------------------------------------------------------------

    @overload
    def structured(
        self, prompt: Turns, schema: type[T], *, stream: No = False, **options: Unpack[SchemaOptions]
    ) -> Completion[T]: ...
    @overload
    def structured(
        self, prompt: Asked, schema: type[T], *, n: int, stream: No = False, **options: Unpack[SchemaOptions]
    ) -> list[Completion[T]]: ...
    @overload
    def structured(
        self, prompt: list[str], schema: type[T], *, stream: No = False, **options: Unpack[SchemaOptions]
    ) -> list[Completion[T]]: ...
    @overload
    def structured(
        self, prompt: Turns, schema: type[T], *, stream: Yes, n: int = 1, **options: Unpack[SchemaOptions]
    ) -> StructuredStream[Completion[T]]: ...
    @overload
    def structured(
        self, prompt: Turns, schema: Any, *, stream: No = False, **options: Unpack[SchemaOptions]
    ) -> Completion[Any]: ...
    @overload
    def structured(
        self,
        prompt: Asked,
        schema: Any,
        *,
        stream: bool = False,
        n: int = 1,
        **options: Unpack[SchemaOptions],
    ) -> Any: ...
    @shows(SchemaOptions)
    @shown_briefly("The call")
    def structured(
        self, prompt: Any, schema: Any, *, stream: bool = False, n: int = 1, **options: Any
    ) -> Any:
        """Answer with an instance of `schema`; it stands in `completion.parsed`.

        `prompt` is one user turn, a list of messages, or a list of prompts: these are decoded
        together and a list comes back. `schema` is a pydantic model, any type that pydantic
        knows, or a JSON schema dict. Tokens that cannot lead to an instance are never drawn;
        what the mask cannot say is checked at the end, and asked again up to `retries` times.
        The model does not read the schema unless `show_schema=True` puts it, with its descriptions,
        at the end of the prompt. With `pressure=True` the completion's `fields` say where the model
        wanted something else.
        Thinking is switched off where the template has a switch; with `thinking=True` the model
        thinks first, freely, and what comes after is constrained. The completion's notes say which.
        `lm.vote` counts the answers of `n=8`, field by field.

        Raises `SchemaError` before the first token, `StructuredOutputError` with what was
        written if the answer is not an instance.
        """
        self._open()
        return StructuredCall.of(self._calls, schema, {**options, "n": n}).run(prompt, stream=stream)

    @overload
    def astructured(
        self, prompt: Turns, schema: type[T], *, stream: No = False, **options: Unpack[SchemaOptions]
    ) -> Coroutine[Any, Any, Completion[T]]: ...
    @overload
    def astructured(
        self, prompt: Turns, schema: type[T], *, stream: Yes, n: int = 1, **options: Unpack[SchemaOptions]
    ) -> AsyncStreaming[Completion[T]]: ...
    @overload
    def astructured(
        self,
        prompt: Asked,
        schema: Any,
        *,
        stream: bool = False,
        n: int = 1,
        **options: Unpack[SchemaOptions],
    ) -> Any: ...
    @shows(SchemaOptions)
    def astructured(
        self, prompt: Any, schema: Any, *, stream: bool = False, n: int = 1, **options: Any
    ) -> Any:
        """Like `structured`, for `await`; with `stream` for `async for`."""

        async def begin() -> Any:
            self._open()
            call = StructuredCall.of(self._calls, schema, {**options, "n": n})
            return call.astream(prompt) if flag("stream", stream) else await call.arun(prompt)

        return self._awaited("Model.astructured", begin(), stream)

    # --- what they share --------------------------------------------------------------------

    def _constraint(self, options: dict[str, Any]) -> Constraint | None:
        """Take the constraint of a text out of the options."""
        own = taken(options, OF_A_CONSTRAINT)
        if not isinstance(choices := own["choices"], (list, tuple, set, frozenset, type(None))):
            cut = [one.strip() for one in str(choices).split("|")]
            raise InputTypeError(
                f"choices is {choices!r}; expected a list of texts.",
                remedy=f"Write choices={cut}." if isinstance(choices, str) else None,
            )
        return self._calls.constraint(**own) if any(value is not None for value in own.values()) else None

    def _run(self, assembler: Assembler, stream: bool) -> Any:
        made: Stream[Any] = Stream(self._calls.backend, assembler)
        return made if flag("stream", stream) else made.run()

    def _arun(self, name: str, prepare: Callable[[], Assembler | Rounds], stream: bool) -> Any:
        """Return what is to be awaited; nothing is checked or asked before."""
        return self._awaited(name, self._begin(prepare) if stream else self._answer(prepare), stream)

    @staticmethod
    def _awaited(name: str, made: Any, stream: bool) -> Any:
        made.__qualname__ = name  # "… was never awaited" names the call
        return AsyncStreaming(made) if stream else made

    async def _begin(self, prepare: Callable[[], Assembler | Rounds]) -> Any:
        self._open()
        made = prepare()
        return AsyncToolStream(made) if isinstance(made, Rounds) else AsyncStream(self._calls.backend, made)

    async def _answer(self, prepare: Callable[[], Assembler | Rounds]) -> Any:
        return await (await self._begin(prepare)).run()
