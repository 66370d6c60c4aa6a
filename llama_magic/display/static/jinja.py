"""A Jinja template cut into what it says and what it does, so that both can be told apart."""

from __future__ import annotations

import re

_PARTS = re.compile(r"(?s)(\{%.*?%\}|\{\{.*?\}\}|\{#.*?#\})")
_KINDS = {"{%": "does", "{{": "fills", "{#": "remark"}


def parts(source: str) -> list[tuple[str, str]]:
    """Return the pieces of a template with their kinds, "" for text as it stands.

    `does` is a statement, `fills` an expression, `remark` a comment. Joined they are the template.
    """
    pieces = (piece for piece in _PARTS.split(source) if piece)
    return [(piece, _KINDS.get(piece[:2], "") if _PARTS.fullmatch(piece) else "") for piece in pieces]
