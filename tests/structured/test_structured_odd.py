"""Answers that are no plain object: partial values, errors and the view by field hold for them too."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import pydantic
import pytest
from structured_support import grown

import llama_magic as lm
from llama_magic import display, structured
from llama_magic.errors import StructuredOutputError
from llama_magic.structured.answer.report import leaves


class Tree(pydantic.BaseModel):
    name: str = pydantic.Field(max_length=5)
    kids: list[Tree] = pydantic.Field(max_length=1)


# (schema, what is there before the first character, an answer)
SHAPES: list[tuple[Any, Any, str]] = [
    ({"type": "array", "items": {"type": "integer"}, "minItems": 2, "maxItems": 3}, [], "[10, -2, 3]"),
    ({"type": "array", "items": {"type": "array", "items": {"type": "null"}}}, [], "[[], [null], []]"),
    ({"type": "string", "maxLength": 12}, None, '"a\\u00e9 \\"x"'),
    ({"type": "integer", "minimum": 0, "maximum": 999}, None, "123"),
    ({"type": "number"}, None, "-1.5e+10"),
    ({"type": "boolean"}, None, "false"),
    ({"type": "null"}, None, "null"),
    ({"enum": ["red", 17, None, {"a": [1]}]}, None, '{"a": [1]}'),
    (Literal["red", "green"], None, '"green"'),
    (
        {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "boolean"}}]},
        None,
        "[true, false]",
    ),
    (dict[str, list[int]], {}, '{"a~/b": [1, 2], "": []}'),
    (int | None, None, "42"),
    (Tree, {}, '{"name": "a", "kids": [{"name": "b", "kids": []}]}'),
]


@pytest.mark.parametrize(("schema", "empty", "text"), SHAPES, ids=str)
def test_partial_values_of_any_shape(schema: Any, empty: Any, text: str) -> None:
    """Cut anywhere, what can be read is part of what comes later, and in the end it is the whole."""
    constraint = structured.compile(schema)
    assert constraint.accepts(text)
    assert constraint.partial("") == empty
    last = constraint.partial("")
    for end in range(len(text) + 1):
        part = constraint.partial(text[:end])
        assert last is None or grown(last, part), (text[:end], last, part)
        last = part
    assert constraint.partial(text, ended=True) == json.loads(text)


@pytest.mark.parametrize(("schema", "empty", "text"), SHAPES, ids=str)
def test_errors_of_any_shape(schema: Any, empty: Any, text: str) -> None:
    """An answer that is cut raises with its text and what could be read of it."""
    constraint = structured.compile(schema)
    for end in range(len(text)):
        if constraint.why_not(text[:end]) is None:
            continue  # 1 of 123 is an integer, too
        with pytest.raises(StructuredOutputError) as caught:
            constraint.parse(text[:end])
        assert caught.value.text == text[:end]
        assert caught.value.partial == constraint.partial(text[:end])


@pytest.mark.parametrize(("schema", "empty", "text"), SHAPES, ids=str)
def test_streams_and_pressure_of_any_shape(loaded: Any, schema: Any, empty: Any, text: str) -> None:
    """A model's chunks only grow to the value, and each leaf of it has its pressure, also in the view."""
    model = loaded("smollm2" if schema is Tree else "short")  # a short one goes on with kids for ever
    options: dict[str, Any] = {"seed": 4, "temperature": 0.2, "max_tokens": 120, "stream": True}
    stream = model.structured(f"Answer with {text}", schema, pressure=True, **options)
    last, failure = empty, None
    try:
        for chunk in stream:
            assert last is None or grown(last, chunk.partial), (last, chunk.partial)
            last = chunk.partial
        answer = stream.completion
    except StructuredOutputError as error:
        failure = error
    if failure is not None:  # it went on past its tokens, or wrote a key twice
        assert failure.text == failure.completion.text != ""
        assert last is None or grown(last, failure.partial)
        return
    assert last == json.loads(answer.text)
    assert list(answer.fields) == [pointer for pointer, _, _ in leaves(answer.text)]
    assert all(0 <= report.pressure <= 1 and report.tokens > 0 for report in answer.fields.values())
    assert "mass outside" in display.to_text(answer)


def test_a_vocabulary_without_control_bytes_is_constrained(tmp_path: Path) -> None:
    """Where llguidance finds no byte to split texts by, choices are written all the same; what no token
    spells ends in an error of ours.
    """
    sys.path.insert(0, str(Path(__file__).parents[1] / "gguf"))
    try:
        from gguf_build import tiny_llama
    finally:
        sys.path.pop(0)
    words = [b"<unk>", b"<s>", b"</s>", b"yes", b"no", *(b"w%d" % i for i in range(255))]
    kinds = [2, 3, 3, *[1] * 257]
    tiny = tiny_llama().with_kv("tokenizer.ggml.model", "str", "gpt2")
    for key, kind, value in (("tokens", "arr[str]", words), ("token_type", "arr[i32]", kinds)):
        tiny = tiny.with_kv(f"tokenizer.ggml.{key}", kind, value)
    path = tiny.with_kv("tokenizer.ggml.merges", "arr[str]", [b"n o"]).write(tmp_path / "words.gguf")
    with lm.load(path, ctx=256, threads=1) as model:
        answers = {model.complete("no", choices=["yes", "no"], seed=seed).text for seed in range(12)}
        assert answers == {"yes", "no"}
        with pytest.raises(lm.LlamaMagicError):
            model.structured("no", {"type": "integer"}, seed=1, max_tokens=9)


def test_a_schema_is_compiled_with_the_check_loaded_and_no_slow_grammar() -> None:
    """After `compile` a check imports nothing; jsonschema's `iri` works for others, loaded when asked for."""
    pytest.importorskip("rfc3987_syntax", reason="jsonschema has no iri here")
    code = (
        "import sys\n"
        "sys.path[:] = [place for place in sys.path if not place.endswith('later')]  # the real package\n"
        "import llama_magic.structured as s\n"
        "constraint = s.compile({'type': 'object', 'properties': {'a': {'type': 'string'}}})\n"
        "before = set(sys.modules)\n"
        "assert 'not of type' in constraint.why_not('{\"a\": 1}')\n"
        "print(sorted(m for m in {*sys.modules} - before if 'llama' not in m), 'rfc3987_syntax' in before)\n"
        "import jsonschema\n"
        "check = jsonschema.FormatChecker().conforms\n"
        "print([check(text, 'iri') for text in ('http://a.b/ä', 'no %%')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[] False", "[True, False]"]


def test_a_token_of_thousands_of_bytes_is_not_offered(scripted_model: Any) -> None:
    """llguidance panics at one; the others write the answer, and without a mask it is drawn as before."""
    model = scripted_model({"a": "b" * 3000})
    assert model.complete("a", max_tokens=1).text == "b" * 3000
    assert model.complete("a", regex="b{5}c", max_tokens=9).text == "bbbbbc"
