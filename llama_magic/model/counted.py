"""The tokens of a rendered conversation, and how many of them each of its parts has.

The prompt of a chat is that of the turn before, and some more. So what stands before the last message is
kept, up to a place where the tokens on both sides do not depend on each other, and the next prompt that
begins so goes on from there: only what is new in it is tokenized and counted.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import itemgetter
from typing import NamedTuple

from llama_magic.formatters import Onward, Part, Rendered
from llama_magic.model.results import BudgetPart
from llama_magic.request.filled import Filled, Span, spans_in
from llama_magic.request.tokenizer import Tokenizer, TooManyTokensError, followed, going_on

KEPT = 8  # chats of a model that may go on in turns
_BACK = 8  # parts before the last message in which a place to go on from is looked for


class Labelled(NamedTuple):
    """A text of the prompt, what it is counted under, and the message it is of: None for the template."""

    label: str
    kind: str
    text: str
    owner: int | None = None


class Cut(NamedTuple):
    """A place in a prompt: so many whole parts stand before it, and so many characters of the next."""

    part: int = 0
    offset: int = 0


@dataclass(frozen=True)
class Start:
    """The beginning of a prompt, up to a place where tokens do not depend on each other, and its counts.

    `parts` are whole, `lead` is what of the next one belongs to it. `roles` are of the messages that stand in
    it, `filled` the texts with variables that do. `weights` are tokens by message, `told` are `ids` in JSON.
    """

    parts: tuple[Part, ...] = ()
    lead: str = ""
    roles: tuple[str, ...] = ()
    filled: tuple[tuple[str, tuple[Span, ...]], ...] = ()
    ids: list[int] = field(default_factory=list)
    told: str = ""
    totals: Mapping[tuple[str, str], BudgetPart] = field(default_factory=dict)
    weights: Mapping[int | None, int] = field(default_factory=dict)

    @property
    def place(self) -> Cut:
        return Cut(len(self.parts), len(self.lead))

    @property
    def filling(self) -> tuple[BudgetPart, ...]:
        """What it is filled by."""
        return tuple([part for part in self.totals.values() if part.tokens])

    def begins(self, tokenizer: Tokenizer, rendered: Rendered, roles: tuple[str, ...]) -> bool:
        """Say whether a prompt begins so, whatever its variables."""
        at = len(self.parts)
        if len(rendered.parts) <= at or rendered.parts[:at] != self.parts:
            return False
        if roles[: len(self.roles)] != self.roles or not rendered.parts[at].text.startswith(self.lead):
            return False
        return _apart(tokenizer, rendered.parts[at]) == len(self.lead)

    def going_on(self, stretches: Sequence[Labelled], counts: Sequence[int], ids: Sequence[int]) -> Start:
        """Return the counts with those of the stretches that follow, whose tokens `ids` begins with."""
        sums: dict[tuple[str, str], int] = {}
        weights = dict(self.weights)
        for (label, kind, _, owner), count in zip(stretches, counts, strict=True):
            sums[label, kind] = sums.get((label, kind), 0) + count
            weights[owner] = weights.get(owner, 0) + count
        totals = dict(self.totals)
        for (label, kind), count in sums.items():
            before = totals.get((label, kind))
            totals[label, kind] = BudgetPart(label, kind, count + (before.tokens if before else 0))
        more = ids[: sum(counts)]
        told = json.dumps(more)[1:-1]
        told = f"{self.told}, {told}" if self.told and told else self.told or told
        return Start(ids=[*self.ids, *more], told=told, totals=totals, weights=weights)

    def at(self, place: Cut, rendered: Rendered, roles: tuple[str, ...], filled: Sequence[Filled]) -> Start:
        """Return these counts as those of what stands before a place in a prompt."""
        lead = rendered.parts[place.part].text[: place.offset]
        within = _within(filled, rendered, place)
        return replace(self, parts=rendered.parts[: place.part], lead=lead, roles=roles, filled=within)


class Starts:
    """The beginnings of the last prompts of a model. Any thread asks."""

    def __init__(self) -> None:
        self.kept: tuple[Start, ...] = ()
        self.onward = Onward()

    def find(
        self, tokenizer: Tokenizer, rendered: Rendered, roles: tuple[str, ...], filled: Sequence[Filled]
    ) -> Start:
        """Return the beginning that a prompt has in common with one of them; an empty one if with none."""
        for start in self.kept:
            if not start.begins(tokenizer, rendered, roles):
                continue
            if start.filled == _within(filled, rendered, start.place):
                return start
        return Start()

    def keep(self, start: Start, before: Start) -> None:
        """Remember a beginning, in place of the one that it goes on from."""
        self.kept = (start, *(one for one in self.kept if one is not before))[:KEPT]


@dataclass(frozen=True)
class Counted:
    """The tokens of a prompt; `begun` of them, the last, the answer is to hold."""

    ids: list[int]
    told: str  # in JSON
    begun: int
    begun_text: str
    parts: tuple[BudgetPart, ...]  # one a label, in order of first appearance
    roles: tuple[str, ...]
    weights: Mapping[int | None, int]  # tokens by message


def count(
    tokenizer: Tokenizer,
    rendered: Rendered,
    filled: Sequence[Filled],
    starts: Starts,
    *,
    begins: bool = False,
    most: int | None = None,
) -> Counted:
    """Tokenise a rendering and count its parts; `begins` says that its last message begins the answer.

    Of a long text raises TooManyTokensError as soon as it is certain that there are more than `most`.
    """
    roles: tuple[str, ...] = tuple(map(itemgetter("role"), rendered.messages))
    start = starts.find(tokenizer, rendered, roles, filled)
    place = _place(tokenizer, rendered, start)
    middle = _stretches(_between(rendered.parts, start.place, place), roles, filled)
    end = _stretches(_between(rendered.parts, place), roles, filled)
    begun = _begun_parts(rendered) if begins else 0
    ids, n_begun = _encoded(tokenizer, rendered, start, begun, most)
    texts = [stretch.text for stretch in (*middle, *end)]
    counts, sure = followed(tokenizer, ids, texts)
    if start.ids and not sure:  # tokens that are not the text are counted from its beginning
        return count(tokenizer, rendered, filled, Starts(), begins=begins, most=most)
    before = start.going_on(middle, counts[: len(middle)], ids)
    whole = before.going_on(end, counts[len(middle) :], ids[len(before.ids) - len(start.ids) :])
    if sure and len(before.ids) > 1:  # a BOS alone is dropped before one of the template's
        starts.keep(before.at(place, rendered, roles[: _told(rendered, start, place)], filled), start)
    begun_text = "".join([part.text for part in rendered.parts[len(rendered.parts) - begun :]])
    return Counted(
        whole.ids,
        f"[{whole.told}]",
        n_begun,
        begun_text,
        whole.filling,
        roles,
        whole.weights,
    )


def _told(rendered: Rendered, start: Start, place: Cut) -> int:
    """Return how many of the messages stand before a place, those between that wrote nothing among them."""
    new = rendered.parts[start.place.part : place.part]
    return max([len(start.roles), *(part.index + 1 for part in new if part.index is not None)])


def _place(tokenizer: Tokenizer, rendered: Rendered, start: Start) -> Cut:
    """Return the last place before the text of the last message where a prompt may go on from this one."""
    parts = rendered.parts
    at = next((at for at in reversed(range(len(parts))) if parts[at].index is not None), 0)
    while at > 0 and parts[at - 1].index == parts[at].index:
        at -= 1
    for before in range(at - 1, max(start.place.part, at - _BACK) - 1, -1):
        offset = _apart(tokenizer, parts[before])
        if offset is not None:
            return Cut(before, offset)
    return start.place


def _apart(tokenizer: Tokenizer, part: Part) -> int | None:
    """Return where in a part of the template's both sides are tokenised by themselves, None if nowhere."""
    return None if part.kind != "template" or part.literal else tokenizer.apart(part.text)


def _between(parts: Sequence[Part], start: Cut, end: Cut | None = None) -> list[Part]:
    """Return the parts from one place to another, those that it lies within cut."""
    some = list(parts[start.part : None if end is None else end.part + 1])
    if end is not None and len(some) > end.part - start.part:
        some[-1] = some[-1]._replace(text=some[-1].text[: end.offset])
    if some and start.offset:
        some[0] = some[0]._replace(text=some[0].text[start.offset :])
    return [part for part in some if part.text]


def _begun_parts(rendered: Rendered) -> int:
    """Return how many of the last parts are the text of the last message."""
    last = len(rendered.messages) - 1
    return sum(1 for _ in itertools.takewhile(lambda part: part.index == last, reversed(rendered.parts)))


def _encoded(
    tokenizer: Tokenizer, rendered: Rendered, start: Start, begun: int, most: int | None
) -> tuple[list[int], int]:
    """Return the tokens after the start, and how many of them are those of the last `begun` parts.

    Where a token would reach across, the answer begins with one of its own.
    """
    parts = [(part.text, part.literal) for part in _between(rendered.parts, start.place)]
    known = len(start.ids)

    try:
        ids = tokenizer.encode_parts(parts, None if most is None else most - known, begins=not known)
    except TooManyTokensError as error:
        raise TooManyTokensError(known + error.least) from None
    if not begun:
        return ids, 0
    head = tokenizer.encode_parts(parts[:-begun], most, begins=not known)
    if ids[: len(head)] == head:
        return ids, len(ids) - len(head)
    tail = going_on(tokenizer.tokenize, "".join(text for text, _ in parts[-begun:]))
    return [*head, *tail], len(tail)


def _ordinals(roles: Sequence[str], wanted: Sequence[int]) -> dict[int, int]:
    """Return of some messages the how manieth of its role each is, from 1."""
    first = min(wanted, default=0)
    seen = Counter(roles[:first])
    numbers = {}
    for index in range(first, max(wanted, default=-1) + 1):
        seen[roles[index]] += 1
        numbers[index] = seen[roles[index]]
    return numbers


def _within(
    filled: Sequence[Filled], rendered: Rendered, place: Cut
) -> tuple[tuple[str, tuple[Span, ...]], ...]:
    """Return those of the texts with variables that stand before a place."""
    if not filled:
        return ()
    after = sum([len(part.text) for part in rendered.parts[place.part :]])
    text = rendered.text[: len(rendered.text) - after + place.offset]
    return tuple((str(one), one.spans) for one in filled if (core := one.strip()) and core in text)


def _stretches(parts: Sequence[Part], roles: Sequence[str], filled: Sequence[Filled]) -> list[Labelled]:
    """Return parts in order as what they are counted under: what the template wrote, turns, variables."""
    stretches: list[Labelled] = []
    ordinals = _ordinals(roles, [part.index for part in parts if part.index is not None])
    for part in parts:
        if part.kind == "template":
            stretches.append(Labelled("template", "template", part.text))
            continue
        number = "" if part.index is None else ordinals[part.index]
        label = "system" if part.kind == "system" else f"{part.kind} {number}"
        if filled:
            stretches += split(Labelled(label, part.kind, part.text, part.index), spans_in(part.text, filled))
        else:
            stretches.append(Labelled(label, part.kind, part.text, part.index))
    return stretches


def split(stretch: Labelled, spans: Sequence[Span]) -> list[Labelled]:
    """Cut a stretch at its variables."""
    text = stretch.text
    out: list[Labelled] = []
    cursor = 0
    for name, start, end in sorted(spans, key=lambda span: span[1]):
        if start < cursor or end > len(text):
            continue
        if start > cursor:
            out.append(stretch._replace(text=text[cursor:start]))
        shown = name if name.startswith("{{") else f"{{{{ {name} }}}}"
        out.append(Labelled(shown, "variable", text[start:end], stretch.owner))
        cursor = end
    if cursor < len(text) or not out:
        out.append(stretch._replace(text=text[cursor:]))
    return out
