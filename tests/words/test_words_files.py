"""Files as people name them."""

from __future__ import annotations

from pathlib import Path

import pytest

import llama_magic as lm
from llama_magic import formatters, sources
from llama_magic.magics._lookup import find_grammar
from llama_magic.words.files import expanded


def test_a_path_is_filled_in_where_that_can_be(monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` and variables are; the home of nobody, and what no file can be called, stay as they are."""
    monkeypatch.setenv("MODELS", "gguf")
    assert expanded("~/$MODELS/x") == str(Path.home() / "gguf" / "x")
    for odd in ("~nobody_of_this_name/x", "~\0", "a\0$MODELS"):
        assert expanded(odd) in (odd, odd.replace("$MODELS", "gguf"))


@pytest.mark.parametrize("home", ["~nobody_of_this_name/x", "~\0"])
def test_a_home_that_is_not_there_is_an_error_of_ours(home: str) -> None:
    """Of a template, a grammar, a source; Path.expanduser raised RuntimeError."""
    with pytest.raises(lm.OptionError, match="template"):
        formatters.from_jinja(f"{home}.jinja")
    with pytest.raises(lm.SourceError, match="grammar file"):
        find_grammar(f"{home}.gbnf", {})
    with pytest.raises(lm.LlamaMagicError):
        sources.resolve(f"{home}.gguf", offline=True)


@pytest.mark.parametrize(
    "data", ["root ::= 'a'".encode("utf-16-le"), b'root ::= "a"\n\0', b"\xef\xbb\xbfa\0b"]
)
def test_a_file_that_holds_a_nul_is_no_text(data: bytes, tmp_path: Path) -> None:
    """UTF-16 without its mark, or no text at all: a template sent the NUL to the model."""
    for name in ("x.gbnf", "x.jinja"):
        (tmp_path / name).write_bytes(data)
    with pytest.raises(lm.SourceError, match=r"is no text: .* a NUL, as in UTF-16 without its mark"):
        find_grammar(str(tmp_path / "x.gbnf"), {})
    with pytest.raises(lm.OptionError, match="a NUL, as in UTF-16 without its mark"):
        formatters.from_jinja(str(tmp_path / "x.jinja"))
