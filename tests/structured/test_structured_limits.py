"""Hostile inputs: what asks for too much work is refused by name, what matches nothing is a SchemaError."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from llama_magic import structured
from llama_magic.errors import SchemaError
from llama_magic.structured.grammar.grammar import machine_of
from llama_magic.structured.schema.regex_runs import work


def _levels(keyword: str, deep: int = 10, wide: int = 10) -> Any:
    """Ten levels of ten references: 10^10 parts when they are followed."""
    defs: dict[str, Any] = {f"L{i}": {keyword: [{"$ref": f"#/$defs/L{i + 1}"}] * wide} for i in range(deep)}
    return {"$ref": "#/$defs/L0", "$defs": {**defs, f"L{deep}": {"type": "string"}}}


def _nested(deep: int) -> Any:
    schema: Any = {"type": "null"}
    for _ in range(deep):
        schema = {"type": "object", "properties": {"x": schema}}
    return schema


def _chain(deep: int) -> Any:
    defs: dict[str, Any] = {
        f"L{i}": {"type": "object", "properties": {"x": {"$ref": f"#/$defs/L{i + 1}"}}} for i in range(deep)
    }
    return {"$ref": "#/$defs/L0", "$defs": {**defs, f"L{deep}": {"type": "null"}}}


# (schema, what the message says, pointer)
TOO_MUCH: list[tuple[Any, str, str | None]] = [
    (_levels("allOf"), "more than 50,000 parts", "/$defs/L5"),
    (_levels("anyOf"), "more than 50,000 parts", "/$defs/L5"),
    (_levels("oneOf"), "more than 50,000 parts", "/$defs/L5"),
    (_levels("allOf", 500, 1), "more than 400 deep", "/$defs/L200"),
    (_nested(2000), "deeper than 220 levels", None),
    (_chain(2000), "deeper than 150 schemas", "/$defs/L74/properties/x"),
    ({"enum": [f"value{i}" for i in range(100_000)]}, "more than 50,000 values", "/enum"),
    ({"enum": ["x" * 100_000 + str(i) for i in range(30)]}, "2,000,000 characters", None),
    ({"const": "x" * 200_000}, "more than 100,000 characters", ""),
    ({"type": "string", "pattern": "^a{1000000000}$"}, "pattern at the root asks for more than 100,000", ""),
    ({"type": "object", "patternProperties": {"((a{1000}){1000})": {}}}, "100,000 characters", None),
    (
        {"properties": {"a": {"type": "string", "pattern": ".*" * 9000}}},
        "at /properties/a has more than 500",
        None,
    ),
    ({"type": "object", "patternProperties": {r"\S*\s*" * 400: {}}}, "more than 500 parts in a row", ""),
    (
        {"type": "object", "propertyNames": {"pattern": "(a?b?)" * 300}},
        "more than 500 parts",
        "/propertyNames",
    ),
]


@pytest.mark.parametrize(("schema", "message", "pointer"), TOO_MUCH, ids=itertools.count())
def test_too_much_work_is_refused(schema: Any, message: str, pointer: str | None) -> None:
    """A schema over a limit is refused with the limit and the place, before the work is done."""
    with pytest.raises(SchemaError, match=message) as caught:
        structured.compile(schema)
    if pointer is not None:
        assert caught.value.pointer == pointer
    assert caught.value.remedy


def _inner(lists: int) -> Any:
    return {"type": "array", "minItems": 1000, "items": _inner(lists - 1) if lists else {"type": "integer"}}


@pytest.mark.parametrize(
    ("schema", "yes", "no"),
    [
        ({"type": "string", "minLength": 10**9}, [], ['"a"']),
        ({"type": "string", "maxLength": 10**9}, ['"a"'], ["1"]),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 10**9}, [], ["[1]"]),
        (_inner(3), [], ["[]"]),
        ({"type": "integer", "allOf": [{"multipleOf": p} for p in (97, 89, 83, 79)]}, ["56606581"], ["97"]),
        ({"type": "integer", "const": -(10**40)}, [str(-(10**40))], ["5"]),
        ({"type": "integer", "minimum": -(2**63), "maximum": -(2**63)}, [str(-(2**63))], ["0"]),
        (
            {"allOf": [{"anyOf": [{"required": [f"{i}{j}"]} for j in range(20)]} for i in range(20)]},
            [],
            ["{}"],
        ),
        (
            {"type": "object", "patternProperties": {f"k{i}": {"minimum": i} for i in range(400)}},
            ["{}"],
            ["1"],
        ),
        (
            {"type": "string", "pattern": "^(?:" + "|".join(f"w{i}" for i in range(900)) + ")$"},
            ['"w7"'],
            ['"w"'],
        ),
        (_levels("allOf", 4), ['"a"'], ["1"]),
    ],
    ids=itertools.count(),
)
def test_large_but_possible(schema: Any, yes: list[str], no: list[str]) -> None:
    """What is large and can be had works; what the mask cannot hold is checked after the answer."""
    constraint = structured.compile(schema)
    assert [text for text in yes if not constraint.accepts(text)] == []
    assert [text for text in no if constraint.accepts(text)] == []
    assert constraint.min_tokens() >= 0


def test_a_check_goes_through_shared_definitions_once() -> None:
    """A value 8 deep under 8 references a level, 16 million checks one by one, is checked and refused."""
    defs: dict[str, Any] = {
        f"L{i}": {"properties": {"x": {"allOf": [{"$ref": f"#/$defs/L{i + 1}"}] * 8}}} for i in range(8)
    }
    defs["L8"] = {"type": "integer"}
    constraint = structured.compile({"$ref": "#/$defs/L0", "$defs": defs})
    assert constraint.accepts('{"x":' * 8 + "1" + "}" * 8)
    assert "'a' is not of type 'integer' (at /x/x/x/x/x/x/x/x" in str(
        constraint.why_not('{"x":' * 8 + '"a"' + "}" * 8)
    )


NOTHING: list[tuple[str, Any]] = [
    ("regex", r"[^\s\S]"),
    ("regex", r"a[^\s\S]"),
    ("grammar", r"root ::= [^\U00000000-\U0010FFFF]"),
    ("grammar", 'root ::= x\nx ::= "(" x ")" | [^\\U00000000-\\U0010FFFF]'),
    ("choices", []),
    ("spec", {"enum": []}),
    ("spec", {"not": {}}),
    ("spec", {"allOf": [{"const": 1}, {"const": 2}]}),
    ("spec", {"type": "string", "pattern": r"^[^\s\S]$"}),
    ("spec", {"type": "string", "pattern": "^abc$", "maxLength": 2}),
]


@pytest.mark.parametrize(("kind", "value"), NOTHING, ids=itertools.count())
def test_what_matches_nothing_is_refused(kind: str, value: Any) -> None:
    """A regex, grammar, choice or schema that no text can follow is a SchemaError before the first token."""
    with pytest.raises(SchemaError):
        structured.compile(**{kind: value})


@pytest.mark.parametrize(
    ("kind", "value", "message"),
    [
        ("regex", "a{1000000000}", "more than 100,000 characters"),
        ("regex", "((a{1000}){1000}){1000}", "more than 100,000 characters"),
        ("regex", "(?:a{1000000000})?", "more than 100,000 characters"),
        ("grammar", 'root ::= (("a"{1000}){1000}){1000}', "more than 100,000 characters"),
        (
            "grammar",
            "\n".join(["root ::= r0", *(f"r{i} ::= " + f"r{i + 1} " * 10 for i in range(10)), 'r10 ::= "a"']),
            "more than 100,000 characters",
        ),
        ("grammar", 'root ::= "a"' + "*" * 5000, "20 repetitions of one item"),
        (
            "grammar",
            "\n".join(["root ::= r0", *(f"r{i} ::= r{i + 1}" for i in range(9000)), 'r9000 ::= "a"']),
            "400 deep",
        ),
        ("lark", "start: /a{1000000000}/", "100,000 at most"),
        ("lark", 'start: "a"{1000000000}', "100,000 at most"),
        ("choices", [f"word{i}" for i in range(100_000)], "50,000 and 2,000,000 at most"),
        ("choices", ["no", "ab" * 400_000], "has 800,000 characters; expected 100,000"),
        ("regex", ".*" * 9000, "more than 500 parts in a row"),
        ("regex", r"(?:\p{L}*(\s?))" * 300, "more than 500 parts in a row"),
        ("regex", "x(?:a{0,3}|(?:b?)+)" * 2 + "[^]a]*" * 501, "more than 500 parts in a row"),
        ("grammar", "root ::= " + "[a-z]* " * 5000, "more than 500 parts in a row"),
        ("grammar", "root ::= " + "some " * 501 + '\nsome ::= "a"?', "more than 500 parts in a row"),
        ("lark", "start: /" + ".*" * 9000 + "/", "more than 500 parts in a row"),
        ("lark", "start: A\nA: " + '"a"? ' * 5000, "in A, has more than 500"),
        ("lark", "start: A\nA: " + "B " * 600 + "\nB: /.*/", "in A, has more than 500"),
        ("lark", "start: " + '"a" ' * 60_000, "240,007 characters"),
    ],
    ids=itertools.count(),
)
def test_endless_expressions_are_refused(kind: str, value: Any, message: str) -> None:
    """A repetition or a chain that would take endless work is refused, and the limit is named."""
    with pytest.raises(SchemaError, match=message):
        structured.compile(**{kind: value})


@pytest.mark.parametrize("tail", ["", "\\"])
@pytest.mark.parametrize("piece", ["[", "[^", "(?=", "(?!", "(?<", "(?<=", "(", "a[b", "(?:[("])
def test_what_is_never_closed_is_refused_by_its_place(piece: str, tail: str) -> None:
    """20,000 characters of it take no longer than they are: no end is looked for again and again."""
    pattern = piece * (19_000 // len(piece)) + tail
    with pytest.raises(SchemaError, match=r"at position|nested too deeply"):
        structured.compile(regex=pattern)


def test_alternatives_of_alternatives_are_written_once() -> None:
    """Twenty levels of ten alternatives, all the same in the end, make a grammar of one text."""
    rules = [
        "root ::= r0",
        *(f"r{i} ::= " + " | ".join([f"r{i + 1}"] * 10) for i in range(20)),
        'r20 ::= "a"',
    ]
    constraint = structured.compile(grammar="\n".join(rules))
    assert constraint.accepts("a")
    assert not constraint.accepts("aa")


def test_a_regex_that_backtracks_is_checked_by_the_mask() -> None:
    """A cut answer under a regex on which Python's `re` would never end is refused at once."""
    constraint = structured.compile(regex="(a|a|aa)*b")
    assert constraint.why_not("a" * 5000) is not None
    assert constraint.accepts("a" * 5000 + "b")


def test_a_branch_without_end_is_left_out() -> None:
    """Where one branch of a union needs itself for ever, the mask offers the others only."""
    endless: dict[str, Any] = {
        "type": "object",
        "properties": {"x": {"$ref": "#/$defs/a"}},
        "required": ["x"],
    }
    defs = {"a": endless, "b": {"required": ["y"], "properties": {"y": {"$ref": "#/$defs/a"}}}}
    union = structured.compile({"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}], "$defs": defs})
    assert union.mask_accepts("null")
    optional = structured.compile(
        {"type": "object", "properties": {"x": {"$ref": "#/$defs/a"}, "n": {}}, "$defs": defs}
    )
    assert optional.accepts('{"n":1}')
    untyped = structured.compile({"$ref": "#/$defs/b", "$defs": defs})
    assert untyped.accepts("[1]")
    for constraint, start in ((union, "{"), (optional, '{"x":'), (untyped, "{")):
        machine = machine_of(constraint.grammar)
        assert machine.validate_tokens(list(start.encode())) < len(start)
    with pytest.raises(SchemaError, match="No "):
        structured.compile({"$ref": "#/$defs/a", "$defs": defs})


def test_a_wrong_shape_in_a_definition_is_named() -> None:
    """A keyword of the wrong shape behind `not` and a reference is refused at its place."""
    with pytest.raises(SchemaError) as caught:
        structured.compile({"not": {"$ref": "#/$defs/a"}, "$defs": {"a": {"type": None}}})
    assert (caught.value.pointer, caught.value.keyword) == ("/$defs/a", "type")


def test_hostile_inputs_neither_crash_nor_hang() -> None:
    """100 seeded hostile inputs work or are refused; a crash or a hang would end the process with a code."""
    soak = Path(__file__).with_name("soak_structured_hostile.py")
    done = subprocess.run(
        [sys.executable, str(soak), "0", "100"], capture_output=True, text=True, check=False, timeout=300
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found = {how: int(number) for how, number in re.findall(r"'([a-z ]+)': (\d+)", done.stdout)}
    assert sum(found.values()) == 100
    assert found["schema works"] > 2
    assert found["schema refused"] > 10


@pytest.mark.parametrize(
    ("pattern", "squares"),
    [
        ("abc", 0),
        ("a*b*c", 4),
        ("a*bc*", 2),
        ("(a*b*)(c*d*)", 16),
        ("a?(b*|c)d{0,2}e{2}", 10),
        ("(?:a*){9}", 2),
        (r"\(?[*?]?\*{,3}", 9),
        ("(?i)^(?P<n>a?)$(?:b?)", 4),
    ],
)
def test_the_work_of_an_expression_is_counted(pattern: str, squares: int) -> None:
    """Parts in a row that may be left out count with their square; a repeated group is one part."""
    assert work(pattern) == squares


@pytest.mark.parametrize(
    ("pattern", "yes", "no"),
    [
        ("a*b*" * 200, "abab", "abc"),
        ("(?:x[^,]*,)" * 1000, "x1," * 1000, "x1," * 999),
        ("|".join(f".*{i}a" for i in range(2000)), "zz77a", "zz77b"),
    ],
    ids=itertools.count(),
)
def test_long_expressions_within_the_limits_work(pattern: str, yes: str, no: str) -> None:
    """What is long and makes little work is taken."""
    constraint = structured.compile(regex=pattern)
    assert constraint.accepts(yes)
    assert not constraint.accepts(no)
