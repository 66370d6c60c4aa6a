"""Comments in a cell that speak to a notebook tool and not to the model: they are no part of a prompt."""

from __future__ import annotations

import re

# nbval reads these anywhere in a cell (its plugin.py, comment_markers), Quarto and nbdev `#|` at the top.
_NBVAL = re.compile(r"^[ \t]*#+[ \t]*(?:NBVAL|PYTEST_VALIDATE)_[A-Z_]+[ \t]*(?:\n|\Z)", re.MULTILINE)
_DIRECTIVES = re.compile(r"(?:#\|.*(?:\n|\Z))+")


def without_markers(body: str) -> tuple[str, list[str]]:
    """Return the body without such lines, and those lines."""
    found: list[str] = []

    def leave_out(match: re.Match[str]) -> str:
        found.extend(line.strip() for line in match[0].splitlines())
        return ""

    if "NBVAL_" in body or "PYTEST_VALIDATE_" in body:
        at_the_end = any(match.end() == len(body) for match in _NBVAL.finditer(body))
        body = _NBVAL.sub(leave_out, body)
        body = body.removesuffix("\n") if at_the_end else body  # the break before it is its own
    if directives := _DIRECTIVES.match(body):
        body = leave_out(directives) + body[directives.end() :]
    return body, found
