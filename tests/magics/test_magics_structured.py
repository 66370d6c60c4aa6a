"""`%%llama structured`, and where schemas and grammars are found."""

from __future__ import annotations

import codecs
from typing import Any

import pytest
from test_magics_shell import last

from llama_magic.errors import (
    SourceError,
    StructuredOutputError,
)

PERSON = """
import pydantic
class Person(pydantic.BaseModel):
    name: str
    @pydantic.field_validator("name")
    def check(cls, name):
        if not name.istitle():
            raise ValueError("a name begins with a capital")
        return name
"""


def test_structured_passes_the_schema_and_keeps_failures(ip: Any, run: Any, session: Any, model: Any) -> None:
    """--schema is looked up in the namespace; an answer that fails its check is still in the history."""
    run(PERSON)
    model.backend.answers = ['{"name": "ada"}', '{"name": "Ada"}', '{"name": "ada"}']
    result = run("%%llama structured --schema Person --retries 2\nInvent one.").result
    assert result.parsed == ip.user_ns["Person"](name="Ada")
    assert len(model.backend.requests) == 2
    kept = len(session.history)
    error = run("%%llama structured --schema Person --retries 0 -o p\nAgain.").error_in_exec
    assert isinstance(error, StructuredOutputError)
    assert len(session.history) == kept + 1
    assert session.history[-1].completion.text == '{"name": "ada"}'
    assert "p" not in ip.user_ns


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("Person", "namespace"),
        ("list[Person]", "type"),
        ("int", int),
        ('{"type": "integer"}', {"type": "integer"}),
        ("name, age int", "name, age int"),
        ("name, tags [str]", "name, tags [str]"),
        ("box.Person", "namespace"),
    ],
)
def test_schema_lookup(text: str, value: Any) -> None:
    """--schema takes a class, a type expression, a builtin, JSON, a short form, a dotted name."""
    from types import SimpleNamespace

    from llama_magic.magics._lookup import find_schema

    class Person:
        pass

    found = find_schema(text, {"Person": Person, "box": SimpleNamespace(Person=Person)})
    expected = (
        {"namespace": Person, "type": list[Person]}.get(value, value) if isinstance(value, str) else value
    )
    assert found == expected


def test_a_missing_schema_names_the_nearest(run: Any, model: Any) -> None:
    """A misspelt class is an error that names the right one."""
    run("class Person:\n    pass")
    error = run("%%llama structured --schema Persn\nx").error_in_exec
    assert "Did you mean Person?" in str(error)
    assert "Did you mean Person?" in str(run("%%llama structured --schema persn\nx").error_in_exec)
    run("class City:\n    pass")
    assert "Did you mean City?" in str(run("%%llama structured --schema Cty\nx").error_in_exec)


def test_grammar_from_text_variable_and_file(ip: Any, run: Any, model: Any, tmp_path: Any) -> None:
    """--grammar takes GBNF itself, the name of a variable, or a .gbnf file."""
    (tmp_path / "g.gbnf").write_text('root ::= "file"')
    ip.user_ns["g"] = 'root ::= "variable"'
    for given, only in (("'root ::= \"x\"'", "x"), ("g", "variable"), ("g.gbnf", "file")):
        model.backend.answers = [only, "else"]
        assert run(f"%%llama complete --grammar {given}\nx").result.text == only
        assert "constraint forbids" in str(run(f"%%llama complete --grammar {given}\nx").error_in_exec)
    assert "names a variable" in str(run("%%llama complete --grammar h\nx").error_in_exec)
    for encoding in ("utf-8-sig", "utf-16", "utf-32", "utf-16-le"):
        mark = codecs.BOM_UTF16_LE if encoding.endswith("-le") else b""
        (tmp_path / "g.gbnf").write_bytes(mark + 'root ::= "ä"\r\n'.encode(encoding))
        model.backend.answers = ["ä"]
        assert run("%%llama complete --grammar g.gbnf\nx").result.text == "ä"
    for data, words in ((b"\xff\xfe\x00", "is no text"), (None, "no such file.\nCheck it; relative paths")):
        (tmp_path / "g.gbnf").unlink() if data is None else (tmp_path / "g.gbnf").write_bytes(data)
        error = run("%%llama complete --grammar g.gbnf\nx").error_in_exec
        assert isinstance(error, SourceError)
        assert words in str(error)


def test_logit_bias_on_a_text_is_for_one_token(run: Any, model: Any) -> None:
    """A text that is one token stands for its id; of several, the pieces are named."""
    run("%%llama complete --logit-bias 15=-1 --logit-bias \"' words'=3\"\nx")
    [token] = model.backend.tokenizer.encode(" words")
    assert last(model).sampling.logit_bias == ((15, -1.0), (token, 3.0))
    error = str(run("%%llama complete --logit-bias \"'two words'=3\"\nx").error_in_exec)
    assert "which is 2 tokens of this model: 'two' (" in error
    assert "' words' (" in error
