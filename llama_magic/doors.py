"""How an option or a verb is written at each door: in Python, on a magic's line, in a request, in a shell.

What is said below the doors marks it: `option("ctx", 768)`, `verb("load")`. Notes, and all else that is kept
as text, are worded `here`: for the door through which the call came in. So is an error, and the door that it
leaves through words it anew.
"""

from __future__ import annotations

import enum
import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Door(enum.Enum):
    """Where a call came in, and its error goes out."""

    PYTHON = "python"
    MAGIC = "magic"
    SERVER = "server"  # a request over HTTP
    SHELL = "shell"


_entered: ContextVar[Door] = ContextVar("door", default=Door.PYTHON)


@contextmanager
def through(door: Door) -> Iterator[None]:
    """Let what is said in here be worded for a door."""
    token = _entered.set(door)
    try:
        yield
    finally:
        _entered.reset(token)


def entered() -> Door:
    """Return the door through which the call at work came in."""
    return _entered.get()


# Noncharacters of Unicode, meant for what stays within a program.
_OPTION, _VERB, _VALUE, _END = "\ufdd0", "\ufdd1", "\ufdd2", "\ufdd3"
_MARKED = re.compile(f"([{_OPTION}{_VERB}])([^{_VALUE}]*){_VALUE}([^{_END}]*){_END}")
# What was given is quoted in a message, ever so long; what was expected stands at its end.
_LONG = re.compile(r"(?s)\A(.{2000}).{1000,}(.{1000})\Z")
# Options whose flag is not their name.
FLAGS = {
    "n": "--samples", "thinking": "--think", "name": "--as", "reuse=False": "--fresh",
    "mmap=False": "--no-mmap", "probe=False": "--no-probe", "thinking=False": "--think",
}  # fmt: skip
# Those that a request has as well, under this name.
FIELDS = frozenset({"max_tokens", "n", "stop", "seed", "temperature"})
# What a verb is in Python; one without a line is a verb of notebooks alone.
CALLS = {
    "load": "lm.load({})",
    "connect": "lm.connect({})",
    "inspect": "lm.inspect({})",
    "kv save": "model.kv_save({})",
    "unload": "model.close()",
    "verify": "lm.verify({})",
}


# Controls (a terminal obeys them), direction marks (they reorder a line), halves of surrogate pairs (no
# encoder takes them; a file name that is not UTF-8 has them). Tabs and line breaks are ordinary.
_UNSEEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def escaped(text: str) -> str:
    """Return `text` with what a terminal would obey or no encoder takes written out: `\\x1b`, `\\udcff`."""
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)


def option(name: str, value: object = None) -> str:
    """Return an option of a call, by its name in Python, to stand in a text."""
    return f"{_OPTION}{name}{_VALUE}{'' if value is None else json.dumps(value)}{_END}"


def verb(words: str, argument: str = "") -> str:
    """Return a verb of `%llama`, with what stands behind it, to stand in a text."""
    return f"{_VERB}{words}{_VALUE}{argument}{_END}"


def worded(text: str, door: Door) -> str:
    """Return a text with its options and verbs as they are written at a door, of a length to be read."""
    text = _MARKED.sub(lambda found: _word(door, *found.groups()), text) if _VALUE in text else text
    return _LONG.sub(r"\1 […] \2", text)


def here(text: str) -> str:
    """Return a text as it is worded at the door through which the call at work came in."""
    return worded(text, entered())


def as_written(name: str) -> str:
    """Return an option by its name alone, as the caller writes it; a request has fields of these names."""
    return name if entered() is Door.SERVER else _word(entered(), _OPTION, name, "").rstrip("=")


def _word(door: Door, kind: str, name: str, value: str) -> str:
    if kind == _VERB:
        if door is Door.MAGIC or name not in CALLS:
            return f"%llama {name} {value}".rstrip()
        return CALLS[name].format("…" if not value else value if value.isupper() else repr(value))
    if door is Door.PYTHON:
        return f"{name}={_python(value)}"
    if door is Door.SERVER and name in FIELDS:  # all others are those of who serves
        return f'"{name}": {value}' if value else name
    given = _read(value)
    both = f"{name}={given}"
    flag = FLAGS.get(both) or FLAGS.get(name) or f"--{name.replace('_', '-')}"
    return flag if both in FLAGS or given is True else f"{flag} {given}".rstrip()


def _python(value: str) -> str:
    """Return a value as Python writes it; a placeholder (`N`, `VAR`, `S`) is none of its texts."""
    given = _read(value)
    return repr(given) if isinstance(given, bool) or (given and not str(given).isupper()) else str(given)


def _read(value: str) -> object:
    try:
        return json.loads(value) if value else ""
    except ValueError:  # a file's name, say, that holds these noncharacters
        return value
