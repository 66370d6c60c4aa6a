"""Roles of messages: those that everybody knows, and those that are only misspelt."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable, Mapping
from typing import Any

from llama_magic.errors import OptionError
from llama_magic.words.names import nearest

KNOWN = ("system", "developer", "user", "assistant", "tool", "function")
# What chats of other tools and data sets (ShareGPT) call them.
_ELSEWHERE = {
    "human": "user", "gpt": "assistant", "chatgpt": "assistant", "bot": "assistant",
    "ai": "assistant", "model": "assistant",
}  # fmt: skip
_NEAR = 0.75  # likeness, 0 to 1, from which a name is taken for another one: "usr", "users", "asistant"
_NUMBERED = re.compile(r"[-_]|\d")  # what stands behind a known name in a name of its own: user_2, tool-call


def check_roles(messages: Iterable[Mapping[str, Any]], own: Container[str] = ()) -> None:
    """Raise `OptionError` for a role that is a known one misspelt; `own` are those of the template.

    Many templates write any role as it stands, so a misspelt one, or that of another tool ("human"), would
    reach the model without a word. A name that is like no other ("critic") is one that somebody made up, and
    passes.
    """
    for index, message in enumerate(messages):
        role = message["role"]
        if role in KNOWN or role in own:
            continue
        elsewhere = _ELSEWHERE.get(role.lower())
        near = [elsewhere] if elsewhere else nearest(role.lower(), KNOWN, cutoff=_NEAR)
        if near and not _NUMBERED.match(role, len(near[0]) if role.startswith(near[0]) else len(role)):
            raise OptionError(
                f"messages[{index}] has the role {role!r}, which this template does not name. "
                f"Did you mean {near[0]!r}?",
                remedy=f"Roles are {', '.join(KNOWN[:-1])}, and those that the template has of its own.",
            )
