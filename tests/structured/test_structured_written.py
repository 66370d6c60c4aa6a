"""What is written: numbers that end, formats that the type takes, digits that are kept."""

from __future__ import annotations

import datetime as dt
import fractions
import ipaddress
import json
import random
import re
import uuid
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import pydantic
import pytest
from pydantic import BaseModel, Field
from structured_support import Vocabulary, eager, random_text, smollm2

from llama_magic import structured


def _digits(schema: Any, seed: int) -> str | None:
    """Return what a model writes that loves digits."""
    constraint = structured.compile(schema, vocabulary=smollm2())
    return eager(constraint, random.Random(seed), _are_digits, 300)


def _are_digits(vocabulary: Vocabulary, token: int) -> bool:
    return vocabulary.token_bytes(token).isdigit()


NUMBERS: list[tuple[Any, int]] = [  # (schema, the most characters of a number)
    (float, 25),
    (int, 20),
    ({"type": "number", "minimum": 0, "maximum": 1}, 25),
    ({"type": "array", "items": {"type": "number"}, "minItems": 2, "maxItems": 2}, 52),
    ({"type": "number", "multipleOf": 0.01}, 25),
    (Decimal, 40),
    (Annotated[Decimal, Field(max_digits=5, decimal_places=2)], 9),
    ({"type": "string", "format": "duration"}, 60),
]


@pytest.mark.parametrize(("schema", "longest"), NUMBERS, ids=lambda value: str(value)[:50])
def test_numbers_end(schema: Any, longest: int) -> None:
    """A model that would write digits for ever comes to a valid end, after 19 of them at the latest."""
    constraint = structured.compile(schema)
    for seed in range(8):
        text = _digits(schema, seed)
        assert text is not None
        assert len(text) <= longest, text
        assert constraint.accepts(text), (text, constraint.why_not(text))


def test_long_numbers_are_taken() -> None:
    """Only the writing is bounded: a longer number is an answer, and a constant of any length is written."""
    assert structured.compile(float).accepts("1." + "3" * 40)
    assert structured.compile(int).accepts("7" * 40)
    big = 12345678901234567890123
    assert _digits({"const": big}, 0) == str(big)
    assert _digits({"enum": [10**17 + 1]}, 1) == str(10**17 + 1)
    assert structured.compile(float).notes_on("10863.248266203122")
    assert not structured.compile(float).notes_on("10863.25")
    assert not structured.compile(str).notes_on('"10863.248266203122"')


@pytest.mark.parametrize(
    ("schema", "text", "where"),
    [
        ({"properties": {"a": {"type": "integer"}}}, "1.5", "'properties' at the root speaks of objects"),
        ({"items": {"type": "string"}}, "{}", "'items' at the root speaks of arrays"),
        ({"minLength": 2}, "null", "'minLength' at the root speaks of strings"),
        ({"type": "object", "properties": {"b": {"required": ["c"]}}}, '{"b": [1]}', "'required' at /b"),
        ({"type": "array", "items": {"minimum": 1}}, '[2, "x"]', "'minimum' at /1 speaks of numbers"),
    ],
)
def test_a_value_that_a_schema_says_nothing_of_is_told_of(schema: Any, text: str, where: str) -> None:
    """A schema without `type` allows all other values: that is JSON Schema, and seldom what was meant."""
    constraint = structured.compile(schema)
    assert constraint.accepts(text)
    (note,) = constraint.notes_on(text)
    assert where in note
    assert '"type": ' in note


@pytest.mark.parametrize(
    ("schema", "text"),
    [
        ({"properties": {"a": {"type": "integer"}}}, '{"a": 1}'),
        ({"properties": {"a": {"type": "integer"}}, "type": ["object", "null"]}, "null"),
        ({"properties": {}, "anyOf": [{"type": "null"}, {"type": "object"}]}, "null"),
        ({"minimum": 1, "minLength": 1}, '"a"'),
        ({}, "1"),
        (True, "1"),
    ],
)
def test_what_a_schema_means_is_not_told_of(schema: Any, text: str) -> None:
    """An object where it speaks of objects; a type, or other schemas, that name what else there may be."""
    assert structured.compile(schema).notes_on(text) == ()


TYPES: list[Any] = [
    ipaddress.IPv4Network, ipaddress.IPv6Network, ipaddress.IPv4Interface, ipaddress.IPv6Interface,
    ipaddress.IPv4Address, ipaddress.IPv6Address, pydantic.IPvAnyAddress, pydantic.IPvAnyNetwork,
    pydantic.IPvAnyInterface, pydantic.AnyUrl, pydantic.HttpUrl, pydantic.FileUrl, pydantic.FtpUrl,
    pydantic.WebsocketUrl, pydantic.PostgresDsn, pydantic.RedisDsn, pydantic.MongoDsn, pydantic.AmqpDsn,
    uuid.UUID, pydantic.UUID1, pydantic.UUID4, pydantic.UUID7, Path, bytes, re.Pattern, fractions.Fraction,
    complex, Decimal, Annotated[Decimal, Field(ge=0, lt=100)],
    Annotated[bytes, Field(min_length=2, max_length=5)],
    pydantic.Base64Bytes, pydantic.Base64Str, pydantic.Base64UrlStr, pydantic.ByteSize, pydantic.Json,
    pydantic.Json[list[int]], dt.date, dt.datetime, dt.time, dt.timedelta, pydantic.AwareDatetime,
    pydantic.NaiveDatetime, dict[int, str], dict[dt.date, int], dict[uuid.UUID, int], dict[bool, int],
    dict[Decimal, int],
]  # fmt: skip


@pytest.mark.parametrize("spec", TYPES, ids=lambda value: getattr(value, "__name__", str(value))[:40])
def test_what_pydantic_checks_is_what_is_written(spec: Any) -> None:
    """Every answer that the masks let a random model write is one that the type takes (a key only once)."""
    chance = random.Random(3)
    constraint = structured.compile(spec, vocabulary=smollm2())
    texts = [text for _ in range(8) if (text := random_text(constraint, chance, 200)) is not None]
    assert texts
    wrong = [(text, constraint.why_not(text)) for text in texts if not constraint.accepts(text)]
    assert [pair for pair in wrong if "stands twice" not in str(pair[1])] == []


def test_what_is_taken_is_not_narrowed() -> None:
    """Forms that a model is not let write are answers all the same."""
    for spec, text in (
        (ipaddress.IPv6Network, '"2001:db8:0:0::/29"'),
        (pydantic.HttpUrl, '"http://user:pw@[::1]:8080/x?q=%20"'),
        (dt.date, '"2024-02-29"'),
        (Decimal, '"+12345678901234567890.5"'),
        (uuid.UUID, '"1AAFB110-EAD0-1ADA-BC17-ACCCFEDAC77D"'),
        (dict[int, str], '{"12": "a"}'),
        ({"type": "string", "format": "ipv4network"}, '"10.0.0.0/255.0.0.0"'),
    ):
        assert structured.compile(spec).accepts(text), text


class Bill(BaseModel):
    total: Decimal
    parts: list[Decimal]
    rates: dict[str, Decimal | None]
    pair: tuple[int, Decimal]
    weight: float
    code: Decimal | str
    inner: Bill | None = None


def test_a_decimal_keeps_its_digits() -> None:
    """A Decimal is read as it is written, wherever it stands; a float beside it stays a float."""
    for text in ("12345678901234567.89", "1.10", "-0.000", "123456789012345678901234567890.5", '"1.10"'):
        assert str(structured.compile(Decimal).parse(text)) == text.strip('"')
    inner = {"total": 1, "parts": [], "rates": {}, "pair": [1, 2], "weight": 1, "code": "x"}
    text = (
        '{"total": 1.10, "parts": [2.20, 12345678901234567.89], "rates": {"x": 3.30, "y": null}, '
        f'"pair": [1, 6.60], "weight": 5.50, "code": "c", "inner": {json.dumps(inner)}}}'
    )
    bill = structured.compile(Bill).parse(text)
    assert [str(part) for part in (bill.total, *bill.parts, bill.rates["x"], bill.pair[1])] == [
        "1.10", "2.20", "12345678901234567.89", "3.30", "6.60",
    ]  # fmt: skip
    assert (bill.weight, bill.code, bill.inner.total) == (5.5, "c", Decimal(1))


def test_formats_of_json_schema() -> None:
    """Formats that llguidance has no form of are written right from plain schemas, too."""
    names = ["json-pointer", "relative-json-pointer", "uri-template", "uri-reference", "iri", "regex"]
    names += ["idn-email", "idn-hostname", "date", "date-time", "ipv4network", "uuid4"]
    chance = random.Random(4)
    for name in names:
        constraint = structured.compile({"type": "string", "format": name}, vocabulary=smollm2())
        texts = [text for _ in range(8) if (text := random_text(constraint, chance, 300)) is not None]
        assert texts, name
        assert [text for text in texts if not constraint.accepts(text)] == [], name
