"""What other dialects of regular expressions write and ours would read as something else, found by name.

`[[:alpha:]]` is a class of six characters and a bracket for Python and ECMA 262, `a*+` is what may be
repeated for the mask's engine, `(?U)` turns its repetitions round. Nobody means that, so it is refused.
"""

from __future__ import annotations

import re

from llama_magic.structured.schema.regex import to_python

_TOKEN = re.compile(
    r"(?P<escape>\\(?:[pPux]\{[^}]{0,80}\}|0[0-7]{0,2}|[0-3][0-7]{2}|.))"
    r"|\[(?P<negated>\^?)(?P<members>\]?(?:\\.|[^\]\\])*+)(?:\]|\\?\Z)"
    r"|(?P<group>\(\?(?:P?[<>=!&'|#(]|<[=!]|[\d+~R]|C\)))"
    r"|\(\?(?P<flags>[a-zA-Z^]*(?:-[a-zA-Z]*)?)(?P<scope>[:)])"
    r"|(?P<repeat>[*+?]|\{\d{1,9}(?:,\d{0,9})?\})"
    r"|.",
    re.DOTALL,
)
# A class ends at the first bracket, so what is seen of [[:alpha:]] is [[:alpha:]; and of [:alpha:] all.
_POSIX = re.compile(r"(?:(?<!\\)\[|\A(?=:))(?P<mark>[:.=])\^?(?P<name>[a-z]{1,12})(?P=mark)\Z")
_ASCII = {
    "alpha": "[A-Za-z]", "digit": "[0-9]", "alnum": "[A-Za-z0-9]", "upper": "[A-Z]", "lower": "[a-z]",
    "space": r"\s", "blank": r"[ \t]", "punct": r"[!-/:-@\[-`{-~]", "xdigit": "[0-9A-Fa-f]", "word": r"\w",
}  # fmt: skip
_SET = re.compile(r"\\.|(?P<set>&&|~~|(?<=[^^])--(?=.))", re.DOTALL)
_OCTAL = re.compile(r"\\(?:0[0-7]*|[0-3][0-7]{2})")
_FLAGS = "imsx"
_GROUPS = {
    "(?>": "an atomic group",
    "(?#": "a comment",
    "(?|": "a branch reset",
    "(?&": "a recursion",
    "(?R": "a recursion",
    "(?'": "a name in quotes",
    "(?P>": "a recursion",
    "(?~": "an absent group",
}


def misread(pattern: str, *, sets: bool = False) -> str:
    r"""Say what a pattern holds that would be read as something else, and where; "" if there is nothing.

    `sets`: what is plain for ECMA 262, too, and not for others: [a-z&&[^b]], [\w--\d], \07.
    """
    repeated = ""  # the quantifier just before
    for token in _TOKEN.finditer(pattern):
        kind, at, repeat = token.lastgroup, token.start(), token["repeat"]
        found = ""
        if repeat is not None:
            found = _repeated(repeated, repeat)
            repeated = "" if found else (f"{repeated}?" if repeated and repeat == "?" else repeat)
        else:
            repeated = ""
        if token["members"] is not None:
            found, behind = _in_class(token["members"], sets)
            at = token.start("members") + behind
        elif sets and token["escape"] and _OCTAL.fullmatch(token["escape"]):
            found = "an octal escape (write \\xHH)"
        elif kind == "group":
            found = _GROUPS.get(token["group"], "")
        elif token["flags"] is not None:
            found = _flagged(token["flags"], token["scope"], at)
        if found:
            return f"{found} at position {at}"
    return ""


def _repeated(before: str, repeat: str) -> str:
    """Say what a quantifier is that stands right after another one."""
    lazy = before.endswith("?") and before != "?"
    if not before or (repeat == "?" and not lazy):
        return ""
    return (
        "a quantifier after a quantifier" if repeat != "+" or lazy else f"a possessive quantifier ({before}+)"
    )


def _in_class(body: str, sets: bool) -> tuple[str, int]:
    """Say what stands in a class that is no class of characters, and how far behind its bracket."""
    if (posix := _POSIX.search(body)) is not None:
        instead = "" if "^" in posix[0] else _ASCII.get(posix["name"], "")
        words = f" (write {instead})" if instead else ""
        return f"a POSIX class [{posix[0].removeprefix('[')}]{words}", posix.start()
    for match in _SET.finditer(body) if sets else ():
        if (sign := match["set"]) is not None:
            return f"an operator on sets {sign} (write \\{sign[0]} for the character)", match.start()
    return "", 0


def _flagged(flags: str, scope: str, at: int) -> str:
    for flag in flags.replace("-", ""):
        if flag not in _FLAGS:
            return f"the flag {flag!r} (there are i, m, s and x)"
    if flags and scope == ")" and at:
        return "flags behind the beginning (write (?i:…) around what they are for)"
    return ""


_PROPERTY = re.compile(r"\\(?:(?P<kind>[pP])(?:\{[^}]{0,80}\}|[A-Za-z])|.)", re.DOTALL)


def readable(pattern: str) -> bool:
    """Say whether Python reads a pattern, but for the classes of Unicode that it lacks."""
    plain = _PROPERTY.sub(lambda m: r"\w" if m["kind"] else m[0], pattern)
    return to_python(plain) is not None
