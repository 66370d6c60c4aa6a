"""The calls that generate: `complete`, `chat`, `structured`, and their twins for `await`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import Any, Literal, TypeVar, Unpack, overload

from llama_magic.errors import InputTypeError, shown_briefly
from llama_magic.model.again import again, receipt_of
from llama_magic.model.answer import Assembler
from llama_magic.model.asked import Beside
from llama_magic.model.astream import AsyncStream, AsyncStreaming
from llama_magic.model.attempts import StructuredStream
from llama_magic.model.call import Calls
from llama_magic.model.options import CHAT_DEFAULTS, CallOptions, ChatOptions, StructuredOptions, shows
from llama_magic.model.prompt import as_messages
from llama_magic.model.results import Completion
from llama_magic.model.stream import Stream
from llama_magic.model.structured import StructuredCall
from llama_magic.model.tools.loop import AsyncToolStream, Rounds, ToolStream, say
from llama_magic.model.tools.offer import Offer
from llama_magic.request.messages import Messages
from llama_magic.structured import Constraint
from llama_magic.words.given import flag
from llama_magic.words.signature import refusing

T = TypeVar("T")
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
    def complete(
        self,
        prompt: str | Sequence[int],
        *,
        stream: Literal[False] = False,
        instruct: bool = False,
        system: str | None = None,
        grammar: str | None = None,
        regex: str | None = None,
        choices: Sequence[Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> One: ...
    @overload
    def complete(
        self,
        prompt: str | Sequence[int],
        *,
        n: int,
        stream: Literal[False] = False,
        instruct: bool = False,
        system: str | None = None,
        grammar: str | None = None,
        regex: str | None = None,
        choices: Sequence[Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> Many: ...
    @overload
    def complete(
        self,
        prompt: str | Sequence[int],
        *,
        stream: Literal[True],
        n: int = 1,
        instruct: bool = False,
        system: str | None = None,
        grammar: str | None = None,
        regex: str | None = None,
        choices: Sequence[Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> Stream[One]: ...
    @shows(CallOptions)
    @shown_briefly("The call")
    def complete(
        self,
        prompt: str | Sequence[int],
        *,
        stream: bool = False,
        n: int = 1,
        instruct: bool = False,
        system: str | None = None,
        grammar: str | None = None,
        regex: str | None = None,
        choices: Sequence[Any] | None = None,
        **options: Any,
    ) -> Any:
        """Continue a text as it stands, or its tokens; `instruct` wraps a text as one user turn first.

        `max_tokens`: longest answer (256 or a quarter of the window, whichever is less). `seed`:
        makes the answer reproducible. `stop`: text or texts that end it. `n`: samples of one prompt,
        decoded together. `logprobs`: alternatives to report a token. `overflow`: "error", "drop-oldest"
        or "truncate-prompt" where prompt and answer exceed the window. `reuse`: of the KV cache.
        `min_tokens`: those before which the answer cannot end by itself. `ignore_eos`: go on where the
        model would end. `timeout`: seconds, after which the answer ends with what is there (finish reason
        "timeout"). `prefill`: what the answer begins with, where a template
        opens it. `drop_thinking`: leave out the thinking of earlier turns. `tag`: a word to find the answer
        again by. `speculate`: "auto" guesses tokens ahead from the text before them where that pays; "off"
        does not. `sampling`: a `Sampling` in place of the model's own; its fields (`temperature`, `top_k`, …)
        may be given one by one. `grammar` (GBNF), `regex` and `choices` constrain the text.

        Returns a `Completion`, a list of them for n > 1, or with `stream` a `Stream` of chunks.
        Raises `ContextOverflowError` before any decode, `GenerationInterrupted` on Ctrl-C.
        """
        self._open()
        made = self._completing(
            prompt, n, instruct, system, self._constraint_of(grammar, regex, choices), options
        )
        return self._run(made, stream)

    @overload
    def acomplete(
        self,
        prompt: str | Sequence[int],
        *,
        stream: Literal[False] = False,
        instruct: bool = False,
        system: str | None = None,
        grammar: str | None = None,
        regex: str | None = None,
        choices: Sequence[Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> Coroutine[Any, Any, One]: ...
    @overload
    def acomplete(
        self,
        prompt: str | Sequence[int],
        *,
        n: int,
        stream: Literal[False] = False,
        instruct: bool = False,
        system: str | None = None,
        grammar: str | None = None,
        regex: str | None = None,
        choices: Sequence[Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> Coroutine[Any, Any, Many]: ...
    @overload
    def acomplete(
        self,
        prompt: str | Sequence[int],
        *,
        stream: Literal[True],
        n: int = 1,
        instruct: bool = False,
        system: str | None = None,
        grammar: str | None = None,
        regex: str | None = None,
        choices: Sequence[Any] | None = None,
        **options: Unpack[CallOptions],
    ) -> AsyncStreaming[One]: ...
    @shows(CallOptions)
    def acomplete(
        self,
        prompt: str | Sequence[int],
        *,
        stream: bool = False,
        n: int = 1,
        instruct: bool = False,
        system: str | None = None,
        grammar: str | None = None,
        regex: str | None = None,
        choices: Sequence[Any] | None = None,
        **options: Any,
    ) -> Any:
        """Like `complete`, for `await`; with `stream` for `async for`."""

        def prepare() -> Assembler:
            constraint = self._constraint_of(grammar, regex, choices)
            return self._completing(prompt, n, instruct, system, constraint, options)

        return self._arun("Model.acomplete", prepare, stream)

    def _completing(
        self,
        prompt: str | Sequence[int],
        n: int,
        instruct: bool,
        system: str | None,
        constraint: Constraint | None,
        options: Mapping[str, Any],
    ) -> Assembler:
        options = {**options, "n": n}
        if flag("instruct", instruct) or system is not None:
            return self._calls.chat("complete", as_messages(prompt, system), constraint, options)
        return self._calls.text(prompt, constraint, options)

    # --- chat -------------------------------------------------------------------------------

    @overload
    def chat(
        self,
        messages: str | Messages,
        *,
        stream: Literal[False] = False,
        grammar: str | None = None,
        regex: str | None = None,
        choices: Sequence[Any] | None = None,
        template_variables: Mapping[str, Any] | None = None,
        **options: Unpack[ChatOptions],
    ) -> One: ...
    @overload
    def chat(
        self,
        messages: str | Messages,
        *,
        n: int,
        stream: Literal[False] = False,
        grammar: str | None = None,
        regex: str | None = None,
        choices: Sequence[Any] | None = None,
        template_variables: Mapping[str, Any] | None = None,
        **options: Unpack[ChatOptions],
    ) -> Many: ...
    @overload
    def chat(
        self,
        messages: str | Messages,
        *,
        stream: Literal[True],
        n: int = 1,
        grammar: str | None = None,
        regex: str | None = None,
        choices: Sequence[Any] | None = None,
        template_variables: Mapping[str, Any] | None = None,
        **options: Unpack[ChatOptions],
    ) -> Stream[One]: ...
    @shows(ChatOptions)
    @shown_briefly("The call")
    def chat(
        self,
        messages: str | Messages,
        *,
        stream: bool = False,
        n: int = 1,
        grammar: str | None = None,
        regex: str | None = None,
        choices: Sequence[Any] | None = None,
        template_variables: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
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
        constraint = self._constraint_of(grammar, regex, choices)
        made = self._chatting(messages, constraint, template_variables, {**options, "n": n})
        if isinstance(made, Rounds):
            streaming = ToolStream(made)
            return streaming if flag("stream", stream) else streaming.run()
        return self._run(made, stream)

    @overload
    def achat(
        self,
        messages: str | Messages,
        *,
        stream: Literal[False] = False,
        grammar: str | None = None,
        regex: str | None = None,
        choices: Sequence[Any] | None = None,
        template_variables: Mapping[str, Any] | None = None,
        **options: Unpack[ChatOptions],
    ) -> Coroutine[Any, Any, One]: ...
    @overload
    def achat(
        self,
        messages: str | Messages,
        *,
        n: int,
        stream: Literal[False] = False,
        grammar: str | None = None,
        regex: str | None = None,
        choices: Sequence[Any] | None = None,
        template_variables: Mapping[str, Any] | None = None,
        **options: Unpack[ChatOptions],
    ) -> Coroutine[Any, Any, Many]: ...
    @overload
    def achat(
        self,
        messages: str | Messages,
        *,
        stream: Literal[True],
        n: int = 1,
        grammar: str | None = None,
        regex: str | None = None,
        choices: Sequence[Any] | None = None,
        template_variables: Mapping[str, Any] | None = None,
        **options: Unpack[ChatOptions],
    ) -> AsyncStreaming[One]: ...
    @shows(ChatOptions)
    def achat(
        self,
        messages: str | Messages,
        *,
        stream: bool = False,
        n: int = 1,
        grammar: str | None = None,
        regex: str | None = None,
        choices: Sequence[Any] | None = None,
        template_variables: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """Like `chat`, for `await`; with `stream` for `async for`."""

        def prepare() -> Assembler | Rounds:
            constraint = self._constraint_of(grammar, regex, choices)
            return self._chatting(messages, constraint, template_variables, {**options, "n": n})

        return self._arun("Model.achat", prepare, stream)

    def _chatting(
        self,
        messages: str | Messages,
        constraint: Constraint | None,
        variables: Mapping[str, Any] | None,
        given: Mapping[str, Any],
    ) -> Assembler | Rounds:
        """Return what is to be asked; `Rounds` where tools are to be run here."""
        if isinstance(messages, str):
            messages = as_messages(messages, None)
        options = {key: value for key, value in given.items() if key not in CHAT_DEFAULTS}
        of_tools: dict[str, Any] = {key: given.get(key, value) for key, value in CHAT_DEFAULTS.items()}
        choice, parallel = of_tools["tool_choice"], of_tools["parallel_tool_calls"]
        offer = Offer.read(of_tools["tools"], choice, parallel, of_tools["tools_as_text"])
        beside = Beside(
            tools=offer.descriptions or None,
            tool_choice=offer.choice,
            parallel_tool_calls=offer.parallel,
            tools_as_text=offer.as_text,
            template_variables={} if variables is None else variables,
        )
        if not offer.runs or constraint is not None:
            return self._calls.chat("chat", messages, constraint, options, beside)
        announce = None if of_tools["tools_auto"] else say
        return Rounds(self._calls, offer, messages, options, beside, of_tools["tool_rounds"], announce)

    # --- structured -------------------------------------------------------------------------

    @overload
    def structured(
        self,
        prompt: str | Messages,
        schema: type[T],
        *,
        stream: Literal[False] = False,
        system: str | None = None,
        retries: int = 0,
        thinking: bool = False,
        show_schema: bool = False,
        template_variables: Mapping[str, Any] | None = None,
        **options: Unpack[StructuredOptions],
    ) -> Completion[T]: ...
    @overload
    def structured(
        self,
        prompt: str | Messages | list[str],
        schema: type[T],
        *,
        n: int,
        stream: Literal[False] = False,
        system: str | None = None,
        retries: int = 0,
        thinking: bool = False,
        show_schema: bool = False,
        template_variables: Mapping[str, Any] | None = None,
        **options: Unpack[StructuredOptions],
    ) -> list[Completion[T]]: ...
    @overload
    def structured(
        self,
        prompt: list[str],
        schema: type[T],
        *,
        stream: Literal[False] = False,
        system: str | None = None,
        retries: int = 0,
        thinking: bool = False,
        show_schema: bool = False,
        template_variables: Mapping[str, Any] | None = None,
        **options: Unpack[StructuredOptions],
    ) -> list[Completion[T]]: ...
    @overload
    def structured(
        self,
        prompt: str | Messages,
        schema: type[T],
        *,
        stream: Literal[True],
        n: int = 1,
        system: str | None = None,
        retries: int = 0,
        thinking: bool = False,
        show_schema: bool = False,
        template_variables: Mapping[str, Any] | None = None,
        **options: Unpack[StructuredOptions],
    ) -> StructuredStream[Completion[T]]: ...
    @overload
    def structured(
        self,
        prompt: str | Messages,
        schema: Any,
        *,
        stream: Literal[False] = False,
        system: str | None = None,
        retries: int = 0,
        thinking: bool = False,
        show_schema: bool = False,
        template_variables: Mapping[str, Any] | None = None,
        **options: Unpack[StructuredOptions],
    ) -> Completion[Any]: ...
    @overload
    def structured(
        self,
        prompt: str | Messages | list[str],
        schema: Any,
        *,
        stream: bool = False,
        n: int = 1,
        system: str | None = None,
        retries: int = 0,
        thinking: bool = False,
        show_schema: bool = False,
        template_variables: Mapping[str, Any] | None = None,
        **options: Unpack[StructuredOptions],
    ) -> Any: ...
    @shows(StructuredOptions)
    @shown_briefly("The call")
    def structured(
        self,
        prompt: Any,
        schema: Any,
        *,
        stream: bool = False,
        n: int = 1,
        system: str | None = None,
        retries: int = 0,
        thinking: bool = False,
        show_schema: bool = False,
        template_variables: Mapping[str, Any] | None = None,
        **options: Any,
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
        options = {**options, "n": n}
        call = StructuredCall(
            self._calls, schema, retries, template_variables, options, thinking, show_schema
        )
        return call.run(prompt, system=system, stream=stream)

    @overload
    def astructured(
        self,
        prompt: str | Messages,
        schema: type[T],
        *,
        stream: Literal[False] = False,
        system: str | None = None,
        retries: int = 0,
        thinking: bool = False,
        show_schema: bool = False,
        template_variables: Mapping[str, Any] | None = None,
        **options: Unpack[StructuredOptions],
    ) -> Coroutine[Any, Any, Completion[T]]: ...
    @overload
    def astructured(
        self,
        prompt: str | Messages,
        schema: type[T],
        *,
        stream: Literal[True],
        n: int = 1,
        system: str | None = None,
        retries: int = 0,
        thinking: bool = False,
        show_schema: bool = False,
        template_variables: Mapping[str, Any] | None = None,
        **options: Unpack[StructuredOptions],
    ) -> AsyncStreaming[Completion[T]]: ...
    @overload
    def astructured(
        self,
        prompt: str | Messages | list[str],
        schema: Any,
        *,
        stream: bool = False,
        n: int = 1,
        system: str | None = None,
        retries: int = 0,
        thinking: bool = False,
        show_schema: bool = False,
        template_variables: Mapping[str, Any] | None = None,
        **options: Unpack[StructuredOptions],
    ) -> Any: ...
    @shows(StructuredOptions)
    def astructured(
        self,
        prompt: Any,
        schema: Any,
        *,
        stream: bool = False,
        n: int = 1,
        system: str | None = None,
        retries: int = 0,
        thinking: bool = False,
        show_schema: bool = False,
        template_variables: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Any:
        """Like `structured`, for `await`; with `stream` for `async for`."""

        async def begin() -> Any:
            self._open()
            given = {**options, "n": n}
            call = StructuredCall(
                self._calls, schema, retries, template_variables, given, thinking, show_schema
            )
            if flag("stream", stream):
                return call.astream(prompt, system=system)
            return await call.arun(prompt, system=system)

        return self._awaited("Model.astructured", begin(), stream)

    # --- again ------------------------------------------------------------------------------

    @shows(StructuredOptions)
    @shown_briefly("The call")
    def rerun(self, answer: Any, *, stream: bool = False, **changes: Any) -> Any:
        """Ask again what an answer, or a receipt, says was asked; `changes` are options of a call.

        Nothing changed, a seeded answer of the same file and engine comes out equal, token for token; an
        unseeded one is given the seed that it drew. Of one of several samples all are written again, and
        this one is returned (with `n` changed, all). Of a structured answer the one attempt is repeated.
        """
        self._open()
        receipt, held = receipt_of(answer)
        made: Stream[Any] = Stream(self._calls.backend, again(self._calls, receipt, changes, held))
        if stream:
            return made
        done = made.run()
        return done[receipt.get("sample", 0)] if isinstance(done, list) and "n" not in changes else done

    @shown_briefly("The repetition")
    def repeated(self, receipt: Any) -> list[Completion[Any]]:
        """Return the answers of the call that a receipt is of, written again; no history is told of them."""
        self._open()
        told, held = receipt_of(receipt)
        changes: dict[str, Any] = {"timeout": None}
        if told["finish_reason"] in ("interrupted", "timeout") and held is None:  # no need to go further
            changes["max_tokens"] = max(1, len(told["token_ids"]))
        made = again(self._calls, told, changes, held)
        made.listed = False
        done: Any = Stream(self._calls.backend, made).run()
        return done if isinstance(done, list) else [done]

    # --- what they share --------------------------------------------------------------------

    def _constraint_of(
        self, grammar: str | None, regex: str | None, choices: Sequence[Any] | None
    ) -> Constraint | None:
        if grammar is None and regex is None and choices is None:
            return None
        if choices is not None and not isinstance(choices, (list, tuple, set, frozenset)):
            raise InputTypeError(f"choices is {choices!r}; expected a list of texts.")
        return self._calls.constraint(grammar=grammar, regex=regex, choices=choices)

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
