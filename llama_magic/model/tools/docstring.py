"""What a docstring says of a function and of each of its parameters: Google's, NumPy's and Sphinx's forms."""

from __future__ import annotations

import inspect
import re
import textwrap

_GOOGLE = re.compile(r"(?:Args|Arguments|Parameters|Params):\s*")
_SECTION = re.compile(
    r"(?:Args|Arguments|Parameters|Params|Returns?|Raises|Yields?|Examples?|Notes?|See Also|Attributes|"
    r"Warns?|Warnings?|References):?\s*"
)
_GOOGLE_ENTRY = re.compile(r"\*{0,2}(\w+)\s*(?:\([^)]*\))?\s*:\s*(.*)")
_NUMPY_ENTRY = re.compile(r"(\w+(?:\s*,\s*\w+)*)\s*(?::.*)?")
_SPHINX = re.compile(r":param\s+(?:[^:]*\s)?(\w+)\s*:\s*(.*)")


def read(text: str | None) -> tuple[str, dict[str, str]]:
    """Return the description before all sections, and what is said of each parameter."""
    lines = inspect.cleandoc(text or "").splitlines()
    head: list[str] = []
    found: dict[str, str] = {}
    at = 0
    while at < len(lines) and not _is_section(lines, at):
        head.append(lines[at])
        at += 1
    while at < len(lines):
        end = next((i for i in range(at + 1, len(lines)) if _is_section(lines, i)), len(lines))
        body = lines[at:end]
        if (parameter := _SPHINX.match(body[0])) is not None:
            name, words = parameter.groups()
            found[name] = _joined([words, *body[1:]])
        elif _is_underlined(lines, at) and body[0].startswith("Param"):
            found |= _entries(body[2:], _NUMPY_ENTRY, numpy=True)
        elif _GOOGLE.fullmatch(body[0]):
            found |= _entries(textwrap.dedent("\n".join(body[1:])).splitlines(), _GOOGLE_ENTRY)
        at = end
    return _joined(head, "\n"), {name: words for name, words in found.items() if words}


def _is_section(lines: list[str], at: int) -> bool:
    line = lines[at]
    if line.startswith(":"):
        return bool(re.match(r":\w+[^:]*:", line))
    named = _SECTION.fullmatch(line) is not None
    return named and (line.rstrip().endswith(":") or _is_underlined(lines, at))


def _is_underlined(lines: list[str], at: int) -> bool:
    return at + 1 < len(lines) and re.fullmatch(r"-{3,}\s*", lines[at + 1]) is not None


def _entries(lines: list[str], pattern: re.Pattern[str], *, numpy: bool = False) -> dict[str, str]:
    """Read entries that begin at the margin; what is indented below one belongs to it."""
    found: dict[str, list[str]] = {}
    current: list[str] = []
    for line in lines:
        entry = pattern.fullmatch(line) if line[:1].strip() else None
        if entry is None:
            current.append(line)
            continue
        current = [] if numpy else [entry[2]]
        for name in entry[1].split(","):
            found[name.strip()] = current
    return {name: _joined(words) for name, words in found.items()}


def _joined(lines: list[str], blank: str = " ") -> str:
    """Join the lines of a text, whose paragraphs are kept apart by `blank`."""
    paragraphs = re.split(r"\n\s*\n", "\n".join(line.strip() for line in lines).strip())
    return blank.join(" ".join(paragraph.split()) for paragraph in paragraphs)
