"""`{{ }}` in a body: one pass, strict, sandboxed; everything else is literal."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_magic.errors import TemplateError
from llama_magic.magics._interpolate import interpolate


def fill(body: str, **names: Any) -> str:
    return interpolate(body, names)


@pytest.mark.parametrize(
    "body",
    [
        "{v:k for k,v in d.items()}",
        "function f() { const x = { a: 1 }; return x }",
        '{"a": {"b": {"c": [1, {"d": 2}]}}}',
        "f'{x}' and $HOME and ${HOME} and %s",
        "{% if x %}no{% endif %} {# not a comment #}",
        "\\frac{a}{b} }} }}",
        'println!("{{}}") and {{ }}',
    ],
)
def test_code_is_literal(body: str) -> None:
    """Single braces, JSON, JavaScript, LaTeX, `{%`, and empty pairs are sent as they stand."""
    assert fill(body) == body


@settings(deadline=None)  # the machine is shared, and the first call imports
@given(st.text(alphabet="{}[]%#$ab\"'\n ").filter(lambda text: "{{" not in text))
def test_a_body_without_two_opening_braces_is_untouched(body: str) -> None:
    """Only `{{` starts anything."""
    filled = interpolate(body, {})
    assert (filled, filled.spans) == (body, ())


@settings(deadline=None)  # the machine is shared, and the first call imports
@given(st.text())
def test_values_are_never_read_again(value: str) -> None:
    """A value that itself holds `{{ }}` stays as it is, and its span is exactly its place."""
    filled = interpolate("<{{ value }}> and {{ value }}!", {"value": value})
    assert filled == f"<{value}> and {value}!"
    assert [filled[start:end] for _, start, end in filled.spans] == [value, value]
    assert [label for label, _, _ in filled.spans] == ["value", "value"]


def test_expressions() -> None:
    """Attributes, items, filters, arithmetic, calls and inner braces work; non-strings become text."""
    names = {"d": {"k": [1, 2]}, "n": 3, "s": "ab", "f": lambda x: x * 2, "none": None, "result": "me"}
    assert (
        fill("{{ d.k[1] }} {{ d['k']|length }} {{ n + 1 }} {{ s.upper() }} {{ f(n) }}", **names)
        == "2 2 4 AB 6"
    )
    assert fill("{{ {'a': {'b': 5}}['a']['b'] }}") == "5"
    assert fill("{{ '}}' }}{{ \"{{\" }}") == "}}{{"
    assert fill("{{ none }} {{ n }} {{ result }}", **names) == "None 3 me"
    assert fill("{{'a'\n}}") == "a"
    assert fill("{{ 'x' ~ n }}", n=1) == "x1"


@pytest.mark.parametrize("name", ["missing", "lipsum", "cycler"])
def test_a_missing_name_is_named(name: str) -> None:
    """A name that is not in the namespace is an error that names it and its line; so are Jinja's globals."""
    with pytest.raises(TemplateError, match=rf"(?s)line 2.*{name}.*--raw"):
        fill(f"first line\n{{{{ {name} }}}}")


def test_a_missing_attribute_is_named() -> None:
    """So is a missing key or attribute."""
    with pytest.raises(TemplateError, match="nope"):
        fill("{{ d.nope }}", d={})


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("<div style={{ color: 'red' }}>", "is not an expression"),
        ("a {{ b", "never closed"),
        ("{{ name }", "never closed"),
        ("{{ don't }}", "is not an expression"),
        ("{{ 1/0 }}", "ZeroDivisionError"),
        ("{{ ''.__class__.__mro__ }}", "(?i)unsafe|not allowed|undefined"),
        ("{{ f.__globals__ }}", "(?i)unsafe|not allowed|undefined"),
    ],
)
def test_what_is_no_expression_is_refused(body: str, said: str) -> None:
    """Double braces that mean something else say how to keep them; the sandbox holds."""
    with pytest.raises(TemplateError, match=said):
        fill(body, name=1, f=fill)


def test_json_of_a_value_survives() -> None:
    """A JSON text as value arrives byte for byte."""
    text = json.dumps({"a": [{"b": "{{ x }}"}]}, indent=1)
    assert fill("{{ t }}", t=text, x="no") == text
