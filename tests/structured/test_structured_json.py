"""Strict JSON, unfinished JSON, formats and the report by field."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from structured_support import grown

from llama_magic import structured
from llama_magic.structured import field_report
from llama_magic.structured.answer import strictjson as _strictjson
from llama_magic.structured.schema import formats as _formats
from llama_magic.structured.schema import regex as _regex

VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(10**20), 10**20)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=50, deadline=None)
@given(st.dictionaries(st.text(max_size=4), VALUES, max_size=4), st.booleans(), st.sampled_from([None, 2]))
def test_partial_only_grows(value: Any, ascii_only: bool, indent: int | None) -> None:
    """Cut at any character, the readable part is part of the next cut's, and of the whole."""
    text = json.dumps(value, ensure_ascii=ascii_only, indent=indent)
    last: Any = {}
    for end in range(len(text) + 1):
        part = _strictjson.partial(text[:end], {})
        assert grown(last, part), (text[:end], last, part)
        last = part
    assert last == value
    assert _strictjson.loads(text) == value


@pytest.mark.parametrize(
    "text",
    [
        '{"a":1,"a":2}',
        "NaN",
        "[Infinity]",
        "-Infinity",
        '"\\ud800"',
        '"\n"',
        "[1,]",
        "1e999",
        "",
        "01",
        "[" * 300 + "]" * 300,
    ],
)
def test_not_strict_json(text: str) -> None:
    """What `json.loads` lets through and JSON does not, or another reader chokes on, is refused."""
    with pytest.raises(_strictjson.NotJSONError):
        _strictjson.loads(text)


_SAMPLES = st.one_of(
    st.text("0123456789-:TZ.+", max_size=25),
    st.from_regex(r"\A\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?)?\Z"),
    st.from_regex(r"\A\d\d:\d\d:\d\d(\.\d+)?([zZ]|[+-]\d\d:\d\d)?\Z"),
    st.from_regex(r"\AP(\d[YMWD])*(T(\d[HMS])*)?\Z"),
    st.from_regex(r"\A[0-9a-fA-F-]{34,37}\Z"),
    st.from_regex(r"\A[0-9.:a-f]{1,20}\Z"),
    st.from_regex(r"\A(/(~[012]|[a-z%]){0,3}){0,3}\Z"),
)


@settings(max_examples=300, deadline=None)
@given(
    _SAMPLES,
    st.sampled_from(["date", "time", "date-time", "duration", "uuid", "ipv4", "ipv6", "json-pointer"]),
)
def test_formats_agree_with_jsonschema(text: str, name: str) -> None:
    """Our format checks are those of jsonschema with all its extras, without needing them."""
    from jsonschema import Draft202012Validator

    if not text.isascii() or ":60" in text:
        return  # leap seconds: RFC 3339 has them, Python's datetime does not
    reference = Draft202012Validator.FORMAT_CHECKER.conforms(text, name)
    assert _formats.CHECKS[name](text) == reference, (name, text)


@pytest.mark.parametrize(
    ("text", "takes"),
    [
        ("http://a.b/c?d=e#f", {"uri", "uri-reference", "iri", "iri-reference"}),
        ("urn:isbn:0451450523", {"uri", "uri-reference", "iri", "iri-reference"}),
        ("/a/b", {"uri-reference", "iri-reference"}),
        ("", {"uri-reference", "iri-reference"}),
        ("http://ä.b/ö", {"iri", "iri-reference"}),
        ("ä", {"iri-reference"}),
        ("http://a b", set()),
        ("1a:b", set()),
        ("a%zz", set()),
    ],
)
def test_what_a_uri_is(text: str, takes: set[str]) -> None:
    """A relative reference is no URI, and letters beyond ASCII make an IRI (RFC 3986, 3987)."""
    names = ("uri", "uri-reference", "iri", "iri-reference")
    assert {name for name in names if _formats.CHECKS[name](text)} == takes


@pytest.mark.parametrize("name", sorted(_formats.MASKED))
def test_mask_of_a_format_stays_inside_the_format(name: str) -> None:
    """Texts around the border of a format: what the mask lets through the check lets through too."""
    constraint = structured.compile({"type": "string", "format": name})
    near = [
        "",
        "a",
        "a@b",
        "a@b.co",
        "a b@c",
        "1.2.3.4",
        "256.1.1.1",
        "::1",
        "::g",
        "a-b.c",
        "-a",
        "a..b",
        "http://x",
        "x:",
        "http://a b",
        "2024-01-31",
        "2024-13-01",
        "12:30:00Z",
        "12:30:00",
        "24:00:00Z",
        "2024-01-31T12:30:00Z",
        "2024-01-31t12:30:00+01:00",
        "P1D",
        "P",
        "P1Y2M3DT4H",
        "PT",
        "P1W",
        "123e4567-e89b-12d3-a456-426614174000",
    ]
    masked = [text for text in near if constraint.mask_accepts(json.dumps(text))]
    assert masked
    assert [text for text in masked if not _formats.CHECKS[name](text)] == []


@settings(max_examples=100, deadline=None)
@given(st.lists(st.text('ab"\\]^-é', max_size=4), min_size=1, max_size=5), st.text('ab"\\]^-é', max_size=5))
def test_none_of_is_the_complement(texts: list[str], probe: str) -> None:
    """The pattern for "none of these" matches a text exactly when it is none of them."""
    pattern = _regex.none_of(texts)
    compiled = _regex.to_python(pattern)
    assert compiled is not None
    assert bool(compiled.search(probe)) == (probe not in texts)
    if probe:
        constraint = structured.compile({"type": "string", "not": {"enum": texts}})
        assert constraint.mask_accepts(json.dumps(probe, ensure_ascii=False)) == (probe not in texts)


def test_field_report() -> None:
    """Per field: mean and largest mass outside, product of the tokens' probabilities; whole or cut."""
    text = '{"name": "Ann", "n": {"x/y": [1, true]}}'
    pieces = ['{"', "name", '":', ' "', "Ann", '",', ' "n": {"x/y": [', "1", ", ", "true", "]}}"]
    offsets, at = [], 0
    for piece in pieces:
        offsets.append((at, at + len(piece)))
        at += len(piece)
    outside = [0.9, math.nan, 0.0, 0.2, 0.4, 0.0, 0.0, 0.5, 0.0, 0.1, 0.0]
    logprobs = [
        -1.0,
        math.nan,
        -1.0,
        math.log(0.5),
        math.log(0.8),
        math.log(0.5),
        -1.0,
        math.log(0.25),
        0.0,
        0.0,
        0.0,
    ]
    report = field_report(text, offsets, outside, logprobs)
    assert list(report) == ["/name", "/n/x~1y/0", "/n/x~1y/1"]
    name = report["/name"]
    assert (text[name.start : name.end], name.tokens) == ('"Ann"', 3)
    assert name.pressure == pytest.approx(0.2)
    assert name.peak == 0.4
    assert name.confidence == pytest.approx(0.2)
    assert report["/n/x~1y/0"].confidence == pytest.approx(0.25)
    cut = field_report(text[:12], offsets[:5], outside[:5], logprobs[:5])
    assert list(cut) == ["/name"]
    assert list(field_report("plain", [(0, 5)], [0.1], [0.0])) == [""]
    with pytest.raises(ValueError, match="one of each"):
        field_report(text, offsets, outside[:-1], logprobs)
