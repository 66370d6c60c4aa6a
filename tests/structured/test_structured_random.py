"""Random schemas, random answers: whatever the masks let through is valid, or the reason was named."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from structured_support import random_schema, random_text, smollm2

from llama_magic import structured
from llama_magic.errors import SchemaError

SEEDS = 30  # of 2,000 in soak_structured_random.py


def check(seed: int) -> tuple[int, int]:
    """Walk twice through the masks of one random schema; return (answers, answers that ended)."""
    from jsonschema import Draft202012Validator

    chance = random.Random(seed)
    schema = random_schema(chance)
    try:
        constraint = structured.compile(schema, vocabulary=smollm2())
    except SchemaError:
        return 0, 0  # no value is valid, or a circle of references
    ended = 0
    for _ in range(2):
        text = random_text(constraint, chance)
        if text is None:
            continue
        ended += 1
        assert constraint.mask_accepts(text), (seed, text)
        assert len(smollm2().tokenize(text)) >= constraint.min_tokens(), (seed, text)
        try:
            value = _strict(text)
        except ValueError:
            assert constraint.why_not(text), (seed, text)
            continue
        reference = Draft202012Validator(schema, format_checker=Draft202012Validator.FORMAT_CHECKER)
        errors = [error for error in reference.iter_errors(value) if not _leap_second(error)]
        if "dependencies" not in json.dumps(schema):  # 2020-12 itself does not have it, we check it
            assert bool(errors) == bool(constraint.why_not(text)), (
                seed,
                text,
                errors,
                constraint.why_not(text),
            )
        named = {keyword.keyword for keyword in constraint.checked}
        for error in errors:
            assert named & _involved(error), (seed, text, error.message, named)
    return 2, ended


def _strict(text: str) -> Any:
    from llama_magic.structured.answer.strictjson import loads

    return loads(text)


def _leap_second(error: Any) -> bool:
    return error.validator == "format" and ":60" in str(error.instance)


def _involved(error: Any) -> set[str]:
    """Return the keywords on the way to an error and below it."""
    found = {str(part) for part in error.absolute_schema_path} | {str(error.validator)}
    if found & {"then", "else"}:
        found.add("if")
    return found.union(*(_involved(inner) for inner in error.context or ()))


@pytest.mark.parametrize("start", range(0, SEEDS, 10))
def test_random_walks_are_valid(start: int) -> None:
    """Of random schemas, every answer that ended is valid, or breaks a keyword that was named as checked."""
    results = [check(seed) for seed in range(start, start + 10)]
    assert sum(ended for _, ended in results) >= 4
