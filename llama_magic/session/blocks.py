"""A cell's body cut into turns: `system:`, `user:` and `assistant:` blocks; and turns as such a body.

And one that holds several prompts or texts, each under a line `=== name`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from llama_magic.errors import OptionError

ROLES = ("system", "user", "assistant")
_NAME = re.compile(r"^===(?!=)[ \t]*(?P<name>.*?)[ \t]*=*[ \t]*$", re.MULTILINE)


def split_blocks(body: str) -> list[tuple[str, str]]:
    """Cut a chat cell's body into `(role, text)` blocks.

    A block opens at a line that starts, without indentation, with `system:`, `user:` or
    `assistant:` followed by a blank or the end of the line. Such lines count only where the
    first line that is not blank is one; any other body is one user turn, whatever its lines
    say. Blank lines around a block's text are not part of it. To keep a first line that
    only looks like an opening, indent it by one blank.
    """
    lines = body.split("\n")
    first = next((line for line in lines if line.strip()), "")
    if _opening(first) is None:
        return [("user", body)]
    blocks: list[tuple[str, list[str]]] = []
    for line in lines:
        if (opening := _opening(line)) is not None:
            blocks.append((opening[0], [opening[1]]))
        elif blocks:
            blocks[-1][1].append(line)
    return [(role, _trim(text)) for role, text in blocks]


def join_blocks(blocks: Sequence[tuple[str, str]]) -> str:
    """Write `(role, text)` blocks as a body that `split_blocks` reads as these.

    Blank lines around a text are lost, and a line of it that would open a block is indented by one blank.
    """
    if len(blocks) == 1 and blocks[0][0] == "user" and split_blocks(blocks[0][1]) == [("user", blocks[0][1])]:
        return blocks[0][1]
    return "\n".join(f"{role}:{_body(text)}" for role, text in blocks)


def _body(text: str) -> str:
    first, *rest = _trim(text.split("\n")).split("\n")
    indented = [f" {line}" if _opening(line) is not None else line for line in (first, *rest)]
    # Behind the colon a line loses the blanks at its ends: one that has some stands below.
    return ("\n" if first != first.strip() else " ") + "\n".join(indented) if text.strip() else ""


def _opening(line: str) -> tuple[str, str] | None:
    role, colon, rest = line.partition(":")
    if colon and role in ROLES and (not rest.strip() or rest[0] in " \t"):
        return role, rest.strip()
    return None


def _trim(lines: list[str]) -> str:
    start, end = 0, len(lines)
    while start < end and not lines[start].strip():
        start += 1
    while end > start and not lines[end - 1].strip():
        end -= 1
    return "\n".join(lines[start:end])


def split_named(body: str) -> dict[str, str] | None:
    """Return what stands under lines `=== name`, by the names; None where there is no such line.

    Raises `OptionError` for text without a name, a name without text, and a name that stands twice.
    """
    marks = list(_NAME.finditer(body))
    if not marks:
        return None
    if body[: marks[0].start()].strip():
        raise OptionError(
            "Text stands above the first line of === name.",
            remedy="Give it a name of its own, or leave out all such lines.",
        )
    ends = [mark.start() for mark in marks[1:]] + [len(body)]
    found: dict[str, str] = {}
    for mark, end in zip(marks, ends, strict=True):
        name, text = mark["name"], body[mark.end() : end].strip("\n")
        if not name or name in found or not text.strip():
            wrong = "has no name" if not name else "stands twice" if name in found else "has no text below it"
            raise OptionError(
                f"The line {mark[0].strip()!r} {wrong}.", remedy="Write === name, then its text."
            )
        found[name] = text
    return found
