"""How a call becomes a request: options checked, prompt rendered and guarded, constraint attached."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from llama_magic import structured
from llama_magic.doors import option
from llama_magic.errors import InputTypeError, ModelClosedError, OptionError
from llama_magic.model import prompt as prompting
from llama_magic.model.answer import Assembler
from llama_magic.model.asked import Beside, Call, hashing
from llama_magic.model.assemble import Ask, assemble, changed
from llama_magic.model.begun import text_of
from llama_magic.model.counted import Starts
from llama_magic.model.growing import GrowingDigest
from llama_magic.model.guard import Guard
from llama_magic.model.overflow import Fit
from llama_magic.model.stats import ModelStats
from llama_magic.model.thinking import Thinking, drop_thinking
from llama_magic.model.tools.offer import Offer
from llama_magic.request.sampling import Sampling
from llama_magic.threads import LeftBehind
from llama_magic.words.given import quoted

if TYPE_CHECKING:
    from llama_magic.formatters import Formatter
    from llama_magic.model.file import LoadedFile
    from llama_magic.request.backend import Backend
    from llama_magic.request.tokenizer import Tokenizer
    from llama_magic.structured import Constraint


_RESERVED = {"messages", "tools", "guarded", "add_generation_prompt", "continue_final_message"}


class Changeable(Protocol):
    """What of a model may change between calls."""

    sampling: Sampling
    formatter: Formatter
    _calls: Calls


def _check_offer(offer: Offer, constraint: Constraint | None, either: bool) -> None:
    if offer.tools and constraint is not None and not either:
        raise OptionError(
            f"tools stand beside a constraint ({constraint.kind}), under which none could be called.",
            remedy="Leave one of them out.",
        )


class Calls:
    """Build the request of each kind of call for one model."""

    def __init__(
        self, name: str, file: LoadedFile, backend: Backend, settings: Changeable, tokenizer: Tokenizer
    ) -> None:
        self.name = name
        self._file = file
        self.backend = backend
        self._tokenizer = tokenizer
        self._settings = settings
        self.stats = ModelStats(name)
        self.max_tokens: int | None = None  # of an answer, where a call does not say
        self._visible: dict[str, frozenset[int]] = {}
        self._starts = Starts()
        self._growing = GrowingDigest(hashing)  # the digest of the last request
        self._keep = True

    @property
    def formatter(self) -> Formatter:
        return self._settings.formatter

    @property
    def window(self) -> int:
        """Tokens that prompt and answer may have together."""
        return self._file.window

    def passing(self) -> Calls:
        """Return the same for very many requests: what they leave in the KV cache is not kept for later."""
        made = copy.copy(self)
        made._keep = False
        return made

    @property
    def made_with(self) -> dict[str, Any]:
        """What of file and engine an equal answer needs, as receipts say it."""
        return self._file.made_with

    def constraint(self, spec: Any = None, **kinds: Any) -> Constraint:
        """Compile what an answer must be, for this model's tokens; see `structured.compile`."""
        self._must_write()
        vocabulary = self._tokenizer if self.backend.capabilities.masks else None
        # Masks of a large schema take seconds in C: a Ctrl-C does not wait for them.
        return LeftBehind().run(lambda: structured.compile(spec, vocabulary=vocabulary, **kinds))

    def _must_write(self) -> None:
        """Raise `OptionError` for a model that only makes embeddings."""
        if self.backend.local is not None:
            self.backend.local.weights.must_generate()

    def visible_ids(self, formatter: Formatter | None) -> frozenset[int]:
        """Return the control tokens whose text the formatter's reader must see, such as thinking marks."""
        if formatter is None:
            return frozenset()
        if formatter.name not in self._visible:
            marks = {mark.text for mark in formatter.spec.marks} | {formatter.spec.header_end}
            if (form := formatter.call_form) is not None:
                marks |= {form.one, form.opened, form.between, form.closed}
            text, written = self._tokenizer.text, "\0".join(marks)  # one look for each of 6,000
            self._visible[formatter.name] = frozenset(
                i for i in self._tokenizer.control_ids if text(i) in written
            )
        return self._visible[formatter.name]

    def written(self, tokens: Sequence[int]) -> str:
        """Return the text that tokens of a raw answer stand for."""
        return text_of(tokens, self._tokenizer)

    def render(
        self,
        messages: Sequence[Any],
        tools: Sequence[Any] | None = None,
        template_variables: Mapping[str, Any] | None = None,
        most: int | None = None,
        formatter: Formatter | None = None,
        *,
        begins: bool = False,
    ) -> prompting.Prompt:
        """Return the prompt of a conversation; see `prompting.from_messages`.

        `begins`: its last message is the beginning of the answer.
        """
        if not isinstance(template_variables, (Mapping, type(None))):
            raise InputTypeError(
                f"template_variables is a {type(template_variables).__name__}; expected a dict of names."
            )
        variables = dict(template_variables or {})
        for name in variables:
            if not isinstance(name, str):
                raise InputTypeError(f"template_variables has the key {quoted(name)}; expected names.")
            if name in _RESERVED:
                raise OptionError(
                    f"template_variables cannot set {name!r}.",
                    remedy="Use the parameter of that name instead.",
                )
        continues = bool(variables.pop("continue_final", prompting.is_begun(messages)))
        how = prompting.Rendering(
            formatter or self.formatter,
            self._file.guarded,
            variables,
            tools,
            continue_final=continues,
            begins=begins,
        )
        return prompting.from_messages(self._tokenizer, how, messages, most, self._starts)

    def offering(
        self,
        messages: Sequence[Any],
        tools: Sequence[Any] | None,
        as_text: bool,
        template_variables: Mapping[str, Any] | None = None,
    ) -> prompting.Prompt:
        """Return the prompt of a conversation in which tools are offered, functions or descriptions."""
        offer = Offer.read(tools, as_text=as_text)
        formatter = offer.formatter(self.formatter)
        return self.render(messages, offer.descriptions or None, template_variables, formatter=formatter)

    def text(
        self,
        text: str | Sequence[int],
        constraint: Constraint | None,
        options: Mapping[str, Any],
        mode: str = "complete",
        *,
        begun: Sequence[int] = (),
    ) -> Assembler:
        """Prepare the continuation of a raw text, or of tokens; `mode` is what the answer was made for.

        `begun` are tokens that the answer begins with.
        """
        self._must_write()
        call = Call.read(self._settings.sampling, options, self._tokenizer)
        if call.prefill is not None:
            raise OptionError(
                "prefill begins an answer, and here the text itself goes on.",
                remedy="Write it at the end of the text, or ask with instruct=True.",
            )
        prompt, limit = self._fit(call, mode).text(text)

        home = self._home()

        def again(changes: Mapping[str, Any], begun: Sequence[int]) -> Assembler:
            return home().text(text, constraint, changed(options, changes), mode, begun=begun)

        ask = Ask(mode, text, prompt, limit, call, options, constraint, begun=tuple(begun), again=again)
        return self._assemble(ask)

    def chat(
        self,
        mode: str,
        messages: Sequence[Any],
        constraint: Constraint | None,
        options: Mapping[str, Any],
        beside: Beside = Beside(),  # noqa: B008 - frozen
        thinking: Thinking | None = None,
        steps: Sequence[Mapping[str, Any]] = (),
        *,
        begun: Sequence[int] = (),
    ) -> Assembler:
        """Prepare the answer to a conversation; `thinking` is of a structured one.

        `steps` are the turns at its end that the call itself added: tool calls and their results. `begun`
        are tokens that the answer begins with.
        """
        self._must_write()
        variables = beside.template_variables if thinking is None else thinking.variables
        call = Call.read(self._settings.sampling, options, self._tokenizer)
        offer = Offer.read(beside.tools, beside.tool_choice, beside.parallel_tool_calls, beside.tools_as_text)
        told = offer.holdable(self.formatter, self.backend.capabilities.masks)
        tools, offer = (beside.tools if told is offer else told.descriptions), told
        _check_offer(offer, constraint, beside.either and self.backend.capabilities.masks)
        formatter = offer.formatter(self.formatter)
        held = thinking is not None or constraint is not None  # of the whole answer, its beginning with it
        if held and call.prefill is None and prompting.is_begun(messages):
            *messages, last = messages
            call = call.begun_by(last)
        begins = call.prefill is not None

        def render(kept: Sequence[Any]) -> prompting.Prompt:
            return self.render(kept, tools, variables, self._file.window, formatter, begins=begins)

        notes: tuple[str, ...] = ()
        if call.drop_thinking:
            messages, notes = drop_thinking(messages, formatter, lambda some: len(render(some).ids))
        if begins and thinking is not None and thinking.wanted:
            raise OptionError(
                "The answer is begun, so the model cannot think first.",
                remedy=f"Leave out thinking ({option('thinking')}), or the beginning.",
            )
        everything = prompting.with_beginning(messages, call.prefill)
        prompt, limit = self._fit(call, mode).messages(everything, render)
        prompt = replace(prompt, notes=(*prompt.notes, *notes))

        home = self._home()

        def again(changes: Mapping[str, Any], begun: Sequence[int]) -> Assembler:
            kept = {"prefill": call.prefill} if begins else {}
            new = changed(options, {**changes, **kept})
            return home().chat(mode, messages, constraint, new, beside, thinking, steps, begun=begun)

        added = tuple(dict(step) for step in steps)
        ask = Ask(mode, messages, prompt, limit, call, options, constraint, formatter, beside, thinking,
                  offer, added, begun=tuple(begun), again=again)  # fmt: skip
        return self._assemble(ask)

    def _home(self) -> Callable[[], Calls]:
        """Return what gives the calls of this model as long as it is there: an answer does not keep it."""
        held, name = weakref.ref(self._settings), self.name

        def find() -> Calls:
            model = held()
            if model is None:
                raise ModelClosedError(f"The model {name!r} is gone, so no branch can be written.")
            return model._calls

        return find

    def _assemble(self, ask: Ask) -> Assembler:
        ask = replace(ask, keep=self._keep)
        made = assemble(
            self.name, self._file, self.backend, ask, self.visible_ids(ask.formatter), self._growing
        )
        made.counts = self.stats
        return made

    def _fit(self, call: Call, mode: str) -> Fit:
        file, writes = self._file, mode not in ("score", "xray")
        guard = Guard(file.window, call.overflow, file.n_ctx_train, file.kv_bytes_per_token, writes)
        most = call.max_tokens
        if most is None and self.max_tokens is not None:
            most = max(self.max_tokens, call.min_tokens)
        return Fit(guard, most, self._tokenizer)
