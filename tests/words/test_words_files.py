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
