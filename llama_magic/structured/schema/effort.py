"""How much work a schema makes for one value, counted before any of it is done.

References let a small schema stand for a huge one: ten levels of ten references are 10^10 parts.
What a value is held against at one place is counted here, each definition once, and refused above
a limit that real schemas do not come near (the most in JSONSchemaBench's sample is 33).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any, NamedTuple

from llama_magic.errors import SchemaError
from llama_magic.structured.schema.tree import Path, pointer

MAX_PARTS = 50_000  # schemas that one value is held against
MAX_CHAIN = 400  # references and combinations that lead to one another
MAX_MULTIPLE = 10_000  # states that the automaton of `multipleOf` may have

Children = Callable[[Path, Any], Iterator[tuple[Path, Any]]]


class _Work(NamedTuple):
    parts: int
    step: Fraction  # what all `multipleOf` together come to; 1 stands for none


_NONE = Fraction(1)
_ONE = _Work(1, _NONE)


def takes_step(value: Any) -> bool:
    """Say whether the mask's automaton takes a `multipleOf`: it has as many states as the digits say."""
    return bool(1e-6 <= value <= MAX_MULTIPLE) and _states(_step(value)) <= MAX_MULTIPLE


def _states(step: Fraction) -> int:
    digits = 0
    while step.denominator != 1 and digits < 20:
        step, digits = step * 10, digits + 1
    return step.numerator


def _step(value: Any) -> Fraction:
    return Fraction(repr(value))  # the decimal that it is written as


def _common(left: Fraction, right: Fraction) -> Fraction:
    """Return the least number that both go into."""
    return Fraction(math.lcm(left.numerator, right.numerator), math.gcd(left.denominator, right.denominator))


class Effort:
    """Counts the work of schemas; `wide_multiple` says whether their `multipleOf` grow too large together.

    `in_place` gives, for a path and the schema there, the schemas that hold for the same value, with
    their paths. Raises `SchemaError` for circles and for what is over a limit.
    """

    def __init__(self, in_place: Children) -> None:
        self._in_place = in_place
        self._known: dict[int, _Work | None] = {}  # None: its work is being counted
        self.wide_multiple = False

    def count(self, path: Path, node: Any, depth: int = 0) -> _Work:
        """Return the work that `node` at `path` makes for one value."""
        if not isinstance(node, dict):
            return _ONE
        known = self._known.get(id(node), _ONE)
        if known is None or depth > MAX_CHAIN:
            raise self._chain(path, circle=known is None)
        if id(node) in self._known:
            return known
        self._known[id(node)] = None
        parts, step = 1, _NONE
        value = node.get("multipleOf")
        if isinstance(value, (int, float)) and not isinstance(value, bool) and takes_step(value):
            step = _step(value)
        for where, sub in self._in_place(path, node):
            work = self.count(where, sub, depth + 1)
            parts += work.parts
            if work.step != _NONE and _states(step) <= MAX_MULTIPLE:
                step = work.step if step == _NONE else _common(step, work.step)
        if parts > MAX_PARTS:
            raise self._too_many(path)
        self.wide_multiple |= _states(step) > MAX_MULTIPLE
        self._known[id(node)] = _Work(parts, step)
        return _Work(parts, step)

    def _chain(self, path: Path, *, circle: bool) -> SchemaError:
        where = pointer(path)
        if circle:
            return SchemaError(
                f"The schema at {where or 'the root'} is defined by itself: its references go round in a "
                "circle with no object or array between.",
                pointer=where,
                keyword="$ref",
                remedy="Let one definition of the circle say what the value looks like.",
            )
        return SchemaError(
            f"References and combinations lead to one another more than {MAX_CHAIN} deep, "
            f"to {where or 'the root'}.",
            pointer=where,
            remedy="Say the same with fewer definitions between.",
        )

    def _too_many(self, path: Path) -> SchemaError:
        where = pointer(path)
        return SchemaError(
            f"The schema at {where or 'the root'} comes to more than {MAX_PARTS:,} parts for one value when "
            "its references are followed.",
            pointer=where,
            keyword="$ref",
            remedy="Refer to each definition once, or ask for a part of it at a time.",
        )
