"""Regular expressions: what the mask admits matches in Python's `re`, or they are refused by name."""

from __future__ import annotations

import re
import warnings

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_magic import structured
from llama_magic.errors import SchemaError

REFUSED = [
    ("[[:alpha:]]+", "a POSIX class [:alpha:] (write [A-Za-z]) at position 1"),
    ("x[^[:space:]]", r"a POSIX class [:space:] (write \s) at position 3"),
    ("[a-z[:digit:]]", "a POSIX class [:digit:] (write [0-9]) at position 4"),
    ("[[:^alpha:]]", "a POSIX class [:^alpha:] at position 1"),
    ("[[.a.]]", "a POSIX class [.a.] at position 1"),
    ("[[=a=]]", "a POSIX class [=a=] at position 1"),
    ("[:alpha:]", "a POSIX class [:alpha:] (write [A-Za-z]) at position 1"),
    ("ba*+a", "a possessive quantifier (*+) at position 3"),
    ("a?+a", "a possessive quantifier (?+) at position 2"),
    ("a{1,2}+", "a possessive quantifier ({1,2}+) at position 6"),
    ("a**", "a quantifier after a quantifier at position 2"),
    ("a+?+", "a quantifier after a quantifier at position 3"),
    ("a{2}{3}", "a quantifier after a quantifier at position 4"),
    ("(?>a*)a", "an atomic group at position 0"),
    ("a(?#word)b", "a comment at position 1"),
    ("(?|a|b)", "a branch reset at position 0"),
    ("a(?R)?", "a recursion at position 1"),
    ("(?&x)", "a recursion at position 0"),
    ("(?'n'a)", "a name in quotes at position 0"),
    ("(?U)a+", "the flag 'U'"),
    (r"(?a)\w", "the flag 'a'"),
    (r"(?u:\w)", "the flag 'u'"),
    ("(?i-R:a)", "the flag 'R'"),
    ("x(?i)a", "flags behind the beginning"),
    ("[a-z&&[^b]]", r"an operator on sets && (write \& for the character) at position 4"),
    (r"[\w--\d]", r"an operator on sets -- (write \- for the character) at position 3"),
    ("[a~~b]", r"an operator on sets ~~ (write \~ for the character) at position 2"),
    (r"\07", r"an octal escape (write \xHH) at position 0"),
    (r"\141", r"an octal escape (write \xHH) at position 0"),
    (r"(a)\1", "a backreference or condition at position 3"),
    ("(?P<n>a)(?P=n)", "a backreference or condition at position 8"),
    ("(a)?(?(1)b|c)", "a backreference or condition at position 4"),
    (r"\Q.\E", r"bad escape \Q at position 0"),
    (r"a\Kb", r"bad escape \K at position 1"),
    (r"a\G", r"bad escape \G at position 1"),
    (r"\h+", r"bad escape \h at position 0"),
    (r"\cA", r"bad escape \c at position 0"),
    (r"\p{Nonsense}", "Unicode property not found at position 0"),
]


@pytest.mark.parametrize(("pattern", "said"), REFUSED)
def test_what_other_dialects_write_is_refused_by_name(pattern: str, said: str) -> None:
    """Each is named with its place, and never read as something that it does not say."""
    with pytest.raises(SchemaError) as caught:
        structured.compile(regex=pattern)
    assert said in str(caught.value)


@pytest.mark.parametrize("pattern", ["^[[:alpha:]]+$", "^a*+$", "^a{2}{3}$", "^(?>a)$", "^(?U)a+$"])
def test_patterns_of_a_schema_are_refused_as_well(pattern: str) -> None:
    """What a class of POSIX or a possessive quantifier is for ECMA 262 nobody means; the keyword is named."""
    with pytest.raises(SchemaError, match=r"pattern at .* has ") as caught:
        structured.compile({"type": "string", "pattern": pattern})
    assert caught.value.keyword == "pattern"


@pytest.mark.parametrize(
    ("pattern", "taken", "refused"),
    [
        (r"\p{L}+", ["aé", "Ω"], ["1", ""]),
        (r"\p{Greek}\P{L}", ["α1"], ["a1", "αβ"]),
        (r"[\p{Lu}_-]+", ["A-_É"], ["a"]),
        (r"\u{61}\x{1F600}[\u{62}-\u{64}]", ["a😀c"], ["a😀a", "u61"]),
        ("(?<year>[0-9]{4})", ["2026"], ["26"]),
        (r"[\w-.]+@", ["a-b.c@"], ["a+b@"]),  # ECMA 262: the hyphen is itself beside a set
        ("[--a]", ["-", ".", "A", "a"], ["b", ","]),
        ("[+--]", ["+", ",", "-"], [".", "*"]),
        ("[]a]", ["]", "a"], ["["]),
        ("[[(]", ["[", "("], [")"]),
        ("[!#$%&'*+/=?^_`{|}~-]", ["&", "~", "-", "^", "|"], ["@", "a"]),
        (r"a\z", ["a"], ["a\n", "az"]),
        ("(?i)straße", ["STRASSE"[:4] + "ße", "straße"], ["strase"]),
        ("(?s).(?-s:.)", ["\na"], ["a\n"]),
        (r"(?i:a)b", ["Ab", "ab"], ["AB"]),
    ],
)
def test_what_is_taken_means_what_it_says(pattern: str, taken: list[str], refused: list[str]) -> None:
    """Classes of Unicode, long escapes, named groups, hyphens and brackets in classes, flags of a group."""
    constraint = structured.compile(regex=pattern)
    assert all(constraint.accepts(text) for text in taken)
    assert not any(constraint.accepts(text) for text in refused)


ATOMS = [
    "a",
    "b",
    ".",
    r"\.",
    r"\d",
    r"\w",
    r"\s",
    r"\S",
    "[ab]",
    "[^a]",
    "[a-c]",
    "[-a]",
    "[a-]",
    "[]a]",
    "[a|b]",
]
ATOMS += [
    r"\x61",
    r"\u0062",
    r"[\x61-c]",
    r"[\]b]",
    r"\-",
    "(?i:A)",
    "(?:ab)",
    "(?P<n>a)",
    "(a|)",
    "[[a]",
    r"[\s\S]",
]
ODD = [
    "*+",
    "++",
    "?+",
    "**",
    "{2}{2}",
    "[[:alpha:]]",
    "(?>a)",
    "(?#b)",
    "(?U)",
    "(?i)",
    "[a&&b]",
    "[a--b]",
    r"\1",
    r"\b",
]
ODD += [
    "(?=a)",
    "(?!a)",
    "(?<=a)",
    "(?<!b)",
    r"\Z",
    r"\A",
    "^",
    "$",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    "{,2}",
    r"\p",
    r"\q",
    "|",
]
TEXTS = [
    "",
    "a",
    "b",
    "c",
    "ab",
    "aa",
    "ba",
    "aab",
    "aba",
    "abab",
    "aaa",
    "aaaa",
    "A",
    "Ab",
    "-",
    ".",
    "]",
    "[",
    "[a",
    "|",
    "||",
]
TEXTS += [
    "&",
    "&&",
    "--",
    ":",
    ":]",
    "a]",
    "l]",
    "1",
    "a1",
    " ",
    "a b",
    "\n",
    "a\n",
    "ab\n",
    "\t",
    "_",
    "[]",
    "{",
    "a{",
    "a{2}",
    "(",
    "#",
    "U",
]
parts = st.tuples(
    st.sampled_from(ATOMS), st.sampled_from(["", "", "", "*", "+", "?", "{2}", "{1,2}", "*?", "|"])
).map("".join)


@settings(max_examples=300)
@given(st.lists(parts | st.sampled_from(ODD), min_size=1, max_size=4).map("".join))
def test_what_the_mask_admits_matches_in_python(pattern: str) -> None:
    """Any expression is refused by our own error, or takes the very texts that `re.fullmatch` takes."""
    try:
        constraint = structured.compile(regex=pattern)
    except SchemaError:
        return
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        said = re.compile(pattern)  # \d and \w are those of ECMA 262, which differ beyond ASCII
    for text in TEXTS:
        assert constraint.accepts(text) == bool(said.fullmatch(text)), (pattern, text)


def test_no_warning_of_python_is_shown() -> None:
    """`re` warns of classes that a later Python may read as sets; none of that reaches the user."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for pattern in ("[[a]", "[a||b]", "[+--]", "[a-z||A-Z]"):
            structured.compile(regex=pattern)
            structured.compile({"type": "string", "pattern": f"^{pattern}$"})
