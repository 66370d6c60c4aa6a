"""Cells that fail or are interrupted: one block, and nothing is lost."""

from __future__ import annotations

from typing import Any

import pytest

from llama_magic.errors import (
    BackendError,
    GenerationInterrupted,
    OptionError,
    SourceError,
    TemplateError,
)
from llama_magic.microscope.reading import ReadThrough
from llama_magic.testing import Script


@pytest.mark.parametrize(
    ("cell", "kind"),
    [
        ("%llama lod x", OptionError),
        ("%%llama --temprature 1\nx", OptionError),
        ("%%llama\n{{ nobody }}", TemplateError),
        ("%%llama chat\n   \n", OptionError),
        ("%%llama structured\nx", OptionError),
        ("%%llama complete --system x\nx", OptionError),
    ],
)
def test_errors_raise_and_show_as_one_block(
    run: Any, model: Any, capsys: pytest.CaptureFixture[str], cell: str, kind: type[Exception]
) -> None:
    """A mistake fails the cell with our error, shown without a traceback, and nothing is generated."""
    result = run(cell)
    assert type(result.error_in_exec) is kind
    captured = capsys.readouterr()
    shown = captured.out + captured.err
    assert kind.__name__ in shown
    assert "Traceback" not in shown
    assert shown.count("\n") <= 4
    assert model.backend.requests == []


def test_a_source_that_is_missing_is_one_short_block(run: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The loader's own error, without a traceback."""
    assert isinstance(run("%llama load missing.gguf").error_in_exec, SourceError)
    shown = capsys.readouterr()
    assert "SourceError" in shown.out + shown.err
    assert "Traceback" not in shown.out + shown.err


def test_an_engine_error_leaves_the_session_as_it_was(ip: Any, run: Any, session: Any, model: Any) -> None:
    """A failed chat turn is neither in the chat nor in the history."""
    run("%%llama\nfirst")
    model.backend.answers = [Script(error=BackendError("llama_decode returned -3."))]
    assert isinstance(run("%%llama\nsecond").error_in_exec, BackendError)
    assert [m["content"] for m in session.chats["default"].messages if m["role"] == "user"] == ["first"]
    assert len(session.history) == 1


def test_an_interruption_keeps_what_was_written(ip: Any, run: Any, session: Any, model: Any) -> None:
    """The cell fails as interrupted; -o, history and chat hold the partial answer, marked."""
    model.backend.answers = [Script("one two three four", at=2, interrupt=True)]
    error = run("%%llama chat -o r\ncount").error_in_exec
    assert isinstance(error, GenerationInterrupted)
    assert isinstance(error, KeyboardInterrupt)
    assert ip.user_ns["r"].text == "one two"
    assert ip.user_ns["r"].finish_reason == "interrupted"
    assert session.history[-1].completion is ip.user_ns["r"]
    turn = session.chats["default"].turns[-1]
    assert turn.interrupted
    assert turn.messages[-1] == {"role": "assistant", "content": "one two"}
    assert run("%%llama chat\ngo on").success


def test_an_interrupted_look_binds_what_there_is(
    ip: Any, run: Any, model: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """-o holds the part that was read; where nothing is kept, the one line says so and -o stays unbound."""

    def stop(error: BaseException) -> Any:
        def look(*_: Any, **__: Any) -> Any:
            raise error

        return look

    part = ReadThrough("a part", (), "fake", interrupted=True)
    monkeypatch.setattr(model, "read", stop(GenerationInterrupted(part, "3 of 9 tokens were read")))
    assert isinstance(run("%%llama surprise -o r\nx").error_in_exec, GenerationInterrupted)
    assert ip.user_ns["r"] is part
    shown = capsys.readouterr()
    assert "Interrupted: 3 of 9 tokens were read." in shown.out + shown.err
    for cell in ("%%llama xray -o t\nx", "%%llama xray --live -o t\nx"):
        monkeypatch.setattr(model, "xray", stop(KeyboardInterrupt()))
        assert isinstance(run(cell).error_in_exec, GenerationInterrupted)
        assert "t" not in ip.user_ns
        shown = capsys.readouterr()
        assert (shown.out + shown.err).strip() == "Interrupted: nothing is kept."
