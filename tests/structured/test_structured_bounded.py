"""Types whose JSON schema says less than they check: bounds of days and times, members, paths, hooks."""

from __future__ import annotations

import datetime as dt
import enum
import json
import random
import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Annotated, Any, Literal

import pytest
from pydantic import (
    AfterValidator,
    AliasChoices,
    AliasPath,
    AwareDatetime,
    BaseModel,
    ConfigDict,
    Field,
    FutureDate,
    FutureDatetime,
    NaiveDatetime,
    PastDate,
    PastDatetime,
    TypeAdapter,
)
from structured_support import eager, random_text, smollm2

from llama_magic import structured
from llama_magic.errors import SchemaError, StructuredOutputError
from llama_magic.structured.schema import spans
from llama_magic.structured.schema.decimal_spans import End, decimals

_HALF = dt.timezone(dt.timedelta(hours=5, minutes=30))


def _day(chance: random.Random) -> dt.date:
    return dt.date(chance.randint(1, 9999), chance.randint(1, 12), chance.randint(1, 28))


def _clock(chance: random.Random) -> dt.time:
    return dt.time(
        chance.randint(0, 23), chance.randint(0, 59), chance.choice([0, 59, chance.randint(0, 59)])
    )


def _moment(chance: random.Random) -> dt.datetime:
    return dt.datetime.combine(_day(chance), _clock(chance)).replace(
        microsecond=chance.choice([0, 1, 999_999])
    )


def _stretch(chance: random.Random) -> dt.timedelta:
    return dt.timedelta(seconds=chance.randint(-(10**7), 10**7), microseconds=chance.choice([0, 1]))


def _bounded(kind: type, value: Any, chance: random.Random) -> Any:
    """A type with one bound or two of random kinds, the two sometimes close."""
    low, high = sorted([value(chance), value(chance)])
    if kind in (dt.date, dt.datetime) and chance.random() < 0.4:
        high = low + dt.timedelta(days=chance.randint(2, 40))
    if kind is dt.datetime and (zone := chance.choice([None, dt.UTC, _HALF])):
        low, high = low.replace(tzinfo=zone), high.replace(tzinfo=zone)
    both = {chance.choice(["ge", "gt"]): low, chance.choice(["le", "lt"]): high}
    names = chance.choice([list(both), list(both)[:1], list(both)[1:]])
    bounds: dict[str, Any] = {name: both[name] for name in names}
    return Annotated[kind, Field(**bounds)]


KINDS: list[tuple[type, Any]] = [
    (dt.date, _day), (dt.datetime, _moment), (dt.time, _clock), (dt.timedelta, _stretch),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value"), KINDS, ids=lambda value: getattr(value, "__name__", ""))
def test_what_is_written_lies_within_bounds(kind: type, value: Any) -> None:
    """Whatever is drawn at random of a day, moment, time or duration with bounds is an instance."""
    for seed in range(10):
        chance = random.Random(seed)
        spec = _bounded(kind, value, chance)
        constraint = structured.compile(spec, vocabulary=smollm2())
        adapter: Any = TypeAdapter(spec)
        for _ in range(3):
            text = random_text(constraint, chance, 200)
            assert text is not None
            assert adapter.validate_json(text) is not None, (spec, text)
            assert constraint.accepts(text), (spec, text, constraint.why_not(text))


NOW: list[Any] = [
    PastDate, FutureDate, PastDatetime, FutureDatetime, AwareDatetime, NaiveDatetime, list[PastDate | None],
    Annotated[PastDate, Field(ge=dt.date(2020, 1, 1))],
    Annotated[PastDatetime, Field(gt=dt.datetime(2024, 5, 5))],
    Annotated[FutureDatetime, Field(lt=dt.datetime(2999, 1, 1, tzinfo=_HALF))],
]  # fmt: skip


@pytest.mark.parametrize("spec", NOW, ids=lambda spec: str(spec)[:60])
def test_past_and_future_are_kept_while_a_day_is_written(spec: Any) -> None:
    """Whatever is drawn of a day or moment before or after now, with a zone or without, is an instance."""
    constraint, chance = structured.compile(spec, vocabulary=smollm2()), random.Random(5)
    for _ in range(8):
        text = random_text(constraint, chance, 200)
        assert text is not None
        assert constraint.accepts(text), (text, constraint.why_not(text))


def test_patterns_of_spans_are_exact() -> None:
    """A pattern of days, times or whole numbers takes what lies between its bounds and nothing else."""
    chance = random.Random(1)
    for _ in range(60):
        first, last = sorted([_day(chance), _day(chance)])
        days = re.compile(spans.days(first, last))
        for day in (first, last, *(_day(chance) for _ in range(20))):
            assert bool(days.fullmatch(day.isoformat())) == (first <= day <= last)
        begin, end = sorted([_clock(chance), _clock(chance)])
        clocks = re.compile(spans.clocks(begin, end))
        for clock in (begin, end, *(_clock(chance) for _ in range(20))):
            assert bool(clocks.fullmatch(clock.isoformat())) == (begin <= clock <= end)
        low, high = sorted(chance.randint(-(10**size), 10**size) for size in chance.choices((1, 5, 30), k=2))
        numbers = re.compile(spans.whole(low, high, 40))
        for number in (low - 1, low, high, high + 1, 0, *(chance.randint(low, high) for _ in range(20))):
            assert bool(numbers.fullmatch(str(number))) == (low <= number <= high)
    assert re.fullmatch(spans.days(dt.date(2020, 2, 29), dt.date(2020, 3, 1)), "2020-02-29")


def test_a_bound_that_leaves_no_whole_second_is_checked_after() -> None:
    """Half a second between two bounds is no pattern of seconds: the answer is checked, nothing refused."""
    low = dt.datetime(2020, 1, 1, 0, 0, 0, 100_000)
    spec = Annotated[dt.datetime, Field(ge=low, le=low.replace(microsecond=900_000))]
    assert structured.compile(spec).accepts('"2020-01-01T00:00:00.5"')


def _enum(**members: Any) -> Any:
    return enum.Enum("Made", members)


LOST: list[Any] = [
    _enum(A=(1, 2)), _enum(A="a", B=(1, 2)), _enum(A=Decimal("1.1")), _enum(A=b"x"), _enum(A=b"\xff"),
    _enum(A=dt.date(2020, 1, 1)), _enum(A=float("nan")), _enum(A=object()), _enum(A=frozenset([1])),
    _enum(A=1 + 2j), Literal[b"x"], Literal["x", b"x"], Literal[_enum(A="a").A], list[_enum(A=(1,))],
]  # fmt: skip


@pytest.mark.parametrize("spec", LOST, ids=lambda spec: str(spec)[:40])
def test_members_that_no_json_can_say_are_refused(spec: Any) -> None:
    """A member that pydantic does not read back from JSON is named before anything is written."""
    with pytest.raises(SchemaError, match="does not read from JSON"):
        structured.compile(spec)


class Colour(enum.StrEnum):
    RED = "red"
    NONE = ""
    FAMILY = "👩‍👩‍👧"


class Planet(enum.Enum):
    """Members found by what JSON has for their values."""

    EARTH = (5.9, 6.3)
    MARS = (0.6, 3.4)

    @classmethod
    def _missing_(cls, value: object) -> Any:
        return next((planet for planet in cls if list(planet.value) == value), None)


READ: list[Any] = [
    Colour, Planet, _enum(A='a"\\\n', B=1, C=None, D=1.5, E=True), _enum(A=2**100, B=-(2**70)),
    _enum(A=[1], B={"k": 2}),
    enum.IntFlag("Flags", "R W"), Literal[Colour.RED, "blue"], Literal["1", 1, True, None],
]  # fmt: skip


@pytest.mark.parametrize("spec", READ, ids=lambda spec: str(spec)[:40])
def test_members_that_json_can_say_are_written(spec: Any) -> None:
    """Whatever is drawn of an Enum or a Literal is one of its members."""
    constraint, chance = structured.compile(spec, vocabulary=smollm2()), random.Random(3)
    texts = [random_text(constraint, chance) for _ in range(12)]
    assert all(text is not None and constraint.accepts(text) for text in texts)
    assert len({json.dumps(json.loads(text or "")) for text in texts}) > 1


class FromPath(BaseModel):
    name: int = Field(validation_alias=AliasPath("x", "y"))


class FromPaths(BaseModel):
    name: int = Field(0, validation_alias=AliasChoices(AliasPath("x", 0), AliasPath("y", 1)))


class ByName(BaseModel):
    model_config = ConfigDict(validate_by_name=True)
    name: int = Field(validation_alias=AliasPath("x", "y"))


class OrName(BaseModel):
    name: int = Field(validation_alias=AliasChoices(AliasPath("x", 0), "other"))


def test_a_field_read_from_a_path_is_refused() -> None:
    """A field that only a path leads to is refused by that path; one that has a name, too, is written."""
    for spec in (FromPath, FromPaths, list[FromPath]):
        with pytest.raises(SchemaError, match=r"the path x / (y|0) \(AliasPath\)"):
            structured.compile(spec)
    assert structured.compile(ByName).parse('{"name": 3}').name == 3
    assert structured.compile(OrName).parse('{"other": 3}').name == 3


def test_a_class_as_a_value_is_refused() -> None:
    """No answer is a class: `type[int]` is refused before one is written."""
    for spec in (type[int], list[type[int]]):
        with pytest.raises(SchemaError, match=r"type\[int\] is a class"):
            structured.compile(spec)


def _raising(error: Exception) -> Any:
    class Odd:
        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            raise error

    return Odd


def _raising_later(error: Exception) -> Any:
    class Odd:
        @classmethod
        def __get_pydantic_core_schema__(cls, source: Any, handler: Any) -> Any:
            return handler(int)

        @classmethod
        def __get_pydantic_json_schema__(cls, source: Any, handler: Any) -> Any:
            raise error

    return Odd


def _even(value: int) -> int:
    if value % 2:
        raise ValueError("odd")
    return value


Even = Annotated[int, AfterValidator(_even)]


ODD: list[Any] = [
    Annotated[str, Field(pattern=r"^\d{3}(?=x)x$")], Annotated[str, Field(pattern="(")], _enum(A="\ud800"),
    *(make(error) for make in (_raising, _raising_later)
      for error in (KeyError("k"), ZeroDivisionError(), StopIteration(), OSError("o"))),
]  # fmt: skip


@pytest.mark.parametrize("spec", ODD, ids=str)
def test_whatever_a_type_raises_is_a_schema_error(spec: Any) -> None:
    """pydantic's own errors and those of hooks in types come as one of the tree, with the reason."""
    with pytest.raises(SchemaError, match="cannot be turned into a JSON schema"):
        structured.compile(spec)


_DRAFT4 = "http://json-schema.org/draft-04/schema#"
WHOLE: list[tuple[Any, int | None, int | None]] = [  # (bounds, the least and the greatest number)
    ({"maximum": 2**64 - 1}, None, 2**64 - 1),
    ({"minimum": 2**64, "maximum": 2**65}, 2**64, 2**65),
    ({"minimum": 2**70}, 2**70, None),
    ({"exclusiveMaximum": -(2**70)}, None, -(2**70) - 1),
    ({"minimum": 10**30, "maximum": 10**30 + 5}, 10**30, 10**30 + 5),
    ({"minimum": -(2**63), "maximum": 2**63 - 1}, -(2**63), 2**63 - 1),
    ({"minimum": 2**53 + 1, "maximum": 2**53 + 3}, 2**53 + 1, 2**53 + 3),
    ({"minimum": 1e20, "exclusiveMaximum": 1e21}, 10**20, 10**21 - 1),
    ({"exclusiveMinimum": 0, "maximum": 2**64}, 1, 2**64),
    ({"minimum": 2**64, "exclusiveMinimum": True, "$schema": _DRAFT4}, 2**64 + 1, None),
]


@pytest.mark.parametrize(("bounds", "low", "high"), WHOLE, ids=lambda value: str(value)[:40])
def test_whole_numbers_beyond_a_double_are_bounded_by_the_mask(
    bounds: Any, low: int | None, high: int | None
) -> None:
    """Bounds beyond 2^53 and 2^63 hold to the last digit while a number is written, and when one is taken."""
    constraint = structured.compile({"type": "integer", **bounds}, vocabulary=smollm2())
    assert not [keyword for keyword in constraint.checked if "imum" in keyword.keyword]
    for edge, step in ((low, -1), (high, 1)):
        if edge is not None:
            assert constraint.accepts(str(edge))
            assert not constraint.mask_accepts(str(edge + step))
    chance = random.Random(5)
    for _ in range(12):
        text = random_text(constraint, chance)
        assert text is not None
        assert low is None or low <= int(text), text
        assert high is None or int(text) <= high, text
    if high is None:
        assert constraint.accepts("9" * 60)
    nested = {"type": "object", "properties": {"n": {"type": "integer", **bounds}}, "required": ["n"]}
    if "$schema" not in bounds and low is not None:
        assert structured.compile(nested).mask_accepts(f'{{"n": {low}}}')
        assert not structured.compile(nested).mask_accepts(f'{{"n": {low - 1}}}')
    assert constraint.mask_accepts(f"{low or high}.0")


def test_bounds_between_which_nothing_lies_are_refused() -> None:
    """Large bounds that exclude each other are found before an answer is begun."""
    for bounds in ({"minimum": 2**64, "maximum": 2**63}, {"exclusiveMinimum": 2**64, "maximum": 2**64}):
        with pytest.raises(SchemaError, match="no whole number lies between the bounds at the root"):
            structured.compile({"type": "integer", **bounds})


_NUMBERS = (
    "0",
    "1",
    "-1",
    "0.1",
    "-0.5",
    "0.25",
    "0.00001",
    "-0.00001",
    "10",
    "99.5",
    "3.140",
    "100",
    "-0.001",
)


def test_patterns_of_decimal_spans_are_exact() -> None:
    """A pattern of decimals takes what lies between its ends, each in or out, with zeros behind or not."""
    chance = random.Random(2)
    for _ in range(400):
        least, most = sorted(map(Decimal, chance.choices(_NUMBERS, k=2)))
        low, high = (End(value, chance.random() < 0.5) for value in (least, most))
        pattern = decimals(low, high)
        step = Decimal("0.0000001")
        near = [f"{value:f}" for end in (least, most) for value in (end, end - step, end + step)]
        zeros = f"{least:f}" + ("0" if "." in f"{least:f}" else ".00")
        for text in (*_NUMBERS, *near, zeros, f"{(least + most) / 2:f}"):
            value = Decimal(text)
            above = value > low.value if low.out else value >= low.value
            below = value < high.value if high.out else value <= high.value
            if not (text.startswith("-") and value == 0):
                assert bool(pattern and re.fullmatch(pattern, text)) == (above and below), (low, high, text)


def _is_zeros(vocabulary: Any, token: int) -> bool:
    data = vocabulary.token_bytes(token)
    return bool(data) and not data.strip(b"0.")


def _zeros(constraint: Any, chance: random.Random) -> str | None:
    """Return what a model writes that loves zeros."""
    return eager(constraint, chance, _is_zeros, 80)


RANGES = [
    (0, 1),
    (0, 0.1),
    (0, 1e-5),
    (-1, 1),
    (-1, 0),
    (0.25, 0.75),
    (99, 100),
    (1, 10),
    (-0.5, 1e-7),
    (0, 3.14),
]


@pytest.mark.parametrize(("low", "high"), RANGES)
@pytest.mark.parametrize("out", ["both", "low", "high"])
def test_an_end_that_is_left_out_is_never_written(low: float, high: float, out: str) -> None:
    """Between bounds of which one is left out all are valid, drawn at random or by who loves zeros."""
    bounds = {"minimum" if out == "high" else "exclusiveMinimum": low}
    bounds["maximum" if out == "low" else "exclusiveMaximum"] = high
    constraint = structured.compile({"type": "number", **bounds}, vocabulary=smollm2())
    chance = random.Random(3)
    texts = [random_text(constraint, chance) for _ in range(8)]
    for text in (*texts, _zeros(constraint, chance)):
        assert text is not None
        assert constraint.accepts(text), (bounds, text, constraint.why_not(text))
    middle = f"{(Decimal(repr(low)) + Decimal(repr(high))) / 2:f}"
    assert all(constraint.mask_accepts(text) for text in (middle, middle + ("0" if "." in middle else ".0")))
    assert constraint.mask_accepts(repr(low)) == (out == "high")


@pytest.mark.parametrize(
    "bounds", [{"exclusiveMinimum": 0}, {"exclusiveMaximum": 0}, {"exclusiveMinimum": 5.25}]
)
def test_a_number_beyond_one_end_comes_to_an_end(bounds: Any) -> None:
    """More than 0 is never zeros without end, and what is taken keeps its exponents and its many digits."""
    constraint = structured.compile({"type": "number", **bounds}, vocabulary=smollm2())
    chance = random.Random(4)
    for text in (_zeros(constraint, chance), *(random_text(constraint, chance) for _ in range(6))):
        assert text is not None
        assert constraint.accepts(text), text
    sign = "-" if "exclusiveMaximum" in bounds else ""
    assert constraint.accepts(f"{sign}{'9' * 60}")
    assert not constraint.mask_accepts(f"{sign}0.0")


@pytest.mark.parametrize("spec", [Iterable[bool], Iterator[int], Iterable[Literal["a", "b"]]], ids=str)
def test_an_iterable_is_a_list(spec: Any) -> None:
    """`Iterable[X]` gives a list of checked items (pydantic's own is an iterator that fails later)."""
    constraint, chance = structured.compile(spec, vocabulary=smollm2()), random.Random(6)
    text = random_text(constraint, chance)
    assert text is not None
    assert isinstance(constraint.parse(text), list)
    assert list(constraint.parse(text)) == list(constraint.parse(text))


def test_the_items_of_an_iterable_are_checked() -> None:
    """An item that a validator refuses is refused when the answer is read."""
    with pytest.raises(StructuredOutputError, match="odd"):
        structured.compile(Iterable[Even]).parse("[2, 3]")
