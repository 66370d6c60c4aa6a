"""Tools of a request: what a model is told of them, and which of them it may or must call.

A custom tool takes a text. The model writes it as a call with one argument, `input`, whose pattern holds it
to the form that was asked for; the client sees the text alone (`telling.called`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from llama_magic.model.asked import Beside
from llama_magic.model.tools.offer import Offer
from llama_magic.serving import held
from llama_magic.serving.fields.tools import INPUT, body_of
from llama_magic.serving.refusals import Refusal

if TYPE_CHECKING:
    from llama_magic.model.model import Model


def beside(model: Model, asked: Any, variables: Mapping[str, Any]) -> Beside:
    """Return what a call asks for beside its options. Raises `Refusal` for a choice that cannot be made."""
    tools = [_told(model, tool, place) for place, tool in enumerate(asked.tools or ())]
    names = [tool["function"]["name"] for tool in tools]
    choice, wanted = _chosen(asked.tool_choice)
    if wanted and not names:
        raise Refusal(400, "tool_choice needs tools.", "tool_choice")
    for name in wanted:
        if name not in ("required", *names):
            raise Refusal(400, f"tool_choice names {name!r}, which is none of the tools.", "tool_choice")
    made = Beside(
        tools=tools or None,
        tool_choice=choice,
        parallel_tool_calls=asked.parallel_tool_calls if tools else None,
        tools_as_text=True,
        template_variables=variables,
    )
    _check_held(model, asked, made)
    return made


def _told(model: Model, tool: Any, place: int) -> dict[str, Any]:
    """Return a tool as a function."""
    body = body_of(tool)
    if tool.type == "function":
        return {"type": "function", "function": body.model_dump(exclude_none=True, exclude={"type"})}
    text: dict[str, Any] = {"type": "string"}
    if (grammar := _grammar(body)) is not None:
        where = f"tools[{place}].{'custom.' if body is not tool else ''}format"
        text["pattern"] = _pattern(model, where, grammar)
    parameters = {"type": "object", "properties": {INPUT: text}, "required": [INPUT]}
    said = {"description": body.description} if body.description else {}
    return {"type": "function", "function": {"name": body.name, **said, "parameters": parameters}}


def _grammar(body: Any) -> Any:
    """Return what the text of a custom tool is held to, None where it is any text."""
    form = body.format
    return None if form is None or form.type == "text" else getattr(form, "grammar", form)


def _pattern(model: Model, where: str, grammar: Any) -> str:
    if grammar.syntax == "lark":
        raise Refusal(
            400,
            f"{where}: a Lark grammar cannot be held to in the JSON of a call; expected the syntax regex.",
            where,
        )
    if held.constraint(model, where, regex=grammar.definition).checked:
        raise Refusal(400, f"{where}: look-around and word boundaries cannot be held to.", where)
    return f"^(?:{grammar.definition})$"


def _chosen(choice: Any) -> tuple[Any, list[str]]:
    """Return a choice as a call takes it, and the names that it stands on."""
    if choice is None or isinstance(choice, str):
        return choice or "auto", ["required"] if choice == "required" else []
    if choice.type != "allowed_tools":
        name = body_of(choice).name
        return name, [name]
    allowed = getattr(choice, "allowed_tools", choice)
    names = [body_of(tool).name for tool in allowed.tools]
    tools = [{"type": "function", "name": name} for name in names]
    return {"type": "allowed_tools", "mode": allowed.mode, "tools": tools}, names


def _check_held(model: Model, asked: Any, made: Beside) -> None:
    """Refuse a custom tool whose form nothing would see to: the calls of a model that is free are, too."""
    offer = Offer.read(made.tools, made.tool_choice, as_text=True)
    if offer.choice == "none" or offer.holds_calls(model.formatter, model.backend.capabilities.masks):
        return
    for place, tool in enumerate(asked.tools or ()):
        if tool.type == "custom" and _grammar(body_of(tool)) is not None:
            raise Refusal(
                400,
                f"tools[{place}] has a grammar, to which calls that this model begins are not held; "
                'expected tool_choice "required", or the name of a tool.',
                "tool_choice",
            )
