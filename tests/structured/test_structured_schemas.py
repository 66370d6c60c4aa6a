"""JSON schemas: which texts are possible, what enforces what, what is refused by name."""

from __future__ import annotations

import json
from typing import Any

import pytest
from structured_support import DATA

from llama_magic import structured
from llama_magic.errors import InputTypeError, SchemaError, StructuredOutputError

_A = {"type": "object", "required": ["a"]}


def _with(a: Any, **more: Any) -> dict[str, Any]:
    return {**_A, "properties": {"a": a}, **more}


# (schema, texts that must be possible, texts that must not)
CASES: list[tuple[Any, list[str], list[str]]] = [
    (
        _with({"type": "string"}),
        ['{"a":"\\n\\u00e9"}', '{\n  "a": "x"\n}'],
        ['{"a":"\\\'"}', '{"a":"x\ny"}', "{'a':1}"],
    ),
    (_with({"enum": ["a", 1, None, True, 1.5]}), ['{"a":1.5}', '{"a":null}'], ['{"a":2}', '{"a":false}']),
    (
        {"properties": {"naïve": {"type": "integer"}}, "required": ["naïve"], "type": "object"},
        ['{"na\\u00efve":1}', '{"naïve":1}'],
        ['{"naive":1}', '{"naïve":"x"}'],
    ),
    *(  # 1 and 1.0 are one value, 1 and true are not, whichever keyword stands first
        (schema, ["1"], ["2", "true"])
        for schema in (
            {"const": 1, "enum": [1.0, 2]},
            {"enum": [1.0, 2], "const": 1},
            {"const": 1.0, "enum": [True, 1]},
        )
    ),
    ({"const": [1], "enum": [[True], [1.0]]}, ["[1]"], ["[true]"]),
    ({"oneOf": [{"const": [1]}, {"enum": [[True], 2]}]}, ["[1]", "[true]", "2"], ["1"]),
    (_with({"type": "array", "minItems": 1}), ['{"a":[1]}'], ['{"a":[]}']),
    (_with({"type": "string", "maxLength": 65536}), ['{"a":"x"}'], ['{"a":1}']),
    (_with({"type": "string", "maxLength": 2}), ['{"a":"😀😀"}'], ['{"a":"😀😀😀"}']),
    (_with({"pattern": "[0-9]", "type": "string"}), ['{"a":"x1y"}'], ['{"a":"xy"}']),
    (_with({"pattern": "^a.c$", "type": "string"}), ['{"a":"a\\"c"}'], ['{"a":"a"c"}', '{"a":"abcd"}']),
    (_with({"pattern": "^(?!x).+$", "type": "string"}), ['{"a":"y"}'], ['{"a":"x1"}']),
    (
        _with({"format": "date", "type": "string"}),
        ['{"a":"2024-02-29"}'],
        ['{"a":"2023-02-29"}', '{"a":"2024-02"}'],
    ),
    (_with({"format": "iri", "type": "string"}), ['{"a":"http://ü.de/x"}'], ['{"a":"no iri"}']),
    (_with({"format": "slug", "type": "string"}), ['{"a":"anything"}'], ['{"a":1}']),
    (
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "additionalProperties": {"type": "string"},
        },
        ['{"a":1,"b":"x"}'],
        ['{"a":1,"a":"x"}', '{"a":1,"a":2}', '{"b":1}'],
    ),
    ({"$ref": "#/$defs/a~1b", "$defs": {"a/b": {"type": "boolean"}}}, ["true"], ["1"]),
    ({"$ref": "#/$defs/My%20Type", "$defs": {"My Type": {"type": "boolean"}}}, ["true"], ["1"]),
    (
        {
            "$ref": "#/$defs/Café",
            "$defs": {
                "Café": {"anyOf": [{"type": "array", "items": {"$ref": "#/$defs/Café"}}, {"type": "null"}]}
            },
        },
        ["[[null]]"],
        ["[1]"],
    ),
    (
        {"type": "object", "properties": {"c": {"type": "array", "items": {"$ref": "#"}}}, "required": ["c"]},
        ['{"c":[{"c":[]}]}'],
        ['{"c":[{}]}'],
    ),
    (
        {"$id": "https://x.test/s", "$defs": {"n": {"$anchor": "num", "type": "number"}}, "$ref": "#num"},
        ["1.5"],
        ['"x"'],
    ),
    (
        {
            "$id": "https://x.test/a/s.json",
            "items": {"$ref": "s.json#/$defs/n"},
            "$defs": {"n": {"type": "null"}},
        },
        ["[null]"],
        ["[1]"],
    ),
    (
        _with({"$ref": "#/$defs/S", "maxLength": 1}, **{"$defs": {"S": {"type": "string"}}}),
        ['{"a":"x"}'],
        ['{"a":"xy"}'],
    ),
    (
        {
            "$schema": "http://json-schema.org/draft-04/schema#",
            "type": "integer",
            "minimum": 3,
            "exclusiveMinimum": True,
        },
        ["4"],
        ["3"],
    ),
    (
        {"items": [{"type": "null"}, {"type": "integer"}], "additionalItems": False, "type": "array"},
        ["[null,1]", "[null]", "[]"],
        ["[1]", "[null,1,2]"],
    ),
    (_with({"not": {"type": "null"}}), ['{"a":1}'], ['{"a":null}']),
    (
        _with({"type": "string", "not": {"enum": ["x", "xy", 'q"']}}),
        ['{"a":""}', '{"a":"xz"}', '{"a":"xyz"}'],
        ['{"a":"x"}', '{"a":"xy"}', '{"a":"q\\""}'],
    ),
    (
        {
            "type": "object",
            "properties": {"a": {"const": "x"}, "b": {"type": "integer"}},
            "if": {"properties": {"a": {"const": "x"}}, "required": ["a"]},
            "then": {"required": ["b"]},
        },
        ["{}", '{"b":1}', '{"a":"x","b":1}'],
        ['{"a":"x"}'],
    ),
    (
        {"type": "object", "properties": {"a": {}, "b": {}}, "dependencies": {"a": ["b"]}},
        ["{}", '{"b":1}', '{"a":1,"b":2}'],
        ['{"a":1}'],
    ),
    (
        {
            "type": "object",
            "properties": {"a": {}, "b": {}},
            "oneOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        ['{"a":1}', '{"b":1}'],
        ["{}", '{"a":1,"b":1}'],
    ),
    (
        {"type": "object", "propertyNames": {"pattern": "^k"}, "additionalProperties": {"type": "integer"}},
        ['{"k1":1}', "{}"],
        ['{"x":1}', '{"k1":"x"}'],
    ),
    (
        {"patternProperties": {"^a": {"type": "integer"}, "b$": {"minimum": 3}}, "type": "object"},
        ['{"ab":4}', '{"a":1}'],
        ['{"ab":1}', '{"a":"x"}'],
    ),
    (
        {
            "type": "object",
            "properties": {"a": {"type": "integer"}},
            "patternProperties": {"^a$": {"minimum": 3}, "^b$": {"type": "null"}},
            "additionalProperties": False,
        },
        ['{"a":3}', '{"b":null}', "{}"],
        ['{"a":1}', '{"b":1}', '{"c":1}'],
    ),
    ({"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True}, ["[1,2]"], ["[1,1]"]),
    ({"type": "array", "contains": {"const": 5}, "items": {"type": "integer"}}, ["[1,5]"], ["[1]"]),
    ({"anyOf": [{"type": "null"}, {"type": "boolean"}]}, ["null", "true"], ["nulltrue", ""]),
    ({"type": "number"}, ["1.5e10", "-0.5", "1E+2"], ["1.", ".5", "NaN", "01", "Infinity", "1e999"]),
    (True, ["1", '"x"', "[]"], ["", "x"]),
]


@pytest.mark.parametrize(("schema", "possible", "impossible"), CASES, ids=lambda value: str(value)[:60])
def test_possible_texts(schema: Any, possible: list[str], impossible: list[str]) -> None:
    """Exactly the texts of instances are possible; `accepts` is mask and check together."""
    constraint = structured.compile(schema)
    for text in possible:
        assert constraint.accepts(text), (text, constraint.why_not(text), constraint.mask_accepts(text))
        assert constraint.parse(text) == json.loads(text)
    for text in impossible:
        assert not constraint.accepts(text), text


# (schema, pointer, keyword) of what is refused before the first token
REFUSED: list[tuple[Any, str, str | None]] = [
    (_with({"$ref": "#/$defs/Nope"}), "/properties/a", "$ref"),
    (_with({"$ref": "https://example.invalid/x.json"}), "/properties/a", "$ref"),
    (
        {"$ref": "#/$defs/A", "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}}},
        "/$defs/A",
        "$ref",
    ),
    (_with({"type": "strng"}), "/properties/a", "type"),
    (_with({"type": "string", "minLength": -1}), "/properties/a", "minLength"),
    (_with({"type": "string", "pattern": "(a"}), "/properties/a", "pattern"),
    (_with({"anyOf": []}), "/properties/a", "anyOf"),
    (_with({"type": "integer", "minimum": "3"}), "/properties/a", "minimum"),
    ({"type": "object", "properties": {"x/y": {"properties": []}}}, "/properties/x~1y", "properties"),
    (_with({"enum": []}), "", "required"),
    ({"enum": [2, 3], "const": 1}, "", None),
    (_with({"$ref": "#"}), "", None),
]


@pytest.mark.parametrize(("schema", "pointer", "keyword"), REFUSED, ids=lambda value: str(value)[:60])
def test_refusals_name_the_place(schema: Any, pointer: str, keyword: str | None) -> None:
    """What cannot be honoured is refused before the first token, with JSON pointer and keyword."""
    with pytest.raises(SchemaError) as caught:
        structured.compile(schema)
    assert (caught.value.pointer, caught.value.keyword) == (pointer, keyword)
    assert caught.value.remedy or keyword is not None


@pytest.mark.parametrize("spec", [3, None, [1], b"x"])
def test_wrong_inputs(spec: Any) -> None:
    """A value that is no type and no schema is an input error that says what is taken."""
    with pytest.raises(InputTypeError):
        structured.compile(spec)


def test_enforced_and_checked_are_named() -> None:
    """Each keyword is listed once, as enforced or as checked, with its pointer."""
    schema = {"type": "object", "properties": {"a": {"type": "array", "uniqueItems": True, "maxItems": 3}}}
    constraint = structured.compile(schema)
    enforced = {(keyword.pointer, keyword.keyword) for keyword in constraint.enforced}
    assert {
        ("", "type"),
        ("", "properties"),
        ("/properties/a", "type"),
        ("/properties/a", "maxItems"),
    } == enforced
    assert [(k.pointer, k.keyword) for k in constraint.checked] == [
        ("", "json"),
        ("/properties/a", "uniqueItems"),
    ]
    assert constraint.mask_accepts('{"a":[1,1]}')
    assert not constraint.accepts('{"a":[1,1]}')
    assert "uniqueItems at /properties/a" in constraint.describe()


def test_keywords_of_other_drafts_are_named() -> None:
    """A keyword that the named draft does not have has no effect, and is said to have none."""
    schema = {"$schema": "http://json-schema.org/draft-04/schema#", "type": "array", "contains": {"const": 1}}
    constraint = structured.compile(schema)
    assert constraint.accepts("[]")
    assert constraint.ignored == (("", "contains"),)
    assert "contains" in constraint.describe()


def test_declared_order_is_kept() -> None:
    """Keys come in declared order, as the order changes what a model answers."""
    schema = {"type": "object", "properties": {"reason": {}, "answer": {}}, "required": ["answer", "reason"]}
    constraint = structured.compile(schema)
    assert constraint.mask_accepts('{"reason":1,"answer":2}')
    assert not constraint.mask_accepts('{"answer":1,"reason":2}')


def test_a_sorted_schema_declares_no_order() -> None:
    """Where a tool sorted all keys, any order is possible; required keys come, and none twice."""
    names = ["alpha", "beta", "delta", "gamma", "omega"]
    schema = {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in names},
        "required": ["omega", "alpha"],
        "additionalProperties": False,
    }
    constraint = structured.compile(schema)
    assert constraint.mask_accepts('{"omega":1,"beta":2,"alpha":3}')
    assert not constraint.mask_accepts('{"omega":1,"beta":2}')
    assert not constraint.mask_accepts('{"omega":1,"alpha":2,"omega":3}')
    assert not constraint.mask_accepts('{"omega":1,"alpha":2,"zeta":3}')


def test_a_failed_answer_carries_text_partial_and_reason() -> None:
    """`parse` raises one error, with the text, what could be read, and a reason for a retry."""
    constraint = structured.compile("name, age int, tags list[str]")
    text = '{"name":"Ann","age":4,"tags":["x'
    with pytest.raises(StructuredOutputError, match="not JSON") as caught:
        constraint.parse(text)
    assert caught.value.text == text
    assert caught.value.partial == {"name": "Ann", "age": 4, "tags": ["x"]}
    with pytest.raises(StructuredOutputError, match=r"'old' is not of type 'integer' \(at /age"):
        constraint.parse('{"name":"Ann","age":"old","tags":[]}')


def test_short_form() -> None:
    """The short form is a closed object of required fields with nested types and choices."""
    constraint = structured.compile("name, age int?, mood happy|sad, rows list[dict[str, float]], when: date")
    assert constraint.accepts('{"name":"a","age":null,"mood":"sad","rows":[{"x":1.5}],"when":"2024-01-02"}')
    assert not constraint.accepts('{"name":"a","age":1,"mood":"angry","rows":[],"when":"2024-01-02"}')
    for bad, place in (("a nonsense", "/properties/a"), ("a, a", "/properties/a"), ("", ""), ("1x", "")):
        with pytest.raises(SchemaError) as caught:
            structured.compile(bad)
        assert caught.value.pointer == place


def test_limits_of_size_and_depth() -> None:
    """100 objects inside each other work; what is larger is refused, not tried."""
    schema: Any = {"type": "null"}
    for _ in range(100):
        schema = {"type": "object", "properties": {"x": schema}, "required": ["x"]}
    assert structured.compile(schema).accepts('{"x":' * 100 + "null" + "}" * 100)
    for _ in range(20):
        schema = {"type": "object", "properties": {"x": schema}}
    with pytest.raises(SchemaError, match="too large"):
        structured.compile(schema)
    with pytest.raises(SchemaError, match="too large"):
        structured.compile({"enum": list(range(60_000))})


def test_compiled_once() -> None:
    """The same schema gives the same constraint; another one does not."""
    assert structured.compile({"type": "null"}) is structured.compile({"type": "null"})
    assert structured.compile({"const": 1}) is not structured.compile({"const": True})


_REFUSED = {"ref_missing", "ref_remote", "enum_empty"}


def _lines(name: str) -> list[Any]:
    path = DATA / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize("case", _lines("schemas.jsonl"), ids=lambda case: str(case["name"]))
def test_shared_schemas(case: Any) -> None:
    """Each shared schema allows its valid texts and no invalid one, or is refused where none is valid."""
    if not case["valid"] and case["name"] in _REFUSED:
        with pytest.raises(SchemaError):
            structured.compile(case["schema"])
        return
    constraint = structured.compile(case["schema"])
    assert [text for text in case["valid"] if not constraint.accepts(text)] == []
    assert [text for text in case["invalid"] if constraint.accepts(text)] == []
