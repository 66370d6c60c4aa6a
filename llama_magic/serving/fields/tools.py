"""Tools, and which of them is to be called: nested as chats have them, flat as `/v1/responses` does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from llama_magic.serving.fields.common import MAX_TOOLS, Fields


class Function(Fields):
    """A function that may be called."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class Tool(Fields):
    """A tool: a function."""

    type: Literal["function"]
    function: Function


class AnyText(Fields):
    """A custom tool takes any text."""

    type: Literal["text"]


class Grammar(Fields):
    """What a text is to be: an expression that all of it matches. A Lark grammar is refused."""

    syntax: Literal["regex", "lark"]
    definition: str


class GrammarFormat(Fields):
    """A custom tool takes texts of a form."""

    type: Literal["grammar"]
    grammar: Grammar


class FlatGrammarFormat(Grammar):
    """A custom tool takes texts of a form."""

    type: Literal["grammar"]


class Custom(Fields):
    """A tool that takes a text, no JSON."""

    name: str
    description: str | None = None
    format: Annotated[AnyText | GrammarFormat, Field(discriminator="type")] | None = None


class CustomTool(Fields):
    """A tool that takes a text, no JSON."""

    type: Literal["custom"]
    custom: Custom


class FlatTool(Function):
    """A tool: a function."""

    type: Literal["function"]


class FlatCustomTool(Fields):
    """A tool that takes a text, no JSON."""

    type: Literal["custom"]
    name: str
    description: str | None = None
    format: Annotated[AnyText | FlatGrammarFormat, Field(discriminator="type")] | None = None


class Named(Fields):
    """Names a tool."""

    name: str


class NamedTool(Fields):
    """The function that is to be called."""

    type: Literal["function"]
    function: Named


class NamedCustomTool(Fields):
    """The custom tool that is to be called."""

    type: Literal["custom"]
    custom: Named


class FlatNamedTool(Named):
    """The tool that is to be called."""

    type: Literal["function", "custom"]


AnyTool = Annotated[Tool | CustomTool, Field(discriminator="type")]
AnyFlatTool = Annotated[FlatTool | FlatCustomTool, Field(discriminator="type")]
Tools = Annotated[list[AnyTool], Field(max_length=MAX_TOOLS)]
FlatTools = Annotated[list[AnyFlatTool], Field(max_length=MAX_TOOLS)]


class Allowed(Fields):
    """Of the tools those that may be called, of which one may (auto) or must be (required)."""

    mode: Literal["auto", "required"]
    tools: Annotated[list[AnyTool], Field(min_length=1, max_length=MAX_TOOLS)]


class AllowedChoice(Fields):
    """The model is told of all tools, and can call some."""

    type: Literal["allowed_tools"]
    allowed_tools: Allowed


class FlatAllowed(Fields):
    """The model is told of all tools, and can call some: one may (auto) or must be (required)."""

    type: Literal["allowed_tools"]
    mode: Literal["auto", "required"]
    tools: Annotated[list[AnyFlatTool], Field(min_length=1, max_length=MAX_TOOLS)]


_Word = Literal["none", "auto", "required"]
Choice = _Word | Annotated[NamedTool | NamedCustomTool | AllowedChoice, Field(discriminator="type")]
FlatChoice = _Word | Annotated[FlatNamedTool | FlatAllowed, Field(discriminator="type")]
INPUT = "input"  # the argument of a function that a custom tool is to a model


def body_of(tool: Any) -> Any:
    """Return what names a tool, or a choice: it stands in an object of its own, or flat."""
    return getattr(tool, tool.type, tool)


def custom_names(tools: Sequence[Any] | None) -> frozenset[str]:
    """Return the names of the tools that take a text."""
    return frozenset(body_of(tool).name for tool in tools or () if tool.type == "custom")
