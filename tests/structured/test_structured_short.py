"""The short form, what a model reads of a schema, and what is said of a wrong regex or grammar."""

from __future__ import annotations

import json
from typing import Any

import pytest
from pydantic import BaseModel, Field, field_validator

from llama_magic import structured
from llama_magic.errors import SchemaError


class City(BaseModel):
    """A place with people."""

    name: str = Field(description="as the people there say it")
    people: int

    @field_validator("people")
    @classmethod
    def _some(cls, value: int) -> int:
        if value < 1:
            raise ValueError("nobody lives there")
        return value


FORMS: list[tuple[str, dict[str, Any]]] = [  # (short form, its properties)
    ("name", {"name": {"type": "string"}}),
    ("when: date", {"when": {"type": "string", "format": "date"}}),
    ("mood: happy|sad", {"mood": {"enum": ["happy", "sad"]}}),
    ("vibe: as a haiku", {"vibe": {"type": "string", "description": "as a haiku"}}),
    ("age int: in years", {"age": {"type": "integer", "description": "in years"}}),
    ('v: "short, and sweet", n', {
        "v": {"type": "string", "description": "short, and sweet"},
        "n": {"type": "string"},
    }),
    ("a\nb: one, two\nc int?", {
        "a": {"type": "string"},
        "b": {"type": "string", "description": "one, two"},
        "c": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    }),
    ("tags list[str]: at most 3", {
        "tags": {"type": "array", "items": {"type": "string"}, "description": "at most 3"},
    }),
]  # fmt: skip


@pytest.mark.parametrize(("form", "properties"), FORMS)
def test_short_forms(form: str, properties: dict[str, Any]) -> None:
    """A field is a name, a type where there is one, and after a colon what describes it."""
    made = structured.short_form(form)
    assert made["properties"] == properties
    assert made["required"] == list(properties)


def test_classes_in_a_short_form() -> None:
    """A class of the namespace stands for a type, nested as one likes; its instances come back, validated."""
    form = "name, cities list[City], home City?, by dict[str, City], d date, m happy|sad"
    constraint = structured.compile(structured.short_form(form, {"City": City}))
    rome = {"name": "Roma", "people": 3}
    value = {"name": "x", "cities": [rome], "home": None, "by": {"a": rome}, "d": "2024-01-02", "m": "sad"}
    parsed = constraint.parse(json.dumps(value))
    assert parsed["cities"] == [City(**rome)]
    assert parsed["by"] == {"a": City(**rome)}
    assert (parsed["home"], parsed["d"], parsed["m"]) == (None, "2024-01-02", "sad")
    assert "nobody" in str(constraint.why_not(json.dumps({**value, "cities": [{**rome, "people": 0}]})))
    assert not constraint.accepts(json.dumps({**value, "m": "cross"}))
    with pytest.raises(SchemaError, match="Town"):
        structured.short_form("cities list[Town]", {"City": City})


@pytest.mark.parametrize(
    ("kind", "fits", "fails"),
    [
        ("Literal['good', 'bad']", "good", "fair"),
        ("Literal[1, -2]", -2, 2),
        ("Optional[int]", None, "1"),
        ("set[int]", [1, 2], [1, 1]),
        ("tuple[int, str]", [1, "a"], ["a", 1]),
        ("Annotated[int, Field(ge=3)]", 3, 2),
        ("list[Literal['a', 'b'] | None]", ["a", None], ["c"]),
        ("list[City]", [{"name": "Roma", "people": 3}], [{"name": "Roma", "people": 0}]),
    ],
)
@pytest.mark.parametrize("mark", [" ", ": "])
def test_a_type_in_the_notation_of_python(kind: str, fits: Any, fails: Any, mark: str) -> None:
    """`mood: Literal['good', 'bad']` bounds the field, as it does in a class, after a colon or a blank."""
    constraint = structured.compile(structured.short_form(f"mood{mark}{kind}, why", {"City": City}))
    assert constraint.accepts(json.dumps({"mood": fits, "why": "w"}))
    assert not constraint.accepts(json.dumps({"mood": fails, "why": "w"}))


@pytest.mark.parametrize("kind", ["list[Town]", "Litteral['a']", "set[print('x')]", "Literal[Town]"])
def test_what_looks_like_a_type_and_is_none_describes_nothing(kind: str) -> None:
    """A wrong type after a colon is refused by name; calls are words, and are not made."""
    if "(" in kind:
        assert structured.short_form(f"v: {kind}")["properties"]["v"]["description"] == kind
        return
    with pytest.raises(SchemaError, match=r"Town|Litteral"):
        structured.short_form(f"v: {kind}")


def test_what_a_model_reads() -> None:
    """The text for a model holds descriptions and no titles; a property may be called title."""
    text = structured.schema_text(structured.compile(list[City]).schema)
    assert "as the people there say it" in text
    assert "A place with people." in text
    assert "title" not in text
    schema = {"type": "object", "title": "T", "properties": {"title": {"type": "string", "title": "X"}}}
    assert json.loads(structured.schema_text(schema)) == {
        "type": "object",
        "properties": {"title": {"type": "string"}},
    }


REGEXES: list[tuple[str, str]] = [  # (pattern, what is said)
    ("(", "missing .*position 0"),
    ("ab)", "position 2"),
    ("x[a", "unterminated character set at position 1"),
    ("*a", "nothing to repeat at position 0"),
    ("a{2,1}", "min repeat greater than max"),
    ("ab[z-a]", "bad character range z-a at position 3"),
    (r"^a$(b", "position 3"),
    (r"(a)\1", "backreference or condition at position 3"),
    (r"ab\Zc", "unrecognized escape sequence at position 2"),
    ("(?>a)b", "atomic group"),
    ("x" * 20_001, "20,001 characters"),
]


@pytest.mark.parametrize(("pattern", "said"), REGEXES, ids=lambda value: str(value)[:20])
def test_a_wrong_regex(pattern: str, said: str) -> None:
    """The message says what is wrong and where."""
    with pytest.raises(SchemaError, match=said):
        structured.compile(regex=pattern)


def test_classes_of_unicode() -> None:
    r"""\p{L} means in `regex` what it means in a schema's `pattern`."""
    for constraint, quote in (
        (structured.compile(regex=r"\p{Lu}\p{L}+"), ""),
        (structured.compile({"type": "string", "pattern": r"^\p{Lu}\p{L}+$"}), '"'),
    ):
        assert constraint.accepts(f"{quote}Été{quote}")
        assert not constraint.accepts(f"{quote}été{quote}")
        assert not constraint.accepts(f"{quote}É1{quote}")


def test_a_grammar_that_begins_a_line_with_an_alternative() -> None:
    """llama.cpp reads a new rule there; the message says how to go on."""
    with pytest.raises(SchemaError, match=r"line 2, column 2.*brackets"):
        structured.compile(grammar='root ::= "a"\n | "b"')
