"""How tool calls and their results look, in an answer, a conversation and while they happen."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

from llama_magic.display.static.doc import Answer, Code, Fold, Node
from llama_magic.words.calls import call_words
from llama_magic.words.harmless import one_line

_SHORT = 200  # characters of a result that stand in one line


def steps(messages: Iterable[Mapping[str, Any]]) -> list[Node]:
    """Show the turns of tools: what was said beside the calls, each call, each result."""
    out: list[Node] = []
    for message in messages:
        text = str(message.get("content") or "")
        if message["role"] == "tool":
            name = str(message.get("name") or "tool")
            short = len(text) <= _SHORT and "\n" not in text
            out.append(Code(f"← {text}") if short else Fold(f"← {name}", (Code(text),), brief=True))
            continue
        out += [Answer(text, markdown=True)] if text else []
        out += [Code(line) for line in calls(message.get("tool_calls") or ())]
    return out


def calls(made: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return a line for each call, in our form or in that of OpenAI's API."""
    return [f"→ {_words(call)}" for call in made]


def _words(call: Mapping[str, Any]) -> str:
    body = call.get("function", call)
    name, arguments = str(body.get("name") or ""), body.get("arguments")
    if isinstance(arguments, str):
        with contextlib.suppress(ValueError):  # no JSON: shown as it is
            arguments = json.loads(arguments)
    return call_words(name, arguments if name else call.get("raw"))


def result_line(message: Mapping[str, Any]) -> str:
    """Return the beginning of a result on one line."""
    return f"← {one_line(str(message.get('content') or ''), _SHORT)}"
