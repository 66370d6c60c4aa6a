"""How families write tool calls, as text around JSON, so that a call can be forced."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from ._reader import ReplySpec


@dataclass(frozen=True)
class CallForm:
    """How a family writes tool calls: text around JSON.

    `one` is one call: `{call}` stands for the object of name and arguments under the keys `keys`; or
    `{name}` for the name alone and `{arguments}` for their object alone. All of them stand after `opened`,
    with `between` between two, and before `closed`. `own` says that it is just what the family was trained
    to write, so that a call which a model begins by itself can be held to it. With `bare` an answer that
    is nothing but the JSON of a call is one. `addressed` is what in a header calls a tool, `{name}` or all.
    """

    one: str
    opened: str = ""
    between: str = "\n"
    closed: str = ""
    keys: tuple[str, str] = ("name", "arguments")
    own: bool = True
    bare: bool = False
    addressed: str = ""

    def write(self, calls: Iterable[tuple[str, Any]]) -> str:
        """Write calls, each of a name and an object of arguments."""
        texts = []
        for name, arguments in calls:
            call = json.dumps(dict(zip(self.keys, (name, arguments), strict=True)), ensure_ascii=False)
            words = {"call": call, "name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
            texts.append("".join(words.get(part, part) for part in self.parts()))
        return f"{self.opened}{self.between.join(texts)}{self.closed}"

    def begins(self, spec: ReplySpec, names: Iterable[str]) -> tuple[str, ...]:
        """Return the texts that begin a call in an answer of this family."""
        if self.addressed:
            return tuple(dict.fromkeys(self.addressed.replace("{name}", name) for name in names))
        return tuple(mark.text for mark in spec.marks if mark.then == "tool_call")

    def parts(self) -> list[str]:
        """Return `one` cut into texts and the words `call`, `name` and `arguments` between them."""
        found = [self.one]
        for word in ("call", "name", "arguments"):
            found = [
                piece
                for text in found
                for place, cut in enumerate(text.split(f"{{{word}}}"))
                for piece in ((word, cut) if place else (cut,))
            ]
        return [text for text in found if text]


HERMES = CallForm("<tool_call>\n{call}\n</tool_call>")
_DEEPSEEK = CallForm(
    "<｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}\n```json\n{arguments}\n```<｜tool▁call▁end｜>",
    opened="<｜tool▁calls▁begin｜>",
    closed="<｜tool▁calls▁end｜>",
)
_KIMI = CallForm(
    "<|tool_call_begin|>functions.{name}:0<|tool_call_argument_begin|>{arguments}<|tool_call_end|>",
    opened="<|tool_calls_section_begin|>",
    closed="<|tool_calls_section_end|>",
    between="",
    own=False,  # it counts its calls
)
# By the mark that opens a call. A form that is not the family's own is one that its reader takes as well.
_BY_MARK = {
    "<tool_call>": HERMES,
    "<tool_calls>": CallForm("{call}", "<tool_calls>\n", closed="\n</tool_calls>", own=False),
    "[TOOL_CALLS]": CallForm("{call}", "[TOOL_CALLS][", ", ", "]"),
    "<|tool_call|>": CallForm("{call}", "<|tool_call|>[", ", ", "]"),
    "<|python_tag|>": CallForm("{call}", "<|python_tag|>", "; ", keys=("name", "parameters"), bare=True),
    "<｜tool▁calls▁begin｜>": _DEEPSEEK,
    "<|tool_calls_section_begin|>": _KIMI,
    "<|START_ACTION|>": CallForm(
        "{call}", "<|START_ACTION|>[", ", ", "]<|END_ACTION|>", ("tool_name", "parameters"), own=False
    ),
    "<|tool_call_start|>": CallForm("{call}", "<|tool_call_start|>[", ", ", "]<|tool_call_end|>", own=False),
    "<minimax:tool_call>": CallForm(
        "{call}", "<minimax:tool_call>\n", closed="\n</minimax:tool_call>", own=False
    ),
    "<seed:tool_call>": CallForm("{call}", "<seed:tool_call>\n", closed="\n</seed:tool_call>", own=False),
}
# A header says whom a message is for; it opens with these marks.
_BY_HEADER = {
    "<|channel|>": CallForm(
        "<|channel|>commentary to=functions.{name} <|constrain|>json<|message|>{arguments}",
        own=False,
        addressed="to=functions.",
    ),
    "<|start|>assistant": CallForm(" to={name}<|message|>{arguments}", own=False, addressed=" to={name}"),
    ">>>": CallForm("{name}\n{arguments}", own=False, addressed=">>>{name}"),
}


def form_of(spec: ReplySpec, source: str = "") -> CallForm | None:
    """Return how calls are written by a family with these marks, None where it has no mark for them.

    `source` is its template, which tells the variants apart.
    """
    if spec.header is not None:
        return next((form for text, form in _BY_HEADER.items() if spec.marks[0].text == text), None)
    opening = next((mark.text for mark in spec.marks if mark.then == "tool_call"), None)
    form = _BY_MARK.get(opening or "")
    if form is None:
        return None
    if "[ARGS]" in source and opening == "[TOOL_CALLS]":
        return CallForm("[TOOL_CALLS]{name}[ARGS]{arguments}", between="")
    if form is _DEEPSEEK and source and "```json" not in source:
        return replace(
            form, one="<｜tool▁call▁begin｜>{name}<｜tool▁sep｜>{arguments}<｜tool▁call▁end｜>", between=""
        )
    if "<function=" in source or "<arg_key>" in source:
        return replace(form, own=False)
    return form


# What tells a model of its tools, in the form of Hermes 2 Pro and Qwen 2.5.
BEFORE_TOOLS = (
    "You may call one or more functions to assist with the user query. The signatures of the functions "
    "are within <tools></tools>:\n<tools>"
)
AFTER_TOOLS = (
    "\n</tools>\nFor each function call return a JSON object with its name and arguments within "
    '<tool_call></tool_call>:\n<tool_call>\n{"name": <name>, "arguments": <arguments>}\n</tool_call>'
)
