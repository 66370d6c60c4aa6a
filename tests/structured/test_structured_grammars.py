"""Grammars, regular expressions and choices."""

from __future__ import annotations

import itertools
import json
import re
from enum import Enum, IntEnum
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structured_support import DATA

from llama_magic import structured
from llama_magic.errors import InputTypeError, SchemaError, StructuredOutputError

# (grammar, texts to accept, texts to refuse)
GBNF: list[tuple[str, list[str], list[str]]] = [
    ('root ::= expr\nexpr ::= term ("+" term)*\nterm ::= [0-9]+', ["1+22"], ["1+", "+", ""]),
    ('root ::= ... "abc" ...', ["🔵🟠✅abc❌🟠🔵"], ["aaabcccc", "🔵🟠abc🟠🔵"]),
    ('root ::= [a-z]* "end"', ["end", "xend", "endend"], ["en", "endx"]),
    ('root ::= "(" root ")" | [a-z]* "end"', ["((xend))", "end"], ["(end", "(en)"]),
    ("root ::= ( [x]* )*", ["", "xx"], ["y"]),
    ('root ::= ("0x" [A-F0-9]{2} " "?){2,3} # a comment\n', ["0xFF 0x12"], ["0xFF", "0xFF 0xFF 0xFF 0xFF"]),
    ('root ::= ([^"\\\\] | "\\\\" ["nr])+', ["ab\\n", '\\"'], ['"', "\\x", ""]),
    ('root ::= a-b\n\na-b ::=\n  "x" |\n  "\\u00e9" "\\x41"', ["x", "éA"], ["é"]),
    ('root ::= "\\ud83d\\ude00" [\\uD83D\\uDE00-\\ud83d\\ude02]', ["\U0001f600\U0001f601"], ["\U0001f600x"]),
    ("root ::= [\\]\\-a^]+", ["]-a^"], ["b"]),
    ('root ::= "{"', ["{"], ["{{"]),
]


@pytest.mark.parametrize(("grammar", "yes", "no"), GBNF, ids=lambda value: str(value)[:40])
def test_gbnf(grammar: str, yes: list[str], no: list[str]) -> None:
    """A GBNF grammar allows exactly its texts, whole texts only."""
    constraint = structured.compile(grammar=grammar)
    assert [text for text in yes if not constraint.accepts(text)] == []
    assert [text for text in no if constraint.accepts(text)] == []


@pytest.mark.parametrize(
    ("grammar", "message"),
    [
        ("", "empty"),
        (" \n", "empty"),
        ('start ::= "a"', "no rule called root"),
        ("root ::= foo", "foo, which is not defined"),
        ('root ::= root "a" | "a"', "root is left-recursive"),
        ('root ::= x\nx ::= "q"? y\ny ::= x "b" | "b"', "left-recursive"),
        ('root ::= "a" root', "no way to end"),
        ('root ::= "unterminated', "line 1, column 10"),
        ("root ::= 'yes'", r"column 10: .*\nTexts stand in double quotes"),
        ('root ::= "a"\nx ::= [b', "line 2, column 7"),
        ('root ::= "a\x00b"', "NUL"),
        ('root ::= "\\q"', "escapes"),
        ('root ::= ("a"', r"closing \)"),
        ('root ::= "a"{3,2}', "smaller number first"),
        ("root ::= <tool>", "token references"),
        ('root ::= "a"\nroot ::= "b"', "defined twice"),
        ('root = "a"', "::="),
    ],
)
def test_gbnf_errors_say_where(grammar: str, message: str) -> None:
    """A grammar that cannot be used is refused with the place or the rule."""
    with pytest.raises(SchemaError, match=message):
        structured.compile(grammar=grammar)


_ATOMS = st.sampled_from(['"a"', '"b"', '"ab"', "[ab]", "[^a]", "."])


@st.composite
def _bodies(draw: st.DrawFn) -> str:
    body = draw(_ATOMS)
    for _ in range(draw(st.integers(0, 4))):
        other = draw(_ATOMS)
        body = draw(
            st.sampled_from([f"{body} {other}", f"({body} | {other})", f"({body}){{1,2}}", f"({body})*"])
        )
    return body


@settings(max_examples=60, deadline=None)
@given(_bodies(), st.lists(st.text("abc", max_size=5), min_size=5, max_size=5), st.booleans())
def test_gbnf_agrees_with_re(body: str, texts: list[str], recursive: bool) -> None:
    """Without recursion a grammar means the same as Python's regular expression, recursive or not in form."""
    pattern = re.compile(body.replace(" ", "").replace('"', ""), re.DOTALL)
    more = '\nroot ::= x | "(" root ")"' if recursive else "\nroot ::= x"
    constraint = structured.compile(grammar=f"x ::= {body}{more}")
    for text in texts:
        assert constraint.accepts(text) == bool(pattern.fullmatch(text)), (body, text)


def test_regex_is_a_full_match() -> None:
    """A regex constrains the whole answer; anchors at its ends change nothing."""
    for pattern in (r"\d{3}-[a-c]+", r"^\d{3}-[a-c]+$", r"\A\d{3}-[a-c]+\Z"):
        constraint = structured.compile(regex=pattern)
        assert constraint.accepts("123-ab")
        assert not any(constraint.accepts(text) for text in ("x123-ab", "123-abd", "12-a", ""))
    assert constraint.parse("123-ab") == "123-ab"
    with pytest.raises(StructuredOutputError, match="does not match"):
        constraint.parse("12")


def test_regex_look_around_is_checked_after() -> None:
    """What the mask cannot say is named and checked after; what nobody can check is refused."""
    constraint = structured.compile(regex=r"(?!ab)[a-c]{2}")
    assert [keyword.keyword for keyword in constraint.checked] == ["regex"]
    assert constraint.mask_accepts("ab")
    assert not constraint.accepts("ab")
    assert constraint.accepts("ac")
    for bad in ("(a", r"(a)\1"):
        with pytest.raises(SchemaError):
            structured.compile(regex=bad)


@settings(max_examples=50, deadline=None)
@given(st.lists(st.text(min_size=1, max_size=8).filter(str.isprintable), min_size=1, max_size=6, unique=True))
def test_choices(choices: list[str]) -> None:
    """Exactly the choices are possible, prefixes of each other and special characters included."""
    constraint = structured.compile(choices=choices)
    for choice in choices:
        assert constraint.accepts(choice)
        assert constraint.parse(choice) == choice
        assert constraint.accepts(choice + "x") == (choice + "x" in choices)


def test_choices_keep_their_type() -> None:
    """A choice that is a number comes back as that number; nothing to choose from is an error."""
    assert structured.compile(choices=[1, 2.5, "x"]).parse("2.5") == 2.5
    with pytest.raises(SchemaError, match="nothing to choose"):
        structured.compile(choices=[])
    with pytest.raises(InputTypeError):
        structured.compile(choices=[object()])
    with pytest.raises(SchemaError, match="more than 1,000,000 choices"):
        structured.compile(choices=map(str, itertools.count()))


class Mood(str, Enum):  # noqa: UP042 - whose `str` is Mood.GOOD
    GOOD = "good"


class Level(IntEnum):
    LOW = 1


class Size(Enum):
    BIG = "big"


@pytest.mark.parametrize(
    ("member", "plain"), [(Mood.GOOD, "good"), (Level.LOW, 1), (Size.BIG, "big"), (True, "True")]
)
def test_choices_that_are_members_are_written_as_their_values(member: Any, plain: Any) -> None:
    """A member comes back where it was offered, its value where that was, whichever was asked for first."""
    for choice in (member, plain, member):
        constraint = structured.compile(choices=[choice])
        assert constraint.accepts(str(plain))
        assert constraint.parse(str(plain)) is choice
        assert constraint.asked == {"choices": [getattr(choice, "value", choice)]}  # for the receipt: JSON


def test_lark() -> None:
    """A Lark grammar in llguidance's dialect is taken as it is; its errors are ours."""
    constraint = structured.compile(lark='start: "a" | "b" start')
    assert constraint.accepts("bba")
    assert not constraint.accepts("bb")
    for bad in ("", "start: nope", "x: y z ::"):
        with pytest.raises(SchemaError):
            structured.compile(lark=bad)


def test_one_kind_at_a_time() -> None:
    """Two kinds at once, or none, are an input error."""
    with pytest.raises(InputTypeError, match="exactly one"):
        structured.compile({"type": "null"}, regex="a")
    with pytest.raises(InputTypeError, match="exactly one"):
        structured.compile()


def _cases() -> list[Any]:
    path = DATA / "grammar_cases.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize("case", _cases(), ids=lambda case: str(case["id"]))
def test_shared_grammar_cases(case: Any) -> None:
    """llama.cpp's own cases come out as it says."""
    is_schema = case["kind"] == "schema"
    made = (
        structured.compile(json.loads(case["src"])) if is_schema else structured.compile(grammar=case["src"])
    )
    assert [text for text in case["ok"] if not made.accepts(text)] == []
    assert [text for text in case["bad"] if made.accepts(text)] == []


@pytest.mark.parametrize("kind", ["grammar", "lark"])
def test_deep_chains_of_rules_are_refused(kind: str) -> None:
    """A chain of 3,000 rules, on which llguidance ends the process, is a SchemaError; one of 200 compiles."""

    def chain(length: int) -> str:
        sign, first = ("::=", "root") if kind == "grammar" else (":", "start")
        links = [f'r{i} {sign} "a" r{i + 1}' for i in range(length)]
        return "\n".join([f"{first} {sign} r0", *links, f'r{length} {sign} "b"'])

    assert structured.compile(**{kind: chain(200)}).mask_accepts("a" * 200 + "b")
    with pytest.raises(SchemaError, match="400 deep"):
        structured.compile(**{kind: chain(3000)})
