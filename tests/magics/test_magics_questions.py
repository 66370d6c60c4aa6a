"""Lines that end in a question mark: given to `%llama`, not to IPython's help."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import llama_magic

SHELL_LINES = [
    "len?",
    "%llama?",
    "%llama??",
    "%timeit x?",
    "y = 3  # %llama a?",
    's = """\n%llama tokens Who?\n"""',
]
words = st.text("ab3 '\"(=#{}é好,.-%", max_size=12)


@pytest.mark.parametrize("before", ["", "x = ", "    ", "a.b, c = "])
@given(text=words)
def test_a_question_is_an_argument(ip: Any, before: str, text: str) -> None:
    """What ends in "?" is passed on as what ends in "." is, whatever stands in it."""
    with_point = ip.transform_cell(f"{before}%llama tokens Who {text}is it.")
    assert with_point.endswith(("is it.')\n", 'is it.")\n'))
    assert ip.transform_cell(f"{before}%llama tokens Who {text}is it?") == "?".join(with_point.rsplit(".", 1))


def test_it_is_run(ip: Any, model: Any) -> None:
    """The text that is cut holds the mark, also where the line goes on, and among other lines."""
    ip.run_cell("n = 1\none = %llama tokens Who is it?\ntwo = %llama tokens Who is it")
    ip.run_cell("on = %llama tokens Who \\\nis it?")
    texts = [ip.user_ns[name].text.split() for name in ("one", "two", "on")]
    assert texts == [["Who", "is", "it?"], ["Who", "is", "it"], ["Who", "is", "it?"]]


@pytest.mark.parametrize("line", ["%llama tokens?", "%llama tokens??", "%llama  tokens ?"])
def test_help_on_a_verb(ip: Any, capsys: pytest.CaptureFixture[str], line: str) -> None:
    """A verb and a question mark, and nothing else, is the verb's own help."""
    ip.run_cell(line)
    asked = capsys.readouterr().out
    ip.run_cell("%llama tokens --help")
    assert asked == capsys.readouterr().out
    assert "%llama tokens" in asked


@pytest.mark.parametrize("line", SHELL_LINES)
def test_other_lines_are_ipythons(ip: Any, line: str) -> None:
    """Help on other things, on the magic itself, and texts that only look so are as without the extension."""
    with_us = ip.transform_cell(line)
    llama_magic.unload_ipython_extension(ip)
    try:
        assert ip.transform_cell(line) == with_us
        assert "pinfo" in ip.transform_cell("%llama tokens Who?")
    finally:
        llama_magic.load_ipython_extension(ip)
