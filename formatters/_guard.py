"""Keeps text of messages from becoming control tokens, and finds it again in the prompt.

Before a template runs, each guarded string in a message becomes one character of Unicode's private
plane 16, which no template can split, strip or recognise. After it has run the characters become
the strings again, each in a part of its own that is marked literal. The text is exact whatever the
template does; only the attribution of the ordinary text to messages is a search.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection, Iterable
from functools import lru_cache
from typing import Any

from ._types import Message, Part, PartKind, Parts

_PLANE_16 = 0x100000
_PRIVATE = re.compile(f"[{chr(_PLANE_16)}-\U0010ffff]")
_ROLES: dict[str, PartKind] = {
    "system": "system",
    "developer": "system",
    "user": "user",
    "assistant": "assistant",
    "tool": "tool",
}

# What turn marks look like in the templates of released models.
CONTROL_LIKE = re.compile(
    r"<\|[^|<>\s]{1,40}\|?>|<[a-z_]{1,30}\|>|<｜[^｜<>\s]{1,40}｜>|</?[A-Za-z_][\w:]{0,40}>"
    r"|<</?[A-Z]{2,10}>>|\[/?[A-Z_]{3,30}\]|\[e~\[|\]~!?b\[?\]?"
)


def kind_of(role: str) -> PartKind:
    """Return the kind of part that a role writes."""
    return _ROLES.get(role, "tool")


class Guards:
    """A set of strings to be found in texts, leftmost and longest first.

    Vocabularies have up to 6,000 special tokens: a pattern of alternatives would be tried whole at
    each place, so places are found by first character and strings by their first two and length.
    """

    def __init__(self, texts: Collection[str]) -> None:
        # White space is left alone: some vocabularies list runs of it as special.
        self._texts = frozenset(text for text in texts if text.strip())
        sizes: dict[str, set[int]] = {}
        for text in self._texts:
            sizes.setdefault(text[:2], set()).add(len(text))
        self._sizes = {pair: sorted(found, reverse=True) for pair, found in sizes.items()}
        self._alone = frozenset(text for text in self._texts if len(text) == 1)
        first = "".join(sorted({re.escape(text[0]) for text in self._texts}))
        self._first = re.compile(f"[{first}]" if first else "(?!)")

    def find(self, text: str) -> list[tuple[int, int]]:
        """Return the places (start, end) where a string stands; they do not overlap."""
        places, end = [], 0
        for found in self._first.finditer(text):
            at = found.start()
            if at < end:
                continue
            sizes = self._sizes.get(text[at : at + 2], ())
            length = next((n for n in sizes if text[at : at + n] in self._texts), 0)
            length = length or int(text[at] in self._alone)
            if length:
                end = min(at + length, len(text))
                places.append((at, end))
        return places


@lru_cache(maxsize=64)
def _guards(texts: frozenset[str]) -> Guards:
    return Guards(texts)


def guards_of(*texts: Collection[str]) -> Guards:
    """Return the guards for all the strings given."""
    return _guards(frozenset().union(*texts))


def neutralise(text: str, marks: Guards) -> str:
    """Break each mark in `text` by a space after its first character: "[INST]" becomes "[ INST]".

    For marks that are ordinary text to the model, where tokenising them otherwise is not possible.
    A space can be seen, in the prompt and by the model; an invisible character could not.
    """
    while places := marks.find(text):
        cuts = [0, *(start + 1 for start, _ in places), len(text)]
        text = " ".join(text[a:b] for a, b in itertools.pairwise(cuts))
    return text


class Veil:
    """The private characters of one rendering and the strings that they stand for."""

    def __init__(self, guarded: Guards, texts: Iterable[str]) -> None:
        self._guarded = guarded
        used = {char for text in texts if not text.isascii() for char in _PRIVATE.findall(text)}
        self._free = (chr(code) for code in range(_PLANE_16, 0x10FFFE) if chr(code) not in used)
        self._chars: dict[str, str] = {}
        self.hidden: dict[str, str] = {}

    def fresh(self) -> str:
        """Return a private character that stands for nothing else."""
        return next(self._free)

    def message(self, message: Message) -> Message:
        """Return a message with the guarded strings of its texts hidden."""
        hidden: Message = {"role": message["role"], "content": self._hide(message["content"])}
        if len(message) > 2:
            hidden |= self.hide({k: v for k, v in message.items() if k not in hidden})
        return hidden

    def hide(self, value: Any) -> Any:
        """Return `value` with the guarded strings of all its texts hidden; keys of dicts too.

        A text that is one bare word is left: templates compare such ("function", "object").
        """
        if isinstance(value, str):
            return value if value.isidentifier() else self._hide(value)
        if isinstance(value, list):
            return [self.hide(item) for item in value]
        if isinstance(value, dict):
            return {self.hide(key): self.hide(item) for key, item in value.items()}
        return value

    def _hide(self, text: str) -> str:
        out, at = [], 0
        for start, end in self._guarded.find(text):
            out += [text[at:start], self._char(text[start:end])]
            at = end
        return "".join(out) + text[at:] if out else text

    def _char(self, guarded: str) -> str:
        if guarded not in self._chars:
            self._chars[guarded] = self.fresh()
            self.hidden[self._chars[guarded]] = guarded
        return self._chars[guarded]

    def show(self, text: str) -> str:
        """Return `text` with all guarded strings back in place."""
        if not self.hidden:
            return text
        return re.sub(f"[{''.join(self.hidden)}]", lambda found: self.hidden[found.group()], text)

    def parts(self, parts: Iterable[Part]) -> tuple[Part, ...]:
        """Return `parts` with the guarded strings back in place, each a literal part."""
        if not self.hidden:
            return tuple(parts)
        pattern = re.compile(f"([{''.join(self.hidden)}])")
        out = Parts()
        for part in parts:
            for text in pattern.split(part.text):
                literal = text in self.hidden
                out.add(self.hidden.get(text, text), part.kind, part.index, literal)
        return out.done()


def attribute(
    prompt: str,
    messages: list[Message],
    before: dict[str, tuple[str, ...]],
    late: frozenset[str],
    in_parts: bool = False,
) -> tuple[list[Part], list[int]]:
    """Find the messages' texts in `prompt`; return the parts and the indices not found.

    `before` gives for each role what the template writes just before its text, so that a short
    text ("user") is not found in the template's own words. Texts of the roles in `late` do not
    stand in their order and are looked for in what the others left. With `in_parts` the parts of a
    content are looked for one by one.
    """
    wanted = [
        (i, m, text)
        for i, m in enumerate(messages)
        for text in (m.get("_parts") if in_parts else None) or [str(m.get("content") or "")]
        if text.strip()
    ]
    found: list[tuple[int, int, int]] = []
    missing, at = [], 0
    for index, message, content in (
        sorted(wanted, key=lambda item: item[1]["role"] in late) if late else wanted
    ):
        leads = before.get(message["role"], ())
        if message["role"] in late:
            start, length = _find_between(prompt, content, sorted(found), leads)
        else:
            start, length = _find(prompt, content, at, leads)
            at = start + length if start >= 0 else at
        if start < 0:
            missing.append(index)
        else:
            found.append((start, start + length, index))
    return _parts_at(prompt, messages, sorted(found)), missing


def _parts_at(prompt: str, messages: list[Message], found: list[tuple[int, int, int]]) -> list[Part]:
    """Cut a prompt at the places (start, end, index of the message) where messages stand."""
    out, at = Parts(), 0
    for start, end, index in found:
        out.add(prompt[at:start], "template")
        out.add(prompt[start:end], kind_of(messages[index]["role"]), index)
        at = end
    out.add(prompt[at:], "template")
    return list(out.done())


def _find_between(
    prompt: str, content: str, taken: list[tuple[int, int, int]], leads: tuple[str, ...]
) -> tuple[int, int]:
    at = 0
    for start, end, _ in [*taken, (len(prompt), len(prompt), -1)]:
        place, length = _find(prompt[:start], content, at, leads)
        if place >= 0:
            return place, length
        at = end
    return -1, 0


def _find(prompt: str, content: str, at: int, before: tuple[str, ...]) -> tuple[int, int]:
    bare = content.strip()
    texts = (content,) if bare == content else (content, bare)
    for text in texts:
        place, end = -1, len(prompt)
        for lead in before:
            start = prompt.find(lead + text, max(0, at - len(lead)), end)
            if start >= 0:  # of the others only one that stands before it counts
                place, end = start + len(lead), start + len(lead) + len(text) - 1
        if place >= 0:
            return place, len(text)
    for text in texts:
        start = prompt.find(text, at)
        if start >= 0:
            return start, len(text)
    return -1, 0
