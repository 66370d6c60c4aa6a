"""What is offered to a model in one call: tools, whether it must call one, and the masks that see to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.formatters import BareCalls, CallForm, Formatter, TextTools
from llama_magic.model.thinking import ThinkingFirst, Ways
from llama_magic.model.tools.tool import Tool
from llama_magic.structured.callmasks import MayCall, NoCalls
from llama_magic.structured.calls import calls
from llama_magic.words.given import flag
from llama_magic.words.names import hint

if TYPE_CHECKING:
    from llama_magic.request.matcher import CarriedConstraint
    from llama_magic.request.tokenizer import Tokenizer

CHOICES = ("none", "auto", "required")


@dataclass(frozen=True)
class Offer:
    """The tools of one call. `choice` is none, auto, required, or the name of the one to call.

    `parallel`: whether one answer may hold several calls; None leaves that to the model where it is free,
    and means one where a call is forced. `as_text`: write the tools as text where the template has no
    place for them.
    """

    tools: tuple[Tool, ...] = ()
    choice: str = "auto"
    parallel: bool | None = None
    as_text: bool = False

    @classmethod
    def read(cls, tools: Any, choice: Any = None, parallel: Any = None, as_text: bool = False) -> Offer:
        """Check what a call gave; no tools make an empty offer."""
        if not isinstance(tools, (list, tuple, type(None))):
            raise InputTypeError(f"tools is a {type(tools).__name__}; expected a list of functions.")
        if not isinstance(parallel, (bool, type(None))):
            raise InputTypeError(f"parallel_tool_calls is {parallel!r}; expected True, False or None.")
        made = tuple(Tool.of(tool) for tool in tools or ())
        names = [tool.name for tool in made]
        for name in names:
            if names.count(name) > 1:
                raise OptionError(f"Two tools are called {name!r}; expected names that differ.")
        return cls(made, _choice(choice, names), parallel, flag("tools_as_text", as_text))

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

    def constraint(self, formatter: Formatter, prompt: str, tokenizer: Tokenizer) -> CarriedConstraint | None:
        """Return the masks for an answer to `prompt`, None where it is free."""
        form = formatter.call_form
        if not self.tools or form is None:
            return None
        if self.choice == "none":
            return NoCalls(form.begins(formatter.spec, sorted(self.names)), tokenizer, prompt[-100:])
        if self.choice == "auto":
            return self._free(formatter, form, prompt, tokenizer)
        wanted = self.tools if self.choice == "required" else (self.find(self.choice),)
        forced = calls(form, [tool.schema for tool in wanted], tokenizer, many=bool(self.parallel))
        if formatter.reader(prompt).state != "thinking":
            return forced
        return ThinkingFirst(forced, formatter, prompt, Ways(formatter, tokenizer), None)

    def _free(
        self, formatter: Formatter, form: CallForm, prompt: str, tokenizer: Tokenizer
    ) -> CarriedConstraint | None:
        many = self.parallel is not False
        rest = None
        marks = form.begins(formatter.spec, ())
        if form.own and len(marks) == 1:  # of several the reader does not say which one it was
            rest = calls(form, [tool.schema for tool in self.tools], tokenizer, many=many, after=marks[0])
        elif many:
            return None
        return MayCall(lambda: formatter.reader(prompt), rest, tokenizer, many)

    def reader(self, formatter: Formatter, prompt: str) -> Any:
        """Return what reads an answer to `prompt`."""
        inner = formatter.reader(prompt)
        form = formatter.call_form
        bare = form is not None and form.bare and self.tools and self.choice != "none"
        return BareCalls(inner, self.names) if bare else inner


def _choice(choice: Any, names: Sequence[str]) -> str:
    if isinstance(choice, Mapping):  # in the form of OpenAI's API
        body = choice.get("function", choice)
        choice = (
            body.get("name") if isinstance(body, Mapping) and choice.get("type") == "function" else choice
        )
    if choice is None:
        return "auto"
    if not isinstance(choice, str):
        raise InputTypeError(f"tool_choice is {choice!r}; expected none, auto, required or a tool's name.")
    if not names and choice not in ("none", "auto"):
        raise OptionError(
            f"tool_choice is {choice!r}, but no tools are given.", remedy="Give tools=[…] as well."
        )
    if choice not in (*CHOICES, *names):
        raise OptionError(
            f"tool_choice is {choice!r}; expected none, auto, required or a tool's name "
            f"({', '.join(names)}).{hint(choice, (*CHOICES, *names))}"
        )
    return choice
