"""What is offered to a model in one call: tools, whether it must call one, and the masks that see to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from llama_magic.doors import option
from llama_magic.errors import InputTypeError, OptionError
from llama_magic.formatters import BareCalls, CallForm, Formatter, TextTools
from llama_magic.model.thinking import ThinkingFirst, Ways
from llama_magic.model.tools.tool import Tool
from llama_magic.structured.callmasks import MayCall, NoCalls
from llama_magic.structured.calls import calls
from llama_magic.words.given import flag, quoted
from llama_magic.words.names import hint

if TYPE_CHECKING:
    from llama_magic.request.matcher import CarriedConstraint
    from llama_magic.request.tokenizer import Tokenizer
    from llama_magic.structured import Constraint

CHOICES = ("none", "auto", "required")


@dataclass(frozen=True)
class Offer:
    """The tools of one call. `choice` is none, auto, required, or the name of the one to call.

    `parallel`: whether one answer may hold several calls; None leaves that to the model where it is free,
    and means one where a call is forced. `as_text`: write the tools as text where the template has no
    place for them. `allowed` are the names of those that may be called, where the model is told of more.
    """

    tools: tuple[Tool, ...] = ()
    choice: str = "auto"
    parallel: bool | None = None
    as_text: bool = False
    allowed: frozenset[str] | None = None

    @classmethod
    def read(cls, tools: Any, choice: Any = None, parallel: Any = None, as_text: bool = False) -> Offer:
        """Check what a call gave; no tools make an empty offer."""
        if not isinstance(tools, (list, tuple, type(None))):
            raise InputTypeError(f"tools is a {type(tools).__name__}; expected a list of functions.")
        if not isinstance(parallel, (bool, type(None))):
            raise InputTypeError(f"parallel_tool_calls is {quoted(parallel)}; expected True, False or None.")
        made = tuple(Tool.of(tool) for tool in tools or ())
        names = [tool.name for tool in made]
        for name in names:
            if names.count(name) > 1:
                raise OptionError(f"Two tools are called {name!r}; expected names that differ.")
        chosen, allowed = _allowed(choice, names)
        return cls(made, _choice(chosen, names), parallel, flag("tools_as_text", as_text), allowed)

    @property
    def names(self) -> frozenset[str]:
        return frozenset(tool.name for tool in self.tools)

    @property
    def descriptions(self) -> list[dict[str, Any]]:
        """The tools in the form of OpenAI's API."""
        return [tool.description_for_api for tool in self.tools]

    @property
    def runs(self) -> bool:
        """Whether some tool is a function, so that calls are run here."""
        return any(tool.function is not None for tool in self.tools)

    @property
    def forced(self) -> bool:
        return self.choice not in ("none", "auto")

    @property
    def callable(self) -> tuple[Tool, ...]:
        """The tools that may be called."""
        return tuple(tool for tool in self.tools if self.allowed is None or tool.name in self.allowed)

    def chosen(self, choice: str) -> str | dict[str, Any]:
        """Return a choice among what may be called here, as a call takes it."""
        if self.allowed is None:
            return choice
        tools = [{"type": "function", "name": name} for name in sorted(self.allowed)]
        return {"type": "allowed_tools", "mode": choice, "tools": tools}

    def holds_calls(self, formatter: Formatter, masks: bool) -> bool:
        """Whether a mask holds each call to a tool that may be called, and to its schema."""
        offering = self.formatter(formatter)
        form = offering.call_form
        return form is not None and masks and (self.forced or _opening(form, offering) is not None)

    def holdable(self, formatter: Formatter, masks: bool) -> Offer:
        """Return the offer without tools that are not allowed, where no mask keeps the model from them."""
        if self.allowed is None or self.holds_calls(formatter, masks):
            return self
        return replace(self, tools=self.callable, allowed=None)

    def find(self, name: str) -> Tool:
        """Return a tool by its name, or raise `OptionError` with the nearest."""
        found = next((tool for tool in self.tools if tool.name == name), None)
        if found is None:
            known = ", ".join(sorted(self.names))
            raise OptionError(f"There is no tool {name!r}.{hint(name, self.names)} Tools: {known}.")
        return found

    def formatter(self, formatter: Formatter) -> Formatter:
        """Return the formatter to use: one that writes the tools as text where that was asked for.

        One that writes tools, but whose calls nobody knows how to read, gets those of Hermes.
        """
        if not self.tools or (not formatter.takes_tools and not self.as_text):
            return formatter
        known = formatter.takes_tools and formatter.call_form is not None
        return formatter if known else TextTools(formatter)

    def constraint(
        self, formatter: Formatter, prompt: str, tokenizer: Tokenizer, text: Constraint | None = None
    ) -> CarriedConstraint | None:
        """Return the masks for an answer to `prompt`, None where it is free.

        `text` is what it is held to where no tool need be called: it is a call, or a text of that.
        """
        form = formatter.call_form
        if not self.tools or form is None:
            return None
        if self.choice == "none":
            return NoCalls(form.begins(formatter.spec, sorted(self.names)), tokenizer, prompt[-100:])
        if self.choice == "auto" and text is None:
            return self._free(formatter, form, prompt, tokenizer)
        wanted = self.callable if self.choice in ("auto", "required") else (self.find(self.choice),)
        many = self.parallel is not False if self.choice == "auto" else bool(self.parallel)
        schemas = [tool.schema for tool in wanted]
        forced = calls(form, schemas, tokenizer, many=many, text=None if self.forced else text)
        if formatter.reader(prompt).state != "thinking":
            return forced
        return ThinkingFirst(forced, formatter, prompt, Ways(formatter, tokenizer), None)

    def _free(
        self, formatter: Formatter, form: CallForm, prompt: str, tokenizer: Tokenizer
    ) -> CarriedConstraint | None:
        many = self.parallel is not False
        rest = None
        mark = _opening(form, formatter)
        if mark is not None:
            rest = calls(form, [tool.schema for tool in self.callable], tokenizer, many=many, after=mark)
        elif many:
            return None
        return MayCall(lambda: formatter.reader(prompt), rest, tokenizer, many)

    def reader(self, formatter: Formatter, prompt: str) -> Any:
        """Return what reads an answer to `prompt`."""
        inner = formatter.reader(prompt)
        form = formatter.call_form
        bare = form is not None and form.bare and self.tools and self.choice != "none"
        return BareCalls(inner, frozenset(tool.name for tool in self.callable)) if bare else inner


def _opening(form: CallForm, formatter: Formatter) -> str | None:
    """Return the mark behind which a call that the model begins is held to its form, None where it is not."""
    marks = form.begins(formatter.spec, ())
    # Of several the reader does not say which one it was.
    return marks[0] if form.own and len(marks) == 1 else None


def _allowed(choice: Any, names: Sequence[str]) -> tuple[Any, frozenset[str] | None]:
    """Return what is chosen among which tools, of the form that OpenAI's API calls `allowed_tools`."""
    if not isinstance(choice, Mapping) or choice.get("type") != "allowed_tools":
        return choice, None
    body = choice.get("allowed_tools", choice)
    mode, tools = (body.get(key) for key in ("mode", "tools")) if isinstance(body, Mapping) else (None, None)
    if mode not in ("auto", "required") or not isinstance(tools, (list, tuple)) or not tools:
        raise InputTypeError(
            'tool_choice has the type "allowed_tools"; expected with it mode, auto or required, and tools, '
            "a list of those that may be called."
        )
    parts = [tool.get("function", tool) if isinstance(tool, Mapping) else tool for tool in tools]
    found = [str(part.get("name") if isinstance(part, Mapping) else part) for part in parts]
    for name in found:
        if name not in names:
            known = ", ".join(names)
            near = hint(name, names)
            raise OptionError(f"tool_choice allows {name!r}, which is none of the tools ({known}).{near}")
    return mode, frozenset(found)


def _choice(choice: Any, names: Sequence[str]) -> str:
    if isinstance(choice, Mapping):  # in the form of OpenAI's API
        body = choice.get("function", choice)
        choice = (
            body.get("name") if isinstance(body, Mapping) and choice.get("type") == "function" else choice
        )
    if choice is None:
        return "auto"
    if not isinstance(choice, str):
        raise InputTypeError(
            f"tool_choice is {quoted(choice)}; expected none, auto, required or a tool's name."
        )
    if not names and choice not in ("none", "auto"):
        raise OptionError(
            f"tool_choice is {choice!r}, but no tools are given.", remedy=f"Give {option('tools')} as well."
        )
    if choice not in (*CHOICES, *names):
        raise OptionError(
            f"tool_choice is {quoted(choice)}; expected none, auto, required or a tool's name "
            f"({', '.join(names)}).{hint(choice, (*CHOICES, *names))}"
        )
    return choice
