"""The JSON Schema Test Suite, and schemas judged by their own draft."""

from __future__ import annotations

import json
import tarfile
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from structured_support import DATA

from llama_magic import structured
from llama_magic.errors import SchemaError

PATH = DATA / "json_schema_suite.tar.xz"
DRAFTS = {
    "draft4": "http://json-schema.org/draft-04/schema#",
    "draft7": "http://json-schema.org/draft-07/schema#",
    "draft2020-12": "https://json-schema.org/draft/2020-12/schema",
}


def groups() -> Iterator[Any]:
    """Yield each group of the suite: (file, schema of its draft, tests)."""
    with tarfile.open(PATH) as archive:
        for member in archive:
            folder, _, name = member.name.removeprefix("tests/").partition("/")
            if not member.isfile() or folder not in DRAFTS or not name.endswith(".json"):
                continue
            file = archive.extractfile(member)
            assert file is not None
            for group in json.load(file):
                schema = group["schema"]
                if isinstance(schema, dict):
                    schema = {"$schema": DRAFTS[folder], **schema}
                yield f"{folder}/{name}: {group['description']}", schema, group["tests"]


def judge(name: str, schema: Any, tests: list[Any]) -> Iterator[tuple[str, str]]:
    """Yield (outcome, what) of each test; anything but a `SchemaError` comes out as it is."""
    try:
        constraint = structured.compile(schema)
    except SchemaError as error:
        yield from (("refused" if str(error) else "unnamed", name) for _ in tests)
        return
    named = {keyword.keyword for keyword in constraint.checked} | {key for _, key in constraint.ignored}
    for test in tests:
        taken = constraint.accepts(json.dumps(test["data"]))
        outcome = "right" if taken == test["valid"] else "accepted" if taken else "denied"
        if outcome == "accepted" and named - {"json"}:
            outcome = "accepted, but named"
        yield outcome, f"{name}: {test['description']}"


@pytest.mark.skipif(not PATH.exists(), reason="the shared data is not beside this repository")
def test_json_schema_test_suite() -> None:
    """99 % of the required tests are right or refused by name; nothing invalid is taken in silence."""
    outcomes = [outcome for group in groups() for outcome in judge(*group)]
    counts = Counter(outcome for outcome, _ in outcomes)
    assert [what for outcome, what in outcomes if outcome in ("accepted", "unnamed")] == []
    # `format` is asserted here, as pydantic and people who write it mean; the drafts call it a remark.
    denied = [what for outcome, what in outcomes if outcome == "denied" and "format.json" not in what]
    assert len(denied) <= 1, denied  # a vocabulary of its own that switches validation off
    assert counts["right"] + counts["refused"] >= 0.99 * len(outcomes), counts
    assert counts["right"] >= 2640


_2020 = "https://json-schema.org/draft/2020-12/schema"
_LIST = {"$id": "list", "type": "array", "items": {"$dynamicRef": "#items"}}
_ITEMS = {"$dynamicAnchor": "items", "type": "string"}
DYNAMIC = {
    "$schema": _2020,
    "$id": "https://x.test/root",
    "$ref": "list",
    "$defs": {
        "foo": _ITEMS,
        "list": {**_LIST, "$defs": {"items": {"$comment": "any item", "$dynamicAnchor": "items"}}},
    },
}
RECURSIVE = {
    "$schema": "https://json-schema.org/draft/2019-09/schema",
    "$id": "https://x.test/r",
    "$recursiveAnchor": True,
    "type": ["object", "integer"],
    "properties": {"foo": {"$ref": "in"}},
    "$defs": {
        "in": {
            "$id": "in",
            "$recursiveAnchor": True,
            "type": ["object", "string"],
            "additionalProperties": {"$recursiveRef": "#"},
        }
    },
}
_BELOW = {"$schema": "http://json-schema.org/draft-07/schema#", "type": "array"}


@pytest.mark.parametrize(
    ("schema", "valid", "invalid"),
    [
        (DYNAMIC, ['["foo"]', "[]"], ['["foo", 42]', '"foo"']),
        (RECURSIVE, ['{"foo":{"a":1}}', '{"foo":"x"}'], ['{"foo":{"a":"x"}}', '{"foo":1}']),
        (
            {**_BELOW, "items": [{"type": "integer"}, {"$ref": "#/items/0"}], "additionalItems": False},
            ["[2,3]", "[2]"],
            ['[2,"x"]', "[1,2,3]"],
        ),
        ({"type": "integer"}, ["1", "1.0", "1e3", "-2.0"], ["1.5", "true", '"1"']),
        ({"enum": [0, [1]]}, ["0.0", "[1.0]", "0"], ["false", "[true]"]),
        ({"const": "μ"}, ['"\\u03bc"', '"μ"'], ['"µ"']),
        ({"type": "integer", "maximum": 2**64 - 1}, [str(2**64 - 1), "-5"], [str(2**64)]),
        ({"type": "integer", "minimum": 10**30}, [str(10**30), str(10**31)], ["0", "-5", str(10**30 - 1)]),
        ({"type": "integer", "maximum": -(10**25)}, [str(-(10**25))], ["0", "5", str(1 - 10**25)]),
        ({"minimum": -(10**30), "maximum": -(10**25)}, [str(-(10**29))], ["-5", str(-(10**31))]),
        ({"type": "integer", "minimum": 10**17 + 1}, [str(10**17 + 1), "1e30"], [str(10**17), "7"]),
        ({"const": 2**53 + 1}, [str(2**53 + 1)], [str(2**53), str(2**53 + 2)]),
        ({"enum": ["a", 10**25, 1e300]}, ['"a"', str(10**25), "1e300"], [str(10**25 + 1), "1"]),
    ],
    ids=lambda value: str(value)[:50],
)
def test_meaning_of_a_draft(schema: Any, valid: list[str], invalid: list[str]) -> None:
    """References that depend on the way, whole numbers with a point, and large numbers mean what they say."""
    constraint = structured.compile(schema)
    assert [text for text in valid if not constraint.accepts(text)] == []
    assert [text for text in invalid if constraint.accepts(text)] == []


def test_a_check_that_fails_is_a_reason() -> None:
    """Whatever the library beneath raises on an answer, it comes out as the reason, with the text kept."""
    schema = {"type": "object", "patternProperties": {r"^\p{Lu}": {}}, "unevaluatedProperties": False}
    constraint = structured.compile(schema)
    assert "cannot be checked" in str(constraint.why_not('{"é":1}'))


@pytest.mark.parametrize(
    ("schema", "ignored", "said"),
    [
        (
            {"type": "object", "propertys": {"a": {}}, "requried": ["a"]},
            {("", "propertys"), ("", "requried")},
            ["'properties'", "'required'"],
        ),
        ({"type": "string", "min_length": 3}, {("", "min_length")}, ["'minLength'"]),
        ({"items": {"enums": [1]}}, {("/items", "enums")}, ["/items", "'enum'"]),
        ({"type": "integer", "maxLength": 3}, {("", "maxLength")}, ["strings", "integer"]),
        ({"type": "string", "nullable": True}, {("", "nullable")}, ["'type'"]),
        ({"type": "object", "property": {"a": {"type": "null"}}}, {("", "property")}, ["'properties'"]),
        ({"type": "integer", "min": 3, "le": 5}, {("", "min"), ("", "le")}, ["'minimum'", "'maximum'"]),
        ({"type": "string", "choices": ["a"]}, {("", "choices")}, ["'enum'"]),
        ({"type": "array", "minContains": 2}, {("", "minContains")}, ["only beside 'contains'"]),
        ({"type": "array", "contains": {"const": 1}, "minContains": 2}, set(), []),
        ({"$schema": "https://x.test/my", "type": "null"}, {("", "$schema")}, ["2020-12"]),
        ({"type": "string", "x-order": 1, "deprecated": True}, {("", "x-order")}, []),
        ({"properties": {"t": {"format": "datetime"}}}, {("/properties/t", "format")}, ["'date-time'"]),
        ({"type": "string", "format": "E-Mail"}, {("", "format")}, ["'email'"]),
        ({"type": "string", "format": "url"}, {("", "format")}, ["'uri'"]),
        ({"anyOf": [{"format": "int32"}, {"format": "password"}, {"format": "file-path"}]}, set(), []),
        ({"type": "string", "title": "T", "default": "", "examples": ["a"]}, set(), []),
    ],
    ids=lambda value: str(value)[:50],
)
def test_keywords_without_effect(schema: Any, ignored: set[Any], said: list[str]) -> None:
    """A keyword that does nothing is named with its place; where one is near, that one too."""
    constraint = structured.compile(schema)
    assert set(constraint.ignored) == ignored
    words = "\n".join(constraint.notes)
    assert all(word in words for word in said)
    assert bool(words) == bool(said)


ORDERS: list[tuple[Any, str]] = [  # (schema, an instance with the keys in another order)
    (
        {
            "properties": {"b": {"const": 2}, "a": {"type": "integer"}},
            "required": ["a", "b"],
            "type": "object",
        },
        '{"a":1,"b":2}',
    ),
    (
        {
            "type": "object",
            "properties": {"b": {"type": "integer"}, "a": {"type": "string"}},
            "patternProperties": {"^x": {"type": "null"}},
            "additionalProperties": False,
        },
        '{"xk":null,"a":"","xl":null,"b":1}',
    ),
    (
        {
            "oneOf": [
                {"type": "object", "properties": {"k": {"const": 1}, "v": {}}, "required": ["k", "v"]},
                {"type": "object", "properties": {"k": {"const": 2}, "w": {}}, "required": ["k", "w"]},
            ]
        },
        '{"w":0,"k":2.0}',
    ),
    ({"const": {"a": {"c": 1, "b": 2}}}, '{"a":{"b":2,"c":1.0}}'),
    (
        {
            "type": "array",
            "items": {"properties": {"z": {}, "y": {"properties": {"q": {}, "p": {"const": 1}}}}},
        },
        '[{"y":{"p":1,"q":2},"z":0},{"z":1}]',
    ),
]


@pytest.mark.parametrize(("schema", "text"), ORDERS, ids=lambda value: str(value)[:50])
def test_an_object_has_no_order(schema: Any, text: str) -> None:
    """An answer with its keys in another order is the same value; a wrong value stays wrong in any order."""
    constraint = structured.compile(schema)
    assert constraint.accepts(text)
    assert not constraint.accepts(text.replace("1", "[]").replace("2", "{}"))


def test_any_order_is_kept_as_promised() -> None:
    """Where any order is promised, the masks themselves take it, through patterns and unions too."""
    names = ["alpha", "beta", "delta", "gamma", "omega"]
    schema = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in names},
        "patternProperties": {"^x": {"type": "null"}},
        "required": ["alpha"],
        "anyOf": [{"required": ["beta"]}, {"required": ["delta"]}],
    }
    constraint = structured.compile(schema)
    assert constraint.any_order
    assert constraint.mask_accepts('{"omega":1,"x":null,"delta":2,"alpha":3}')
    assert not constraint.mask_accepts('{"omega":1,"x":null,"alpha":3}')
