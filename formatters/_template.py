"""A Jinja chat template: compiled once, probed once for each shape of conversation, rendered in parts."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

from llama_magic.doors import option
from llama_magic.errors import InputTypeError, OptionError, TemplateError

from ._guard import CONTROL_LIKE, Veil, attribute, guards_of, neutralise
from ._marks import spec_from_template
from ._messages import NOTES, PARTS, in_parts, normalise_with_parts, without_parts
from ._plain import plain_data
from ._plan import TemplatePlan, glue, key, make_plan, shape, turn_marks
from ._reader import ReplySpec
from ._roles import check_roles
from ._running import compiled, names_and_texts, reads_nothing, run
from ._types import Message, Part, Rendered

_PLANS = 256  # shapes of conversations remembered for each template


class Template:
    """A Jinja chat template, whose text is `source`. Raises TemplateError if it does not compile."""

    def __init__(self, source: str, bos_token: str = "", eos_token: str = "") -> None:
        self.source = source
        self.bos_token = bos_token
        self.eos_token = eos_token
        if not isinstance(source, str):
            raise InputTypeError(f"A chat template is a string, not a {type(source).__name__}.")
        self._template = compiled(source)
        self._plans: OrderedDict[str, TemplatePlan | TemplateError] = OrderedDict()

    def __reduce__(self) -> Any:
        return Template, (self.source, self.bos_token, self.eos_token)

    def __repr__(self) -> str:
        return f"<Template of {len(self.source):,} characters>"

    @cached_property
    def variables(self) -> frozenset[str]:
        """The names that the template reads from outside."""
        return names_and_texts(self.source)[0]

    def check(self) -> None:
        """Raise TemplateError where it leaves out every message of any conversation."""
        if "messages" not in self.variables:
            raise reads_nothing(self.source)

    @cached_property
    def _literals(self) -> frozenset[str]:
        return names_and_texts(self.source)[1]

    @cached_property
    def spec(self) -> ReplySpec:
        """The marks of thinking and tool calls that the template speaks of."""
        return spec_from_template(self.source)

    @cached_property
    def glue(self) -> tuple[str, ...]:
        """What the template writes around the texts of a short conversation."""
        roles = ("user", "assistant", "user")
        for head in (("system",), ()):
            messages = [{"role": role, "content": "x"} for role in (*head, *roles)]
            try:
                return tuple(glue(self._plan(messages, {"add_generation_prompt": True}).probe))
            except TemplateError:
                continue
        return ()

    @cached_property
    def turn_marks(self) -> frozenset[str]:
        """The strings by which the template opens and closes turns."""
        return turn_marks(self.glue)

    @cached_property
    def stop(self) -> tuple[str, ...]:
        """The strings that end an answer: what the template writes after an assistant's text."""
        stops = [self.eos_token] if self.eos_token else []
        after = self.glue[-2] if len(self.glue) >= 3 else ""  # between the assistant's text and the user's
        found = CONTROL_LIKE.search(after)
        if found is not None:
            stops.append(found.group())
        else:
            stops += [f"\n{text}" for text in turn_marks([after])]
        if self.eos_token and self.eos_token in after:
            stops = [self.eos_token]
        inner = [mark.text for mark in self.spec.marks]
        return tuple(text for text in dict.fromkeys(stops) if not any(m.startswith(text) for m in inner))

    def _run(self, messages: list[Message], variables: dict[str, Any], hidden: dict[str, str]) -> str:
        given = {"bos_token": self.bos_token, "eos_token": self.eos_token, **variables, "messages": messages}
        return run(self._template, given, hidden)

    def _plan(self, messages: list[Message], variables: dict[str, Any]) -> TemplatePlan:
        name = key(messages, variables)
        plan = self._plans.get(name)
        if plan is None:
            try:
                plan = make_plan(lambda m, v: self._run(m, v, {}), messages, variables, self.bos_token)
            except TemplateError as error:
                plan = TemplateError(error.message, remedy=error.remedy)  # without frames, and what they hold
            self._plans[name] = plan
            while len(self._plans) > _PLANS:
                self._plans.popitem(last=False)
        if isinstance(plan, TemplateError):
            raise TemplateError(plan.message, remedy=plan.remedy)
        return plan

    def messages_to_prompt(
        self,
        messages: Sequence[Any],
        add_generation_prompt: bool = True,
        tools: Sequence[Any] | None = None,
        **template_variables: Any,
    ) -> str:
        """Render `messages` as one string.

        Well-formed conversations give the text that `transformers` gives. Conversations that the
        template refuses or loses messages of are repaired as llama.cpp does. A string cannot say whose its
        marks are, so marks of turns in a message are broken by a space ("< |im_end|>"). Raises TemplateError.
        """
        return self.render(messages, add_generation_prompt, tools, guarded=None, **template_variables).text

    def completion_to_prompt(self, text: str, system_prompt: str | None = None) -> str:
        """Render `text` as one user turn, after `system_prompt` if there is one."""
        messages: list[Message] = [{"role": "user", "content": text}]
        if system_prompt is not None:
            messages.insert(0, {"role": "system", "content": system_prompt})
        return self.messages_to_prompt(messages)

    def render(
        self,
        messages: Sequence[Any],
        add_generation_prompt: bool = True,
        tools: Sequence[Any] | None = None,
        *,
        guarded: Collection[str] | None = (),
        continue_final: bool = False,
        **template_variables: Any,
    ) -> Rendered:
        """Render `messages` in parts; see `Formatter.render`; `guarded` None breaks marks in texts."""
        given = normalise_with_parts(messages)
        check_roles(given, self._literals)
        variables = plain_data(template_variables, "template variable")
        variables["add_generation_prompt"] = add_generation_prompt and not continue_final
        if tools is not None:
            variables["tools"] = plain_data(list(tools), "tools")
            if tools and "tools" not in self.variables:
                raise TemplateError(
                    "The chat template has no place for tools; it would leave them out.",
                    remedy=f"Write {option('tools_as_text', True)}, or choose another {option('formatter')}.",
                )
        if not self.source.strip():  # as llama.cpp has it; where it is chosen it is refused
            return Rendered("", (), ("the chat template is empty",), tuple(without_parts(given)))
        short = shape(given)
        done, missing = self._planned(self._plan(short, variables), given, variables, guarded, continue_final)
        if missing and len(short) < len(given):
            # The template changes texts, or the conversation is not as regular for it as it looks.
            plan = self._plan(given, variables)
            done, _ = self._planned(plan, given, variables, guarded, continue_final)
        names = template_variables.keys() - self.variables
        unused = tuple(f"the template does not use {name}" for name in names)
        return replace(done, notes=(*done.notes, *sorted(unused))) if unused else done

    def _planned(
        self,
        plan: TemplatePlan,
        given: list[Message],
        variables: dict[str, Any],
        guarded: Collection[str] | None,
        continue_final: bool,
    ) -> tuple[Rendered, list[int]]:
        notes = [NOTES[repair] for repair in plan.repairs]
        real, said = self._neutral(plan.apply(given), guarded)
        prompt, parts, missing = self._write(real, variables, plan, guarded, continue_final)
        notes += said
        notes += [f"the template leaves out {_lost(i, given)}" for i in plan.lost]
        if tools := [name for tool in variables.get("tools") or () if (name := _name(tool))]:
            left = [name for name in tools if name not in prompt]
            notes += [f"the template leaves out the tools {', '.join(left)}"] if left else []
        if plan.calls_lost:
            notes.append("the template leaves out tool calls of past turns")
        return Rendered(prompt, parts, tuple(notes), tuple(without_parts(real))), missing

    def _write(
        self,
        messages: list[Message],
        variables: dict[str, Any],
        plan: TemplatePlan,
        guarded: Collection[str] | None,
        continue_final: bool,
    ) -> tuple[str, tuple[Part, ...], list[int]]:
        guards = frozenset[str]() if guarded is None else self.turn_marks.union(guarded)
        veil = Veil(guards_of(guards), _texts([messages, variables, self.source]))
        if guards:
            messages = [self._thinking_apart(message, guards) for message in messages]
        hidden = [veil.message(message) for message in messages]
        inputs = {name: veil.hide(value) for name, value in variables.items()}
        end = ""
        if continue_final:
            if hidden[-1]["role"] != "assistant":
                raise OptionError(
                    "continue_final needs an assistant message at the end.",
                    remedy="Add the beginning of the answer as the last message.",
                )
            end = veil.fresh()
            hidden[-1]["content"] += end
            hidden[-1].pop(PARTS, None)
        text = self._run(plan.dress(hidden), inputs, veil.hidden)
        if end:
            if end not in text:
                raise TemplateError(
                    "The chat template changes the end of the last message, so it cannot be continued.",
                    remedy=f"End with a user's message, or choose another {option('formatter')}.",
                )
            text = text[: text.rindex(end)]
            hidden[-1]["content"] = hidden[-1]["content"].removesuffix(end)
        parts, missing = attribute(text, hidden, plan.before, plan.late, in_parts in plan.forms)
        return veil.show(text), veil.parts(parts), missing

    def _neutral(
        self, messages: list[Message], guarded: Collection[str] | None
    ) -> tuple[list[Message], list[str]]:
        """Break turn marks in texts: those that are no tokens of this vocabulary; for a string alone all."""
        spoken = {mark.text for mark in self.spec.marks}  # templates look for these; they open no turn
        if guarded is None:
            marks = self.turn_marks | {self.bos_token, self.eos_token}
        else:
            marks = (self.turn_marks - set(guarded) if guarded else frozenset[str]()) - spoken
        if not marks:
            return messages, []
        out, notes, every, answers = [], [], guards_of(marks), guards_of(marks - spoken)
        for index, message in enumerate(messages):
            guards = answers if message["role"] == "assistant" else every
            text = neutralise(message["content"], guards)
            if text != message["content"]:
                notes.append(f"marks of the template in messages[{index}] were broken by a space")
            neutral = {**message, "content": text}
            if PARTS in message:
                neutral[PARTS] = [neutralise(part, guards) for part in message[PARTS]]
            out.append(neutral)
        return out, notes

    def _thinking_apart(self, message: Message, guards: frozenset[str]) -> Message:
        """Move a past answer's thinking out of its text, if its marks would be hidden.

        Templates look for the marks to leave old thinking out; hidden, they would not be found.
        """
        if message["role"] != "assistant" or message.get("reasoning_content"):
            return message
        for opened, state in self.spec.opens:
            closed = next((m.text for m in self.spec.marks if m.where == (state,) and m.then == "text"), "")
            text = message["content"]
            if closed not in guards or closed not in text:
                continue
            thought, _, answer = text.lstrip().removeprefix(opened).rpartition(closed)
            # Without an opening mark the prompt had opened the part; templates cut there if they split.
            lone = opened not in text and "split" in self.source and thought.strip() and answer.strip()
            if lone or text.lstrip().startswith(opened):
                thought = thought.strip("\n")
                return {
                    **{k: v for k, v in message.items() if k != PARTS},
                    "content": answer.lstrip("\n"),
                    "reasoning_content": thought,
                    "thinking": thought,
                }
        return message


def _lost(index: int, messages: list[Message]) -> str:
    message = messages[index]
    if message["role"] == "assistant":
        return f"the text of messages[{index}], which stands beside tool calls"
    return f"messages[{index}] ({message['role']})"


def _name(tool: Any) -> str:
    body = tool.get("function", tool) if isinstance(tool, dict) else {}
    return str(body.get("name", "")) if isinstance(body, dict) else ""


def _texts(value: Any) -> list[str]:
    """Return all texts in a value, keys of dicts too."""
    found, left = [], [value]
    while left:
        item = left.pop()
        if type(item) is str or isinstance(item, str):
            found.append(item)
        elif isinstance(item, dict):
            left += item
            left += item.values()
        elif isinstance(item, list):
            left += item
    return found
