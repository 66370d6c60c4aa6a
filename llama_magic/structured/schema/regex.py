"""Regular expressions between three dialects: JSON Schema's (ECMA 262), Python's, the mask's (Rust's)."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterable

MAX_PATTERN = 20_000  # characters


@functools.lru_cache(maxsize=1024)
def to_python(pattern: str) -> re.Pattern[str] | None:
    """Return the pattern for `search`, or None where Python's `re` cannot say it.

    `$` means the very end (Python also lets it stand before a last line break), and
    `(?<name>` is Python's `(?P<name>`.
    """
    try:
        return re.compile("".join(map(_python, _pieces(pattern))))
    except (re.error, RecursionError, OverflowError):
        return None


def _python(piece: str) -> str:
    if piece == "$":
        return r"\Z"
    if piece.startswith("(?<") and piece[3:4] not in ("=", "!"):
        return "(?P<" + piece[3:]
    if piece in (r"\/", r"\z"):
        return {r"\/": "/", r"\z": r"\Z"}[piece]
    if piece[:3] in (r"\u{", r"\x{"):
        return rf"\U{piece[3:-1]:0>8}"
    if piece[0] == "[" and (len(piece) == 1 or _OPEN.fullmatch(piece)):
        return "[" + piece[1:].replace("[", r"\[")  # no end; Python warns of two brackets before it says so
    if piece[0] == "[":
        head = 2 if piece.startswith("[^") else 1
        return piece[:head] + members(piece[head:-1], _python_member) + "]"
    return piece


_ATOM = re.compile(
    r"\\(?:[pPux]\{[^}]{0,80}\}|[pP][A-Za-z]|x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{1,3}|.)|.",
    re.DOTALL,
)
_SETS = re.compile(r"\\[dDwWsSpP]")


def members(body: str, written: Callable[[str], str]) -> str:
    """Write the members of a class anew: single ones and ranges, read as Python and ECMA 262 read them.

    Where an end of a range is a set itself ([\\w-.]) the hyphen stands for itself.
    """
    atoms = _ATOM.findall(body)
    out, at = [], 0
    while at < len(atoms):
        ends = atoms[at : at + 3]
        if len(ends) == 3 and ends[1] == "-" and not any(_SETS.match(end) for end in ends):
            out.append(f"{written(ends[0])}-{written(ends[2])}")
            at += 3
        else:
            out.append(written(atoms[at]))
            at += 1
    return "".join(out)


_IN_CLASS = "[]&~|-^"  # what some dialect, or a later one, would read as more than itself


def _python_member(atom: str) -> str:
    if atom[:3] in (r"\u{", r"\x{"):
        return _python(atom)
    return "\\" + atom if atom in _IN_CLASS else atom


_BACKREFERENCE = re.compile(r"\\[1-9]|\\k<|\(\?P=|\(\?\(")


def reason(pattern: str) -> str:
    """Say in words, with the place, why a pattern can be neither enforced nor checked; "" if not known."""
    pieces = _pieces(pattern)
    try:
        re.compile("".join(map(_python, pieces)))
    except re.error as error:
        place, written = 0, 0  # in the pattern, in Python's form of it
        for piece in pieces:
            if error.pos is None or written + len(_python(piece)) > error.pos:
                place += min((error.pos or written) - written, len(piece) - 1)
                break
            place, written = place + len(piece), written + len(_python(piece))
        return f"{error.msg} at position {place}"
    except (RecursionError, OverflowError):
        return "it is nested too deeply, or repeats too often"
    back = _BACKREFERENCE.search(pattern)
    return (
        f"a backreference or condition at position {back.start()}, which no mask can follow" if back else ""
    )


# A class that is never closed takes all the rest: to look for its end at each [ again would take for ever.
_PIECE = re.compile(
    r"\\[ux]\{[0-9a-fA-F]{1,8}\}|\\.|\[\^?\]?(?:\\.|[^\]\\])*+(?:\]|\\?\Z)|\(\?<[^>=!()]*+>|.", re.DOTALL
)


_OPEN = re.compile(r"\[\^?\]?(?:\\.|[^\]\\])*+\\?", re.DOTALL)  # a class without its end


def _pieces(pattern: str) -> list[str]:
    """Split into escapes, whole character classes, named groups and single characters."""
    return _PIECE.findall(pattern)


# What pydantic writes for Decimal, and the same language without look-ahead.
_KNOWN = {
    r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$": r"^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)$",
}


def to_mask(pattern: str) -> tuple[str, bool] | None:
    """Return (pattern for the mask, whether it is exact), or None where nothing useful is left.

    The mask's engine has no look-around, word boundaries or backreferences. A look-around
    inside a concatenation only narrows, so leaving it out allows more and never less; what it
    asked for must then be checked after the answer. Look-behinds and boundaries go the same way.
    """
    if pattern in _KNOWN:
        return _KNOWN[pattern], True
    if _BACKREFERENCE.search(pattern):
        return None
    pieces = _pieces(pattern)
    if not _closed(pieces):
        return None
    stripped: list[str] = []
    exact = True
    at = 0
    while at < len(pieces):
        length = _look_around(pieces, at)
        if length:
            if pieces[at + length : at + length + 1] in (["*"], ["?"], ["+"], ["{"]):
                return None  # a repeated look-around: nobody means this
            stripped.append("(?:)")
            exact = False
            at += length
        elif pieces[at] in (r"\b", r"\B"):
            exact = False
            at += 1
        else:
            stripped.append(_rust(pieces[at]))
            at += 1
    return "".join(stripped), exact


def _closed(pieces: list[str]) -> bool:
    """Say whether each group and class that opens closes: else each look-around would look for its end."""
    depth = sum(piece.startswith("(") - (piece == ")") for piece in pieces)
    return depth == 0 and not (pieces and pieces[-1][0] == "[" and _OPEN.fullmatch(pieces[-1]))


def _look_around(pieces: list[str], at: int) -> int:
    """Return how many pieces the look-around at this place takes, 0 if there is none."""
    opening = "".join(pieces[at : at + 4])
    if not opening.startswith(("(?=", "(?!", "(?<=", "(?<!")):
        return 0
    depth = 0
    for end in range(at, len(pieces)):
        depth += pieces[end].startswith("(") - (pieces[end] == ")")
        if depth == 0:
            return end - at + 1
    return 0


def _rust(piece: str) -> str:
    """Translate one piece to Rust's syntax, where the two differ."""
    if piece.startswith("[") and len(piece) > 1:
        if piece == "[^]":
            return r"(?s:.)"
        head = 2 if piece.startswith("[^") else 1
        translated = piece[:head] + members(piece[head:-1], _rust_member) + "]"
        return f"[{translated}&&[^\\x01]]" if _escapes_leak(piece) else translated
    if piece in (r"\d", r"\w"):
        return piece  # ASCII in llguidance, as in ECMA 262
    if piece == r"\/":
        return "/"
    if piece.startswith("(?<"):
        return "(?P<" + piece[3:]
    if len(piece) == 2 and piece[0] == "\\" and not piece[1].isalnum() and piece[1] not in _META:
        return piece[1]  # Rust knows no escape for a character that needs none
    return piece


_CONTROLS = [chr(code) for code in range(0x20)]


def _escapes_leak(piece: str) -> bool:
    """Say whether llguidance (1.9) would read a class wrongly inside a JSON string.

    A class with all control characters is taken to have the quote and the backslash too. One
    control character less cures it; U+0001 is the one that no text has.
    """
    members = to_python(piece)
    if members is None:
        return False
    return all(map(members.match, _CONTROLS)) and not (members.match('"') and members.match("\\"))


_META = r"\.+*?()|[]{}^$#&-~"


def _rust_member(atom: str) -> str:
    if atom[0] != "\\":
        return "\\" + atom if atom in _IN_CLASS else atom
    if len(atom) == 2 and not atom[1].isalnum() and atom[1] not in _META:
        return atom[1]
    return r"\x08" if atom == r"\b" else atom


def literal(text: str) -> str:
    """Return a pattern that matches `text` and needs no escape that some dialect lacks."""
    return "".join(char if char.isalnum() or char in " _" else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    if char in r"\.+*?()|[]{}^$-/" or not char.isascii():
        return "\\" + char if char in r"\.+*?()|[]{}^$-" else char
    return f"\\x{ord(char):02x}" if ord(char) < 0x20 or ord(char) == 0x7F else char


_Trie = dict[str, "_Trie"]


def none_of(texts: Iterable[str]) -> str:
    """Return an anchored pattern for every text that is not one of `texts` (a finite set)."""
    trie: _Trie = {}
    for text in texts:
        node = trie
        for char in text:
            node = node.setdefault(char, {})
        node[""] = {}
    return f"^{_outside(trie)}$"


def _outside(node: _Trie) -> str:
    chars = sorted(key for key in node if key)
    options = [] if "" in node else [""]
    if chars:
        members = "".join(_in_class(char) for char in chars)
        options.append(rf"[^{members}](?s:.)*")
        options += [literal(char) + _outside(node[char]) for char in chars]
    else:
        options.append(r"(?s:.)+")
    return "(?:" + "|".join(options) + ")"


def _in_class(char: str) -> str:
    if char in r"\]^-[&~":
        return "\\" + char
    return f"\\x{ord(char):02x}" if ord(char) < 0x20 else char
