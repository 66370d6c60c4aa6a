"""Arrays whose items depend on each other: the mask and the check agree on every short array."""

from __future__ import annotations

import enum
import itertools
import json
import random
from typing import Any, Literal

import pytest
from pydantic import BaseModel
from structured_support import random_text, smollm2

from llama_magic import structured
from llama_magic.errors import SchemaError


class Colour(enum.Enum):
    RED = "red"
    GREEN = "green"


class Point(BaseModel, frozen=True):
    x: Literal[1, 2]
    y: bool


def _array(items: Any, **more: Any) -> Any:
    return {"type": "array", "items": items, **more}


_FEW = {"enum": [1, 2, 3]}
_ABOVE = {"minimum": 2}
_CLOSED = {
    "type": "object",
    "properties": {"a": {"enum": [1, 2]}, "b": {"type": "boolean"}},
    "required": ["a"],
    "additionalProperties": False,
}
CASES: list[tuple[Any, list[Any]]] = [  # (schema, values that arrays are made of)
    (set[Literal["r", "g", "b"]], ["r", "g", "b", "x"]),
    (frozenset[bool], [True, False, None]),
    (set[Colour], ["red", "green", 1]),
    (set[Literal["a"] | bool | None], ["a", True, False, None]),
    (_array({"type": "integer", "minimum": 0, "maximum": 2}, uniqueItems=True, minItems=2), [0, 1, 2]),
    (_array({"$ref": "#/$defs/x"}, uniqueItems=True, maxItems=1, **{"$defs": {"x": _FEW}}), [1, 2, 3]),
    (_array({"enum": [[1], {"a": 1}, 1]}, uniqueItems=True), [[1], {"a": 1}, 1]),
    (_array(_FEW, contains={"const": 2}), [1, 2, 3]),
    (_array({"type": "integer"}, contains={"const": 2}, maxItems=3), [1, 2, 3]),
    (_array({"type": "integer"}, contains=_ABOVE, minContains=2, minItems=3), [1, 2, 5]),
    (_array(_FEW, contains=_ABOVE, maxContains=2, maxItems=3), [1, 2, 3]),
    (_array(_FEW, contains=_ABOVE, minContains=0, maxContains=1), [1, 2, 3]),
    (_array(_FEW, contains=_ABOVE, uniqueItems=True, maxContains=1, minItems=2), [1, 2, 3]),
    ({"type": "object", "properties": {"a": _array(_FEW, uniqueItems=True)}, "required": ["a"]}, [1, 2, 3]),
    ({"anyOf": [{"type": "null"}, _array(_FEW, uniqueItems=True, minItems=1)]}, [1, 2, 3]),
    (_array(_CLOSED, uniqueItems=True), [{"a": 1}, {"a": 2}, {"a": 2, "b": True}, {"a": 3}, {}]),
    (_array(_CLOSED, contains={"required": ["b"]}, maxContains=1), [{"a": 1}, {"a": 2, "b": True}, {}]),
    (set[Point], [{"x": 1, "y": True}, {"x": 2, "y": True}, {"x": 1}, {"x": 3, "y": True}]),
    (set[tuple[Literal["a", "b"], bool]], [["a", True], ["b", False], ["a"], ["a", True, 1]]),
    (_array({"type": "array", "prefixItems": [_FEW], "items": False}, uniqueItems=True), [[], [1], [3], [4]]),
]


@pytest.mark.parametrize(("schema", "values"), CASES, ids=lambda value: str(value)[:50])
def test_mask_and_check_agree(schema: Any, values: list[Any]) -> None:
    """Of all arrays of up to four items exactly the valid ones are let through; nothing is left unsaid."""
    constraint = structured.compile(schema)
    form = '{"a": %s}' if isinstance(schema, dict) and "properties" in schema else "%s"
    texts = [
        form % json.dumps(list(items)) for n in range(5) for items in itertools.product(values, repeat=n)
    ]
    valid = [text for text in texts if constraint.why_not(text) is None]
    assert 0 < len(valid) < len(texts)
    assert [text for text in texts if constraint.mask_accepts(text)] == valid
    later = {keyword.keyword for keyword in constraint.checked}
    assert later.isdisjoint({"uniqueItems", "contains", "minContains", "maxContains"})


@pytest.mark.parametrize(
    "schema",
    [
        _array(_FEW, uniqueItems=True, minItems=4),
        _array({"type": "boolean"}, uniqueItems=True, minItems=3),
        _array(_FEW, contains={"const": 9}),
        {"type": "object", "required": ["a"],
         "properties": {"a": _array(_FEW, contains=_ABOVE, minContains=3, uniqueItems=True)}},
    ],
)  # fmt: skip
def test_more_than_there_is(schema: Any) -> None:
    """More different items than there are values is refused before the first token, with the place."""
    with pytest.raises(SchemaError, match=r"the array at (the root|/properties/a) asks for more"):
        structured.compile(schema)


def test_where_no_rule_can_say_it_the_check_does() -> None:
    """Sets without end, and sets inside keys by pattern, are checked after the answer, and named."""
    for schema, keyword in (
        (_array({"type": "string"}, uniqueItems=True), "uniqueItems"),
        (_array(True, contains={"const": 1}, maxContains=1), "maxContains"),
        ({"patternProperties": {"^a": _array(_FEW, uniqueItems=True)}, "type": "object"}, "uniqueItems"),
    ):
        constraint = structured.compile(schema)
        assert keyword in {found.keyword for found in constraint.checked}
        assert not constraint.accepts('["x","x"]')
        assert not constraint.accepts('{"a":[1,1]}')


class Tags(BaseModel):
    tags: set[Literal["red", "green", "blue"]]
    levels: frozenset[Literal[1, 2]]


def test_a_model_comes_to_an_end() -> None:
    """Whatever is drawn, a set ends when all its values are written, in a model's one layout, too."""
    chance = random.Random(5)
    constraint = structured.compile(Tags, vocabulary=smollm2())
    texts = [random_text(constraint, chance) for _ in range(40)]
    assert all(text is not None and constraint.accepts(text) for text in texts)
    assert max(len(constraint.parse(str(text)).tags) for text in texts) == 3


def test_a_property_may_have_any_name() -> None:
    """What the package notes for itself in a schema is never mistaken for a key of the user's."""
    names = ["x-write", "x-rule", "\0rule"]
    schema = {
        "type": "object",
        "properties": {name: _array(_FEW, uniqueItems=True) for name in names},
        "required": names,
    }
    constraint = structured.compile(schema)
    assert constraint.accepts(json.dumps({name: [1, 2] for name in names}))
    assert not constraint.accepts(json.dumps({name: [1, 1] for name in names}))
