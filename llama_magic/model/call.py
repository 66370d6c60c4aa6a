"""How a call becomes a request: options checked, prompt rendered and guarded, constraint attached."""

from __future__ import annotations

import copy
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Protocol

from llama_magic import structured
from llama_magic.errors import InputTypeError, OptionError
from llama_magic.microscope.advice import advise
from llama_magic.model import prompt as prompting
from llama_magic.model.answer import Assembler, Plan
from llama_magic.model.asked import Beside, Call, digest, for_receipt
from llama_magic.model.begun import begun
from llama_magic.model.guard import Guard, check_budget
from llama_magic.model.overflow import Fit
from llama_magic.model.thinking import Thinking, after_thinking, drop_thinking, note_of, reads_marks
from llama_magic.model.tools.offer import Offer
from llama_magic.request.request import Request
from llama_magic.request.sampling import Sampling, default_sampling
from llama_magic.request.stages import PARAMETERS
from llama_magic.threads import LeftBehind

if TYPE_CHECKING:
    from llama_magic.formatters import Formatter
    from llama_magic.model.file import LoadedFile
    from llama_magic.request.backend import Backend
    from llama_magic.structured import Constraint


_RESERVED = {"messages", "tools", "guarded", "add_generation_prompt", "continue_final_message"}


class Settings(Protocol):
    """What of a model may change between calls."""

    sampling: Sampling
    formatter: Formatter


def _advice(sampling: Sampling, options: Mapping[str, Any]) -> tuple[str, ...]:
    """Say which sampling parameters that were asked for do nothing."""
    asked = PARAMETERS.keys() & options.keys()
    if options.get("sampling") is not None:
        default = default_sampling()
        asked |= {name for name in PARAMETERS if getattr(sampling, name) != getattr(default, name)}
    return advise(sampling, asked)


class Calls:
    """Build the request of each kind of call for one model."""

    def __init__(self, name: str, file: LoadedFile, backend: Backend, settings: Settings) -> None:
        self._name = name
        self._file = file
        self.backend = backend
        self._tokenizer = backend.tokenizer
        self._settings = settings
        self._visible: dict[str, frozenset[int]] = {}
        self._keep = True

    @property
    def formatter(self) -> Formatter:
        return self._settings.formatter

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
            self._visible[formatter.name] = frozenset(
                i
                for i in self._tokenizer.control_ids
                if any(self._tokenizer.text(i) in mark for mark in marks)
            )
        return self._visible[formatter.name]

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
            if not isinstance(name, str) or name in _RESERVED:
                raise OptionError(
                    f"template_variables cannot set {name!r}.",
                    remedy="Use the parameter of that name instead.",
                )
        continues = bool(variables.pop("continue_final", prompting.is_begun(messages)))
        template = prompting.Template(
            formatter or self.formatter,
            self._file.guarded,
            variables,
            tools,
            continue_final=continues,
            begins=begins,
        )
        return prompting.from_messages(self._tokenizer, template, messages, most)

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
        text: str,
        constraint: Constraint | None,
        options: Mapping[str, Any],
        mode: str = "complete",
    ) -> Assembler:
        """Prepare the continuation of a raw text; `mode` is what the answer says it was made for."""
        self._must_write()
        call = Call.read(self._settings.sampling, options, self._tokenizer)
        if call.prefill is not None:
            raise OptionError(
                "prefill begins an answer, and here the text itself goes on.",
                remedy="Write it at the end of the text, or ask with instruct=True.",
            )
        prompt, limit = self._fit(call).text(text)
        return self._assemble(mode, text, prompt, limit, call, options, constraint, None)

    def chat(
        self,
        mode: str,
        messages: Sequence[Any],
        constraint: Constraint | None,
        options: Mapping[str, Any],
        beside: Beside = Beside(),  # noqa: B008 - frozen
        thinking: Thinking | None = None,
        steps: Sequence[Mapping[str, Any]] = (),
    ) -> Assembler:
        """Prepare the answer to a conversation; `thinking` is of a structured one.

        `steps` are the turns at its end that the call itself added: tool calls and their results.
        """
        self._must_write()
        variables = beside.template_variables
        if thinking is not None:
            variables = thinking.variables
        call = Call.read(self._settings.sampling, options, self._tokenizer)
        offer = Offer.read(beside.tools, beside.tool_choice, beside.parallel_tool_calls, beside.tools_as_text)
        if offer.tools and constraint is not None:
            raise OptionError(
                f"tools stand beside a constraint ({constraint.kind}), under which none could be called.",
                remedy="Leave one of them out.",
            )
        formatter = offer.formatter(self.formatter)
        begins = thinking is not None and prompting.is_begun(messages)

        def render(kept: Sequence[Any]) -> prompting.Prompt:
            return self.render(kept, beside.tools, variables, self._file.window, formatter, begins=begins)

        notes: tuple[str, ...] = ()
        if call.drop_thinking:
            messages, notes = drop_thinking(messages, formatter, lambda some: len(render(some).ids))
        if call.prefill is not None:
            messages, begins = prompting.with_beginning(messages, call.prefill), True
        if begins and thinking is not None and thinking.wanted:
            raise OptionError(
                "The answer is begun, so the model cannot think first.",
                remedy="Leave out thinking (--think), or the beginning.",
            )

        prompt, limit = self._fit(call).messages(messages, render)
        prompt = replace(prompt, notes=(*prompt.notes, *notes))
        return self._assemble(
            mode,
            messages,
            prompt,
            limit,
            call,
            options,
            constraint,
            formatter,
            beside,
            thinking,
            offer,
            steps,
        )

    def _fit(self, call: Call) -> Fit:
        file = self._file
        guard = Guard(file.window, call.overflow, file.n_ctx_train, file.kv_bytes_per_token)
        return Fit(guard, call.max_tokens, self._tokenizer)

    def _assemble(
        self,
        mode: str,
        given: str | Sequence[Any],
        prompt: prompting.Prompt,
        limit: int,
        call: Call,
        options: Mapping[str, Any],
        constraint: Constraint | None,
        formatter: Formatter | None,
        beside: Beside = Beside(),  # noqa: B008 - frozen
        thinking: Thinking | None = None,
        offer: Offer = Offer(),  # noqa: B008 - frozen
        steps: Sequence[Mapping[str, Any]] = (),
    ) -> Assembler:
        if constraint is not None and self.backend.capabilities.masks:
            check_budget(constraint, limit, len(prompt.begun))
        for token, _ in call.sampling.logit_bias:
            if not 0 <= token < self._tokenizer.n_tokens:
                last = self._tokenizer.n_tokens - 1
                raise OptionError(f"logit_bias names token {token}; this tokenizer has ids 0 to {last}.")
        stops = tuple(dict.fromkeys((*call.stop, *(formatter.stop if formatter else ()))))
        ids = {text: self._tokenizer.special_id(text) for text in stops}
        file, note, mask = self._file, "", None
        if constraint is not None:
            note = note_of(thinking, formatter, prompt.head)
            mask = after_thinking(constraint, formatter, prompt.head, self._tokenizer, thinking)
        elif formatter is not None and self.backend.capabilities.masks:
            mask = offer.constraint(formatter, prompt.head, self._tokenizer)
        if self.backend.capabilities.masks:
            mask = begun(mask, prompt, self._tokenizer)
        plan = Plan(
            mode,
            self._name,
            prompt,
            limit,
            file.window,
            file.load_s,
            call.timeout,
            formatter,
            constraint,
            thinking=note,
            reads=reads_marks(constraint, formatter, prompt.head, thinking),
            made_with={**file.made_with, **for_receipt(call, constraint, beside, prompt, given)},
            tag=call.tag,
            offer=offer,
            steps=tuple(dict(step) for step in steps),
            advice=_advice(call.sampling, options),
        )
        request = Request(
            prompt=prompt.ids,
            max_tokens=limit,
            sampling=call.sampling,
            seed=call.seed if call.seed is not None else secrets.randbelow(2**32 - 1),
            exact=call.seed is not None,
            n=call.n,
            stops=stops,
            stop_texts={token: text for text, token in ids.items() if token is not None},
            visible_ids=self.visible_ids(formatter),
            logprobs=call.logprobs,
            reuse=call.reuse,
            keep=self._keep,
            ignore_eos=call.ignore_eos,
            measure_outside=call.pressure and constraint is not None,
            constraint=mask,
            begun=prompt.begun,
            text=prompt.text,
            messages=prompt.messages,
            tools=tuple(offer.descriptions),
            tool_choice=offer.choice,
            parallel_tool_calls=offer.parallel,
        )
        if lack := self.backend.capabilities.lacks(request):
            raise OptionError(
                f"{self._name} cannot honour {lack}.", remedy="Leave it out, or load the model here."
            )
        plan = replace(plan, request=digest(request, constraint, self._name, file.made_with))
        return Assembler(plan, self._tokenizer, request)
