"""Prompts of a conversation that goes on: only what is new in it is rendered.

Turn 200 of a chat has the prompt of turn 199, and some more. Where a family, or a template, is known to
write each message whatever follows it (`Formatter.additive`), a short conversation is rendered in place of
the long one: its first messages, the last answer that was rendered before, and what is new. What stands
before that answer's end is as it was. Each text must be found where it belongs, whole, with the same words
of the template between any two; else, and for whatever is not a plain exchange of texts, all is rendered.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Any, NamedTuple

from llama_magic.errors import LlamaMagicError

from ._formatter import Formatter
from ._messages import normalise_messages
from ._types import Message, Part, Rendered

KEPT = 8  # chats of a model that may go on in turns
_TURNS = ("user", "assistant")
_ROLE, _CONTENT = itemgetter("role"), itemgetter("content")


class Said(NamedTuple):
    """A conversation and its prompt; the first `known` messages are those of a prompt before it."""

    rendered: Rendered
    messages: list[Message]
    known: int = 0


class _Way(NamedTuple):
    """How messages are written, and what the template writes after a user's text and after an answer."""

    formatter: Formatter
    guarded: Collection[str]
    between: tuple[str, ...]


@dataclass(frozen=True)
class _Begun:
    """The beginning of a conversation, up to an answer, and its prompt to the end of that answer's text."""

    way: _Way
    messages: list[Message]
    roles: list[str]
    contents: list[str]  # both are of the messages
    parts: tuple[Part, ...]
    text: str

    def opens(self, messages: list[Any]) -> bool:
        """Say whether a conversation begins with the very same messages and has more."""
        some = messages[: len(self.messages)]
        if len(messages) == len(some) or not {dict}.issuperset(map(type, some)) or {*map(len, some)} != {2}:
            return False
        try:
            roles, contents = list(map(_ROLE, some)), list(map(_CONTENT, some))
        except KeyError:
            return False
        # Types are looked at last: what says that it is equal, and is no plain text, is not the same.
        return (
            roles == self.roles
            and contents == self.contents
            and {str}.issuperset(map(type, roles))
            and {str}.issuperset(map(type, contents))
        )


class Onward:
    """The last conversations that were rendered for a model. Any thread asks."""

    def __init__(self) -> None:
        self.kept: tuple[_Begun, ...] = ()
        self._way: _Way | None = None

    def render(
        self,
        formatter: Formatter,
        messages: Sequence[Any],
        guarded: Collection[str],
        *,
        tools: Sequence[Any] | None = None,
        continue_final: bool = False,
        variables: Mapping[str, Any] | None = None,
    ) -> Said:
        """Return what `formatter.render` gives, and the messages as they are after `normalise_messages`."""
        asked = bool(variables) or tools is not None or continue_final
        alone = not asked and formatter.additive and type(messages) in (list, tuple)
        given = list(messages) if alone else []
        for begun in self.kept if alone else ():
            if begun.way.formatter is formatter and begun.way.guarded == guarded and begun.opens(given):
                said = _going_on(begun, given)
                if said is not None:
                    self._keep(begun.way, said, begun)
                    return said
        plain = normalise_messages(messages)
        rendered = formatter.render(
            messages,
            add_generation_prompt=not continue_final,
            tools=tools,
            guarded=guarded,
            continue_final=continue_final,
            **(variables or {}),
        )
        if _is_plain(given):
            self._keep(self._way_of(formatter, guarded), Said(rendered, plain))
        return Said(rendered, plain)

    def _way_of(self, formatter: Formatter, guarded: Collection[str]) -> _Way:
        way = self._way
        if way is None or way.formatter is not formatter or way.guarded != guarded:
            way = self._way = _Way(formatter, guarded, _between(formatter, guarded))
        return way

    def _keep(self, way: _Way, said: Said, before: _Begun | None = None) -> None:
        """Remember a conversation without its last message, in place of the one that it goes on from."""
        begun = _begun(way, said, before)
        if begun is not None:
            self.kept = (begun, *(one for one in self.kept if one is not before))[:KEPT]


def _going_on(begun: _Begun, given: list[Any]) -> Said | None:
    """Return a conversation that goes on from another; None where all of it must be rendered."""
    known = len(begun.messages)
    new = given[known:]
    if not _is_exchange(new):
        return None
    first = _first(begun.messages) + 1
    last = begun.messages[-1]
    short = [*begun.messages[:first], last, *new]
    try:
        done = begun.way.formatter.render(short, guarded=begun.way.guarded)
    except LlamaMagicError:  # which counts messages: those of the whole conversation are to be named
        return None
    ends = _ends(done, short, begun.way)
    if ends is None or done.parts[: ends[first - 1]] != begun.parts[: ends[first - 1]]:
        return None
    shift = known - 1 - first
    rest = [
        part if part.index is None else part._replace(index=part.index + shift)
        for part in done.parts[ends[first] :]
    ]
    said = [*map(dict.copy, begun.messages), *normalise_messages(new)]
    text = begun.text + "".join([part.text for part in rest])
    return Said(Rendered(text, (*begun.parts, *rest), done.notes, tuple(said)), said, known)


def _begun(way: _Way, said: Said, before: _Begun | None) -> _Begun | None:
    """Return the conversation up to the last answer, if its prompt is as regular as it must be."""
    rendered, messages, known = said
    if before is None and (len(messages) < _first(messages) + 3 or _ends(rendered, messages, way) is None):
        return None  # what is new in one that goes on was looked at
    end = len(rendered.parts)
    while rendered.parts[end - 1].index != len(messages) - 2:
        end -= 1
    after = sum([len(part.text) for part in rendered.parts[end:]])
    new = messages[known:-1]
    kept, roles, contents = (
        ([], [], []) if before is None else (before.messages, before.roles, before.contents)
    )
    return _Begun(
        way,
        [*kept, *map(dict.copy, new)],
        [*roles, *map(_ROLE, new)],
        [*contents, *map(_CONTENT, new)],
        rendered.parts[:end],
        rendered.text[: len(rendered.text) - after],
    )


def _ends(rendered: Rendered, messages: list[Any], way: _Way) -> list[int] | None:
    """Return after how many parts each text ends; None where one does not stand where it should.

    Texts must be whole, in their order, and the same words of the template must stand between any two.
    """
    if rendered.notes != way.formatter.notes or len(rendered.messages) != len(messages) or not way.between:
        return None
    ends: list[int] = []
    parts, at = rendered.parts, 0
    for index, message in enumerate(messages):
        glue = parts[at].text if at < len(parts) and parts[at].kind == "template" else ""
        turn = index - _first(messages)
        if turn > 0 and glue != way.between[1 - turn % 2]:
            return None
        at += bool(glue)
        begin = at
        while at < len(parts) and parts[at].index == index:
            at += 1
        if "".join([part.text for part in parts[begin:at]]) != message["content"]:
            return None
        ends.append(at)
    return ends if [part.kind for part in parts[at:]] in ([], ["template"]) else None


def _between(formatter: Formatter, guarded: Collection[str]) -> tuple[str, ...]:
    """Return what is written after a user's text and after an answer; nothing where that is not regular."""
    messages = [{"role": role, "content": "qzword"} for role in ("user", "assistant", "user")]
    try:
        parts = formatter.render(messages, guarded=guarded).parts
    except LlamaMagicError:
        return ()
    texts = [part for part in parts if part.kind != "template"]
    whole = len(texts) == 3 and all(part.text == "qzword" and not part.literal for part in texts)
    after = [
        b.text for a, b, c in zip(parts, parts[1:], parts[2:], strict=False) if a in texts and c in texts
    ]
    return tuple(after) if whole and len(after) == 2 else ()


def _first(messages: list[Message]) -> int:
    """Return the number of the first turn."""
    return 1 if messages[0]["role"] == "system" else 0


def _is_plain(messages: list[Any]) -> bool:
    """Say whether a conversation is texts of users and answers in turns, a system's before them or not."""
    if not messages or type(messages[0]) is not dict:
        return False
    head = int(messages[0].get("role") == "system")
    plain = not head or (len(messages[0]) == 2 and type(messages[0].get("content")) is str)
    return plain and _is_exchange(messages[head:]) and all(type(m["content"]) is str for m in messages[:-1])


def _is_exchange(messages: list[Any]) -> bool:
    """Say whether messages are texts of a user and answers in turns, a user's the first and the last."""
    return len(messages) % 2 == 1 and all(
        type(message) is dict
        and len(message) == 2
        and message.get("role") == _TURNS[place % 2]
        and type(message["role"]) is str
        and isinstance(text := message.get("content"), str)
        and bool(text.strip())
        for place, message in enumerate(messages)
    )
