"""Python types as schemas: what the type writes is possible, and comes back as an instance."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import ipaddress
import uuid
from typing import Annotated, Any, Generic, Literal, NotRequired, TypedDict, TypeVar

import pydantic
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, field_validator

from llama_magic import structured
from llama_magic.errors import InputTypeError, SchemaError, StructuredOutputError

T = TypeVar("T")


class Node(BaseModel):
    v: int
    kids: list[Node] = []


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    name: str


class Home(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


class Box(BaseModel, Generic[T]):
    item: T


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    x: int = Field(alias="theX")


class Everything(BaseModel):
    amount: decimal.Decimal
    when: dt.datetime
    day: dt.date
    clock: dt.time
    span: dt.timedelta
    key: uuid.UUID
    ratio: float
    anything: Any
    maybe: int | None = None


class Bounded(BaseModel):
    n: Annotated[int, Field(ge=1, le=10, multiple_of=3)]
    s: Annotated[str, Field(min_length=2, max_length=5, pattern="[0-9]")]
    rows: Annotated[list[tuple[int, str]], Field(min_length=1, max_length=2)]
    price: Annotated[decimal.Decimal, Field(max_digits=5, decimal_places=2)]


class Even(BaseModel):
    a: int

    @pydantic.field_validator("a")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise ValueError("must be even")
        return value


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Level(enum.IntEnum):
    LOW = 1
    HIGH = 2


@dataclasses.dataclass
class Point:
    x: int
    tags: list[str] = dataclasses.field(default_factory=list)


class Row(TypedDict):
    a: int
    b: NotRequired[str]


CASES: list[tuple[Any, list[str], list[str]]] = [
    (Node, ['{"v":1}', '{"v":1,"kids":[{"v":2,"kids":[]}]}'], ["{}", '{"v":"x"}', '{"v":1,"other":2}']),
    (
        Home,
        ['{"pet":{"kind":"cat","lives":9}}'],
        ['{"pet":{"kind":"cat","name":"x"}}', '{"pet":{"kind":"cow"}}'],
    ),
    (Box[int], ['{"item":1}'], ['{"item":"x"}']),
    (Open, ['{"theX":1}', '{"theX":1,"more":[1]}'], ['{"x":1}']),
    (
        Bounded,
        [
            '{"n":3,"s":"a1","rows":[[1,"x"]],"price":"123.45"}',
            '{"n":3,"s":"1a","rows":[[1,"x"]],"price":1.5}',
        ],
        [
            '{"n":4,"s":"a1","rows":[[1,"x"]],"price":"1"}',
            '{"n":3,"s":"ab","rows":[[1,"x"]],"price":"1"}',
            '{"n":3,"s":"a1","rows":[],"price":"1"}',
            '{"n":3,"s":"a1","rows":[[1,"x"]],"price":"1.234"}',
        ],
    ),
    (Even, ['{"a":2}'], ['{"a":3}']),
    (Colour, ['"red"'], ['"blue"', "red"]),
    (Level, ["1"], ["3"]),
    (Point, ['{"x":1}', '{"x":1,"tags":["a"]}'], ['{"tags":[]}']),
    (Row, ['{"a":1}', '{"a":1,"b":"x"}'], ['{"b":"x"}', '{"a":1,"b":2}']),
    (list[Row], ['[{"a":1}]', "[]"], ['[{"b":"x"}]']),
    (list[int], ["[1, 2]"], ["{}", '["a"]']),
    (Literal['say "hi"', "no"], ['"say \\"hi\\""', '"no"'], ['"hi"']),
    (int | None, ["1", "null"], ["nullnull", '"x"']),
    (dict[str, list[float]], ['{"a":[1.5]}'], ['{"a":["x"]}']),
    (set[int], ["[1,2]"], ["[1,1]"]),
    (ipaddress.IPv4Address, ['"1.2.3.4"'], ['"1.2.3"']),
    (TypeAdapter(list[Colour]), ['["red"]'], ['["x"]']),
]


@pytest.mark.parametrize(("spec", "possible", "impossible"), CASES, ids=lambda value: str(value)[:40])
def test_types(spec: Any, possible: list[str], impossible: list[str]) -> None:
    """A type's instances are possible and come back as such; nothing else is possible."""
    constraint = structured.compile(spec)
    adapter = spec if isinstance(spec, TypeAdapter) else None
    for text in possible:
        assert constraint.accepts(text), (text, constraint.why_not(text))
        value = constraint.parse(text)
        if adapter is None and isinstance(spec, type) and issubclass(spec, (BaseModel, enum.Enum)):
            assert isinstance(value, spec)
    for text in impossible:
        assert not constraint.accepts(text), text


@settings(max_examples=60, deadline=None)
@given(
    st.builds(
        Everything,
        amount=st.decimals(-(10**6), 10**6, places=3),
        when=st.datetimes(
            timezones=st.none() | st.just(dt.UTC) | st.just(dt.timezone(dt.timedelta(hours=-3)))
        ),
        day=st.dates(),
        clock=st.times(),
        span=st.timedeltas(dt.timedelta(days=-900), dt.timedelta(days=90_000)),
        key=st.uuids(),
        ratio=st.floats(allow_nan=False, allow_infinity=False),
        anything=st.none() | st.lists(st.text(max_size=3), max_size=2),
        maybe=st.none() | st.integers(),
    )
)
def test_what_a_type_writes_is_possible(value: Everything) -> None:
    """`model_dump_json` of any instance is a possible answer, and parses to an equal instance."""
    constraint = structured.compile(Everything)
    text = value.model_dump_json()
    assert constraint.accepts(text), (text, constraint.why_not(text))
    assert constraint.parse(text) == value


def test_fields_keep_their_order() -> None:
    """Fields come in the order of their declaration, even where that is not the alphabet's."""

    class Answer(BaseModel):
        reason: str
        answer: str

    constraint = structured.compile(Answer)
    assert constraint.mask_accepts('{"reason":"x","answer":"y"}')
    assert not constraint.mask_accepts('{"answer":"x","reason":"y"}')
    fields = dict.fromkeys("abcdefgh", (int, ...))
    ordered = structured.compile(pydantic.create_model("Sorted", **fields))  # type: ignore[call-overload]
    assert not ordered.mask_accepts('{"b":1,"a":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1}')


def test_a_validator_of_the_type_is_checked_after() -> None:
    """The type's own validators are listed as checked, and their message is the reason."""
    constraint = structured.compile(Even)
    assert ("", "type") in {(keyword.pointer, keyword.keyword) for keyword in constraint.checked}
    assert constraint.mask_accepts('{"a":3}')
    with pytest.raises(StructuredOutputError, match="must be even"):
        constraint.parse('{"a":3}')


def test_a_type_without_schema_is_refused() -> None:
    """A type that JSON cannot say is refused with its name."""

    class Plain:
        pass

    class Fields:
        name: str

    with pytest.raises(SchemaError, match=r"(?s)Plain.*Use types that pydantic"):
        structured.compile(Plain)
    with pytest.raises(
        SchemaError, match=r"(?s)Fields.*Write class Fields\(BaseModel\), or @dataclass above it"
    ):
        structured.compile(Fields)
    with pytest.raises(SchemaError, match=r"(?s)an instance of Tagged; expected the class.*Give Tagged\."):
        structured.compile(Tagged.model_construct())
    assert structured.compile(Annotated[Tagged, Field(description="no instance, whatever it is asked for")])
    with pytest.raises(InputTypeError, match="function"):
        structured.compile(lambda: 1)


@pytest.mark.parametrize("spec", [{"name": "str", "age": int}, '{"name": "str", "age": "int"}'])
def test_fields_with_their_types_are_no_schema(spec: Any) -> None:
    """Any answer would do for what has no keyword; one beside others is as harmless as the drafts say."""
    with pytest.raises(
        SchemaError, match=r'(?s)among \'name, age\'.*short form are a text: "name str, age int"'
    ):
        structured.compile(spec)
    for harmless in (
        {},
        {"title": "x"},
        {"x-name": "str"},
        {"name": {"type": "string"}},
        {"type": "null", "a": "b"},
    ):
        assert len(structured.compile(harmless).enforced) == ("type" in harmless)


class Tagged(BaseModel):
    """Two kinds, told apart by a tag that has a default."""

    class Cat(BaseModel):
        kind: Literal["cat"] = "cat"
        meow: int

    class Dog(BaseModel):
        kind: Literal["dog"] = "dog"
        bark: int

    pet: Annotated[Cat | Dog, Field(discriminator="kind")]


def test_the_tag_of_a_union_is_asked_for() -> None:
    """pydantic takes no default for a tag, so the mask does not let it be left out."""
    constraint = structured.compile(Tagged)
    assert constraint.accepts('{"pet": {"kind": "dog", "bark": 1}}')
    assert not constraint.mask_accepts('{"pet": {"bark": 1}}')
    assert not constraint.mask_accepts('{"pet": {"kind": "cat", "bark": 1}}')


def test_multiples_are_decimal() -> None:
    """A multiple of 0.01 is what it is in decimal, not in binary fractions."""
    constraint = structured.compile({"type": "number", "multipleOf": 0.01})
    assert all(constraint.accepts(f"{cents / 100:.2f}") for cents in range(1, 3000))
    assert not constraint.accepts("1.111")
    assert structured.compile({"type": "number", "multipleOf": 1e-300}).why_not("1e300") is None


class Broken(BaseModel):
    """A validator that raises what pydantic does not catch."""

    name: str

    @field_validator("name")
    @classmethod
    def look_up(cls, name: str) -> str:
        return {"known": name}[name]


def test_a_validator_that_breaks_is_a_reason() -> None:
    """Whatever a validator raises, the answer is no instance, and the reason says what was raised."""
    constraint = structured.compile(Broken)
    assert constraint.parse('{"name": "known"}').name == "known"
    with pytest.raises(StructuredOutputError, match="validator raised KeyError"):
        constraint.parse('{"name": "x"}')
