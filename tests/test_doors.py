"""What an error tells to do is written as it is typed where the call came in."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.testing.globalipapp import get_ipython

import llama_magic as lm
from llama_magic import command
from llama_magic.doors import CALLS, FIELDS, Door, option, verb, worded
from llama_magic.errors import ContextOverflowError, LlamaMagicError, StructuredOutputError
from llama_magic.loading.keywords import LoadKeywords
from llama_magic.magics._options import MODES, SERVE, VERBS
from llama_magic.model.options import StructuredOptions
from llama_magic.serving.fields.chat import ChatCompletion
from llama_magic.serving.refusals import refusal_of
from llama_magic.testing import scripted_model

ROOT = Path(__file__).parents[1] / "llama_magic"
# They stand at a door themselves: what they say is said in a notebook, or in a shell.
AT_A_DOOR = ("magics", "command.py", "display", "session/chat.py")
MARK = re.compile(r"\b(option|verb)\(")
FOREIGN = re.compile(r"(?<![-\w])--[a-z][a-z-]+|%llama")


def _sources() -> Iterator[tuple[str, ast.AST]]:
    formatters = ROOT.parent / "formatters"
    for path in sorted((*ROOT.rglob("*.py"), *formatters.glob("*.py"))):
        name = path.relative_to(ROOT if path.is_relative_to(ROOT) else formatters).as_posix()
        text = path.read_text(encoding="utf-8")
        if not name.startswith(AT_A_DOOR) and (FOREIGN.search(text) or MARK.search(text)):
            yield name, ast.parse(text)


SOURCES = list(_sources())


def _marks(function: str) -> list[tuple[str, tuple[Any, ...]]]:
    """Return every call of `option` or `verb`: where, and its arguments, None for what is computed."""
    return [
        (name, tuple(arg.value if isinstance(arg, ast.Constant) else None for arg in call.args))
        for name, tree in SOURCES
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == function
    ]


OPTIONS, VERBS_SAID = _marks("option"), _marks("verb")


def test_no_error_below_the_doors_is_written_for_one_of_them() -> None:
    """A flag or `%llama` in an error's words is marked, so that Python callers are not told of flags."""
    found = []
    for name, tree in SOURCES:
        for call in ast.walk(tree):
            if not isinstance(call, ast.Call):
                continue
            kind = call.func.id if isinstance(call.func, ast.Name) else getattr(call.func, "attr", "")
            said = [k.value for k in call.keywords if k.arg == "remedy"]
            said += call.args if kind.endswith(("Error", "fail")) else []
            texts = [n.value for one in said for n in ast.walk(one) if isinstance(n, ast.Constant)]
            found += [(name, text) for text in texts if isinstance(text, str) and FOREIGN.search(text)]
    # cmake's, pip's and other programs' own options, and what stands in cells alone
    others = ("llama-gguf-split --merge", "pip install", "%%llama")
    assert [one for one in found if not any(words in one[1] for words in others)] == []


def test_there_are_marks_to_look_at() -> None:
    """The tests below are made of what the sources hold."""
    assert len(OPTIONS) > 30
    assert len(VERBS_SAID) > 8


@pytest.mark.parametrize("name", sorted({arguments[0] for _, arguments in OPTIONS}))
def test_an_option_is_one_at_each_door(name: str) -> None:
    """Python takes the name, and a magic's line the flag that is made of it."""
    python = {*LoadKeywords.__annotations__, *StructuredOptions.__annotations__}
    for call in (lm.load, lm.connect, lm.serve, lm.map, lm.decide, lm.Model.chat):
        python |= set(inspect.signature(call).parameters)
    assert name in python
    flags = {
        flag for row in (*MODES.values(), *VERBS.values()) for one in row.options for flag in one.flags
    } | {flag for one in SERVE for flag in one.flags}
    values = {arguments[1] for _, arguments in OPTIONS if arguments[0] == name and len(arguments) > 1}
    for value in values | {None}:
        flag, *rest = worded(option(name, value), Door.MAGIC).split()
        assert flag in flags
        assert worded(option(name, value), Door.SHELL).split() == [flag, *rest]
        python_words = worded(option(name, value), Door.PYTHON)
        assert python_words.startswith(f"{name}=")
        assert not FOREIGN.search(python_words)
        assert not (name in FIELDS and FOREIGN.search(worded(option(name, value), Door.SERVER)))


def test_what_a_client_is_told_to_write_is_a_field() -> None:
    """Of the busiest path of a server; the others say the same with their own name of the limit."""
    assert ChatCompletion.model_fields.keys() >= FIELDS


@pytest.mark.parametrize("name", sorted({arguments[0] for _, arguments in VERBS_SAID}))
def test_a_verb_is_one_at_each_door(name: str) -> None:
    """It is a verb of the magic, and in Python a call that there is."""
    assert name.split(maxsplit=1)[0] in VERBS
    if name in CALLS:
        said = worded(verb(name, "X"), Door.PYTHON)
        where, _, function = said.partition("(")[0].partition(".")
        assert callable(getattr(lm if where == "lm" else lm.Model, function))


@pytest.fixture
def shell() -> Any:
    shell = get_ipython()
    shell.run_line_magic("load_ext", "llama_magic")
    return shell


def test_one_overflow_is_told_in_the_words_of_each_door(shell: Any, capsys: Any, monkeypatch: Any) -> None:
    """`max_tokens=503` to Python, `--max-tokens 503` to a cell and in a shell."""
    model = scripted_model(shell=shell, window=512)
    with pytest.raises(ContextOverflowError) as python:
        model.chat("hello", max_tokens=600)
    assert "(max_tokens=503)" in str(python.value)
    assert "--" not in str(python.value)
    with pytest.raises(ContextOverflowError) as magic:
        shell.run_cell_magic("llama", "-n 600", "hello")
    assert "(--max-tokens 503)" in str(magic.value)
    assert "=" not in magic.value.remedy

    def fails(_words: Any) -> int:
        raise python.value

    monkeypatch.setattr(command.pkgutil, "resolve_name", lambda _where: fails)
    assert command.main(["verify", "x"]) == 2
    assert "(--max-tokens 503)" in capsys.readouterr().err


def test_what_a_client_is_told_names_fields() -> None:
    """A structured answer that cannot fit says "max_tokens" as JSON has it, no flag and no Python."""
    model = scripted_model()
    with pytest.raises(StructuredOutputError) as caught:
        model.structured("x", {"enum": ["a long word that takes tokens"]}, max_tokens=1)
    assert re.search(r"\(max_tokens=\d+\)", str(caught.value))
    assert re.search(r'\("max_tokens": \d+\)', refusal_of(caught.value).message)


def test_an_error_keeps_its_words_when_more_is_said() -> None:
    """`add`, a row's place and a pickle leave what is marked as it is, so that a door may still word it."""
    import pickle

    error = LlamaMagicError("It does not fit.", remedy=f"Load it with {option('ctx', 768)}.")
    error.add("So be it.")
    error = pickle.loads(pickle.dumps(error.of_row(0, 1, [None])))
    assert str(error) == "Row 1 of 1: It does not fit. So be it.\nLoad it with ctx=768."
    assert str(error.at(Door.MAGIC)).endswith("Load it with --ctx 768.")
    assert str(error.at(Door.PYTHON)).endswith("Load it with ctx=768.")
    assert worded(option("overflow", "drop-oldest"), Door.PYTHON) == "overflow='drop-oldest'"
    assert worded(option("mmap", False), Door.MAGIC) == "--no-mmap"
