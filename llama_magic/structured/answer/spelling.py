"""Whether the masks take a JSON value, however its text is spelled and its keys are ordered.

An object is a set of members: `{"b":1,"a":2}` is the same value as `{"a":2,"b":1}`, 1.0 the same
as 1, and "\\u00e9" the same as "é". A mask writes one of the spellings; an answer may come in any.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

_MAX_TRIES = 20_000  # keys and values that are held against the grammar for one text: about 0.2 s


@dataclass
class Number:
    """A JSON number as it is written."""

    text: str


class Members(list[tuple[str, Any]]):
    """The members of an object, in the order of the text."""


def names_in_order(schema: Any) -> dict[str, int]:
    """Return the place of each property name: how early the schema declares it."""
    ranks: dict[str, int] = {}
    stack = [schema]
    while stack:
        node = stack.pop()
        if isinstance(node, dict):
            properties = node.get("properties")
            for name in properties if isinstance(properties, dict) else ():
                ranks.setdefault(name, len(ranks))
            stack += reversed(node.values())
        elif isinstance(node, list):
            stack += reversed(node)
    return ranks


class Speller:
    """Looks for a spelling of a JSON value that a grammar takes.

    `machine` is llguidance's state over bytes before the first of them, `ranks` the order in which
    keys are tried first. The answer False may also mean that the work of the search was spent.
    """

    def __init__(self, machine: Any, ranks: dict[str, int]) -> None:
        self._machine = machine
        self._ranks = ranks
        self._left = _MAX_TRIES

    def takes(self, text: str) -> bool:
        """Say whether the value of a strict JSON text can be written in some spelling."""
        value = json.loads(text, object_pairs_hook=Members, parse_int=Number, parse_float=Number)
        end = self._after(self._machine.deep_copy(), value)
        return end is not None and bool(end.is_accepting())

    def _after(self, machine: Any, value: Any) -> Any:
        """Return the state after a value, None if no spelling of it goes."""
        if isinstance(value, Members):
            start = self._step(machine, "{")
            return None if start is None else self._members(start, value)
        if isinstance(value, list):
            state = self._step(machine, "[")
            for index, item in enumerate(value):
                state = self._step(state, ",") if index and state is not None else state
                state = None if state is None else self._after(state, item)
            return None if state is None else self._step(state, "]")
        steps = (self._step(machine, spelling) for spelling in _spellings(value))
        whole = _may_end if isinstance(value, Number) else bool
        return next((state for state in steps if state is not None and whole(state)), None)

    def _members(self, start: Any, members: Members) -> Any:
        """Return the state after an object: in the declared order, else in the order that the grammar has."""
        ranks = self._ranks
        order = sorted(range(len(members)), key=lambda at: ranks.get(members[at][0], len(ranks)))
        for way in (self._in_turn, self._in_the_order_of_the_grammar, self._in_some_order):
            if (end := way(start, members, order)) is not None or self._left < 0:
                return end
        return None

    def _in_turn(self, start: Any, members: Members, order: list[int]) -> Any:
        state = start
        for number, at in enumerate(order):
            state = self._member(state, members[at], first=not number)
            if state is None:
                return None
        return self._step(state, "}")

    def _in_the_order_of_the_grammar(self, start: Any, members: Members, order: list[int]) -> Any:
        """Sort what may come next by what may still come after it; again behind keys that must be there."""
        state, left = start, list(order)
        while left:
            known = len(left)
            first = known == len(order)
            after = {at: self._member(state, members[at], first=first) for at in left}
            group = [at for at in left if after[at] is not None]
            if not group or self._left < 0:
                return None

            def sooner(a: int, b: int, after: dict[int, Any] = after) -> int:
                if self._key(after[a], members[b][0], first=False) is not None:
                    return -1
                return int(self._key(after[b], members[a][0], first=False) is not None)

            for at in sorted(group, key=functools.cmp_to_key(sooner)):
                going = self._member(state, members[at], first=len(left) == len(order))
                if going is None:
                    break  # something must come before it
                state = going
                left.remove(at)
            if len(left) == known:
                return None
        return self._step(state, "}")

    def _in_some_order(self, start: Any, members: Members, order: list[int]) -> Any:
        """Step back where a key was taken too early."""
        hopeless: set[frozenset[int]] = set()
        stack: list[tuple[Any, frozenset[int], Iterator[int]]] = [(start, frozenset(order), iter(order))]
        while stack:
            state, left, untried = stack[-1]
            if not left and (end := self._step(state, "}")) is not None:
                return end
            at = next((at for at in untried if at in left), None)
            if at is None or self._left < 0:
                hopeless.add(left)
                stack.pop()
                continue
            rest = left - {at}
            if rest not in hopeless:
                after = self._member(state, members[at], first=len(left) == len(order))
                if after is not None:
                    stack.append((after, rest, iter(order)))
        return None

    def _member(self, state: Any, member: tuple[str, Any], *, first: bool) -> Any:
        name, value = member
        after = self._key(state, name, first=first)
        return None if after is None else self._after(after, value)

    def _key(self, state: Any, name: str, *, first: bool) -> Any:
        steps = (self._step(state, f"{'' if first else ','}{spelling}:") for spelling in _spellings(name))
        return next((after for after in steps if after is not None), None)

    def _step(self, machine: Any, text: str) -> Any:
        self._left -= 1
        data = list(text.encode())
        if self._left < 0 or machine.validate_tokens(data) != len(data):
            return None
        after = machine.deep_copy()
        return after if after.consume_tokens(data) else None


def _may_end(state: Any) -> bool:
    """Say whether a number is whole here: 7e+02 could else be the beginning of 7e+020."""
    return bool(state.is_accepting() or any(state.validate_tokens([byte]) for byte in b",]}"))


def _spellings(value: Any) -> list[str]:
    if isinstance(value, Number):
        return _numbers(value.text)
    if isinstance(value, str):
        plain = json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
        return list(dict.fromkeys((plain, json.dumps(value))))
    return [json.dumps(value)]


def _numbers(text: str) -> list[str]:
    """A number as it is written, then as a whole number, with zeros behind a point, without exponent."""
    spellings = [text]
    whole: int | None = None
    if text.lstrip("-").isdigit():
        whole = int(text) if len(text) < 400 else None
        spellings += [f"{text}.0"]
    elif (number := float(text)).is_integer():
        whole = int(number)
        spellings += [str(whole), f"{whole}.0", repr(number)]
    else:
        spellings += [repr(number), f"{Decimal(repr(number)):f}"]
    return spellings if whole or whole is None else [*spellings, "0", "0.0", "-0"]
