"""Numbers between bounds: what is taken in which spelling, and what a model is let write."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import Field
from structured_support import Vocabulary, eager, random_text, smollm2

from llama_magic import structured
from llama_magic.structured.answer.spelling import Speller
from llama_magic.structured.schema.decimal_spans import End, taken, written


def _value(chance: random.Random) -> Decimal:
    """A bound as people write them, or a double of any size."""
    kind = chance.random()
    if kind < 0.1:
        return Decimal(0)
    if kind < 0.5:
        value = Decimal(chance.randint(1, 10 ** chance.randint(1, 6))).scaleb(-chance.randint(0, 7))
    elif kind < 0.8:
        value = Decimal(repr(chance.random() * 10 ** chance.randint(-12, 12)))
    else:
        value = Decimal(repr(float(f"{chance.randint(1, 99)}e{chance.randint(-320, 305)}")))
    return value if chance.random() < 0.6 else -value


def _spellings(value: Decimal) -> Iterator[str]:
    """With and without an exponent, with zeros behind and without."""
    plain = f"{value:f}"
    yield from (plain, plain + ("00" if "." in plain else ".000"))
    if value:
        first, *rest = value.as_tuple().digits
        figure = f"{'-' * value.is_signed()}{first}" + (f".{''.join(map(str, rest))}" if rest else "")
        power = value.adjusted()
        yield from (
            f"{figure}e{power}",
            f"{figure}E{power:+04d}",
            f"{figure}{'0' if rest else '.0'}e{power:+d}",
        )


def _inside(value: Decimal, low: End | None, high: End | None) -> bool:
    above = low is None or (value > low.value if low.out else value >= low.value)
    return above and (high is None or (value < high.value if high.out else value <= high.value))


def test_patterns_of_number_spans_are_exact() -> None:
    """What lies between two ends, each in, out or none, is taken in every spelling, and nothing else is."""
    chance = random.Random(7)
    for _ in range(250):
        first, last = sorted([_value(chance), _value(chance)])
        if chance.random() < 0.2:
            last = first + abs(first) * Decimal(10) ** -chance.randint(1, 9)
        ends = [
            End(value, chance.random() < 0.5) if chance.random() < 0.8 else None for value in (first, last)
        ]
        takes, writes = (re.compile(pattern(*ends) or "(?!)") for pattern in (taken, written))
        near = [
            end + abs(end) * Decimal(10) ** -k * sign
            for end in (first, last)
            for k in (1, 12)
            for sign in (1, -1)
        ]
        for value in (first, last, *near, (first + last) / 2, first * 10, last / 10, _value(chance)):
            for text in _spellings(value) if -323 <= value.adjusted() <= 307 else ():
                assert bool(takes.fullmatch(text)) == _inside(value, *ends), (ends, text)
                assert not writes.fullmatch(text) or _inside(value, *ends), (ends, text)
        assert first == last or takes.pattern == "(?!)" or writes.pattern != "(?!)"


def _bounds(chance: random.Random) -> dict[str, float]:
    low, high = sorted(float(_value(chance)) for _ in range(2))
    found = {
        chance.choice(["minimum", "exclusiveMinimum"]): low,
        chance.choice(["maximum", "exclusiveMaximum"]): high,
    }
    return found if low < high else {"minimum": low}


def _holds(bounds: dict[str, float], value: float) -> bool:
    tests: dict[str, Callable[[float], bool]] = {
        "minimum": lambda bound: value >= bound,
        "maximum": lambda bound: value <= bound,
        "exclusiveMinimum": lambda bound: value > bound,
        "exclusiveMaximum": lambda bound: value < bound,
    }
    return all(tests[name](bound) for name, bound in bounds.items())


def test_every_double_inside_is_taken_as_programs_write_it() -> None:
    """Doubles spelled by repr and by formats of C are taken where Python finds them inside, else refused."""
    chance = random.Random(8)
    for _ in range(25):
        bounds = _bounds(chance)
        constraint = structured.compile({"type": "number", **bounds})
        low, high = min(bounds.values()), max(bounds.values())
        inside = (chance.uniform(low / 2, high / 2) * 2 for _ in range(5))
        for value in (0.0, -0.0, low, high, *inside, float(_value(chance))):
            assert constraint.mask_accepts(repr(value)) == _holds(bounds, value), (bounds, value)
            for text in (repr(value), f"{value:.17g}", f"{value:e}", f"{value:.20e}", f"{value:.15f}"):
                assert constraint.accepts(text) == _holds(bounds, float(text)), (bounds, text)


def _zeros(vocabulary: Vocabulary, token: int) -> bool:
    data = vocabulary.token_bytes(token)
    return bool(data) and not data.strip(b"-0.")


def _nines(vocabulary: Vocabulary, token: int) -> bool:
    data = vocabulary.token_bytes(token)
    return bool(data) and not data.strip(b"9.")


RANGES: list[dict[str, float]] = [
    {"maximum": 0}, {"minimum": 0}, {"minimum": -0.5, "maximum": 0.5}, {"minimum": 0, "maximum": 1},
    {"minimum": -1, "maximum": 0}, {"maximum": -1e-7}, {"minimum": 1e-300}, {"minimum": -90, "maximum": 90},
    {"minimum": 0.1, "maximum": 0.3}, {"minimum": 99.5, "maximum": 100},
    {"minimum": -1e-5, "exclusiveMaximum": 1e-5},
]  # fmt: skip


@pytest.mark.parametrize("bounds", RANGES, ids=str)
def test_a_number_between_bounds_comes_to_an_end(bounds: Any) -> None:
    """Who loves zeros, a minus or nines ends by itself, and so does chance; each answer lies inside."""
    constraint = structured.compile({"type": "number", **bounds}, vocabulary=smollm2())
    chance = random.Random(9)
    texts = [eager(constraint, chance, loves, 60) for loves in (_zeros, _nines)]
    for text in (*texts, *(random_text(constraint, chance) for _ in range(6))):
        assert text is not None
        assert _holds(bounds, float(text)), text
        assert constraint.mask_accepts(text)
        assert len(re.sub(r"^[-0.]+|e.*|\.", "", text)) <= 19


PLACES: list[tuple[Any, str, str]] = [  # (schema, what is in it, what is not)
    ({"type": ["number", "null"], "minimum": 0.5}, "null", "0.4"),
    ({"type": ["string", "number"], "exclusiveMaximum": 0, "maxLength": 3}, '"abc"', "0"),
    ({"minimum": 0.5}, '{"a": 1}', "0.4"),
    ({"type": "array", "items": {"type": "number", "maximum": 0.5}}, "[0.50, -3e-7]", "[0.6]"),
    ({"anyOf": [{"type": "number", "minimum": 1, "maximum": 2}, {"type": "boolean"}]}, "1.50", "2.5"),
    ({"properties": {"p": {"type": "number", "minimum": 0, "maximum": 1}}}, '{"p": 1e-05}', '{"p": 1.01}'),
    ({"type": ["integer", "null"], "minimum": 2**64}, str(2**64), str(2**64 - 1)),
    ({"type": ["integer", "null"], "minimum": 2**64}, "null", str(-(2**65))),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "inside", "outside"), PLACES, ids=lambda value: str(value)[:50])
def test_bounds_hold_wherever_a_number_stands(schema: Any, inside: str, outside: str) -> None:
    """Beside other types, in arrays, unions and objects the mask itself keeps the bounds."""
    constraint = structured.compile(schema)
    assert not [keyword for keyword in constraint.checked if "imum" in keyword.keyword.lower()]
    assert constraint.mask_accepts(inside)
    assert not constraint.mask_accepts(outside)


_WIDE = 7**340  # 288 digits
EXACT: list[tuple[Any, list[Any], list[Any]]] = [  # (schema, what it takes, what it does not)
    ({"type": "integer", "minimum": _WIDE}, [_WIDE, _WIDE + 1, f"{_WIDE}.0"], [_WIDE - 1, 5]),
    ({"type": "integer", "minimum": -_WIDE, "maximum": -(10**120)}, [-_WIDE, -(10**200)], [-_WIDE - 1, 0]),
    ({"type": "number", "minimum": _WIDE},
     [_WIDE, f"{_WIDE}.5", "9.5e300"], [_WIDE - 1, f"{_WIDE - 1}.5", "1e200"]),
    ({"type": "integer", "minimum": 10**20, "maximum": 10**20 + 50, "multipleOf": 7},
     [10**20 + 5, 10**20 + 47, f"{10**20 + 5}.00"], [10**20, 10**20 + 6, 10**20 - 2, 10**20 + 54]),
    ({"type": "number", "minimum": 0, "exclusiveMaximum": 246910, "multipleOf": 12345.5},
     ["12345.5", "12345.50", "0", "24691.0"], ["12345", "246910", "-12345.5"]),
    ({"type": ["integer", "null"], "exclusiveMinimum": -2, "maximum": 10**6, "multipleOf": 100003},
     ["null", "0", "900027"], ["100004", "1000030", "-100003"]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "inside", "outside"), EXACT, ids=lambda value: str(value)[:40])
def test_wide_bounds_and_steps_hold_to_the_last_digit(schema: Any, inside: Any, outside: Any) -> None:
    """Whole numbers of 288 digits, and multiples of a step that are few, are masked exactly."""
    constraint = structured.compile(schema, vocabulary=smollm2())
    assert not [keyword for keyword in constraint.checked if keyword.keyword != "json"]
    assert all(constraint.mask_accepts(str(value)) for value in inside)
    assert not any(constraint.mask_accepts(str(value)) for value in outside)
    if "multipleOf" in schema:
        text = random_text(constraint, random.Random(3))
        assert text is not None
        assert constraint.accepts(text)


def test_many_multiples_are_checked_after() -> None:
    """A step that the mask's compiler does not take, with too many multiples to be named, is checked."""
    schema = {"type": "integer", "minimum": 0, "maximum": 10**9, "multipleOf": 100003}
    constraint = structured.compile(schema)
    assert "multipleOf" in [keyword.keyword for keyword in constraint.checked]
    assert constraint.accepts("100003")
    assert not constraint.accepts("100004")


def _begins(spec: Any, text: str) -> bool:
    """Say whether a model is let write a text as a beginning."""
    matcher = structured.compile(spec, vocabulary=smollm2()).start()
    for token in smollm2().tokenize(text):
        if token not in matcher.allowed():
            return False
        matcher.accept(token)
    return True


def test_an_exponent_is_written_where_its_figure_is_a_number_inside() -> None:
    """6.6e-34 may be written above 0; in 0..1 a 7 may not be begun, as only 7e-1 could come of it."""
    above: Any = Annotated[float, Field(gt=0)]
    share: Any = Annotated[float, Field(ge=0, le=1)]
    assert _begins(above, "6.6e-34")
    assert _begins(share, "0.75")
    assert not _begins(share, "7")
    assert structured.compile(share).accepts("7e-1")


def test_a_text_that_the_check_refuses_is_not_searched_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a text is an answer asks the cheap check before it looks for an order of keys."""
    names = [f"key{i}" for i in range(9)]
    constraint = structured.compile({"properties": {name: {"type": "integer"} for name in names}})

    def never(self: Speller, text: str) -> bool:
        raise AssertionError("searched")

    monkeypatch.setattr(Speller, "takes", never)
    assert not constraint.accepts('{"key1": "x", "key0": 1}')
