"""The live token strip: it follows the typing, is saved as it stands, and says what is wrong in its place."""

from __future__ import annotations

import re
from typing import Any

import pytest
from as_ipython import show
from display_answers import answering, widgets
from front_ends import WIDGET
from settled import boards_rest

from llama_magic import display
from llama_magic.display.boards.tokens import LiveTokens
from llama_magic.microscope import tokens as strips


def test_the_strip_is_that_of_the_text_as_it_is_typed(loaded: Any) -> None:
    """After a rest: the model's own tokens, their number said and shown, characters and bytes beside it."""
    model = loaded("short")
    board = LiveTokens(model, "Hi")
    assert board.strip == model.token_strip("Hi")
    for text in ("C", "Count", "Counting naïvely 🦕<|im_end|>"):  # as by three keys
        board.text.value = text
    boards_rest()
    assert board.strip == model.token_strip(text)
    assert isinstance(board.strip, strips.TokenStrip)
    size = f"{len(text)} characters, {len(text.encode())} bytes of UTF-8"
    assert board.voice.text == f"{board.strip.count} tokens, {size}"
    for said in (f"{board.strip.count} tokens, 1 control token among them", size, "🦕\u00a03/3"):
        assert said in re.sub("<[^>]+>", "", board.output.value)
    board.text.value = ""
    boards_rest()
    assert board.voice.text == "0 tokens, 0 characters, 0 bytes of UTF-8"


def test_a_key_restarts_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ten keys in a row are counted once."""
    model = answering("x")
    board = LiveTokens(model)
    counted: list[str] = []
    real = model.token_strip
    monkeypatch.setattr(model, "token_strip", lambda text: counted.append(text) or real(text))
    for n in range(1, 11):
        board.text.value = "w" * n
    boards_rest()
    assert counted == ["w" * 10]


def test_what_is_saved_is_what_stands_there(shell: Any) -> None:
    """A stand-in with the strip and the cell that makes it; kept as output, no widget is left."""
    before = widgets()
    board = display.live_tokens(answering("x"), "one two")
    show(board)
    board._view_count = 1
    board.text.value = "one two {{ three"
    boards_rest()
    view, widget = shell.display_pub.shown()
    assert set(view) == {"text/html", "text/plain"}
    assert "tokens: 4 tokens" in view["text/plain"]
    assert "%%llama tokens --raw\none two {{ three" in view["text/plain"]
    assert "The live token strip: run this cell again to use it." in widget["text/plain"]
    assert widget[WIDGET]["model_id"] == board.model_id
    board.keep_button.click()
    view, cell = shell.display_pub.shown()
    assert "tokens: 4 tokens" in view["text/plain"]
    assert "%%llama tokens" not in view["text/plain"]
    assert "%%llama tokens --raw\none two {{ three" in cell["text/plain"]
    assert WIDGET not in cell
    board._view_count = 0
    assert widgets() == before


def test_a_closed_model_is_said_where_the_strip_would_stand() -> None:
    """Typing raises nothing; a strip that was there is gone."""
    model = answering("x")
    board = LiveTokens(model, "one")
    model.close()
    board.text.value = "one two"
    boards_rest()
    assert board.strip is None
    assert "was unloaded" in board.output.value
    assert "was unloaded" in board.voice.text


def test_without_widgets_the_strip_comes_back(capsys: pytest.CaptureFixture[str]) -> None:
    """One line says why."""
    model = answering("x")
    assert display.live_tokens(model, "one two") == model.token_strip("one two")
    said = capsys.readouterr().out
    assert said.startswith("The token strip is not live here: it needs a notebook with widgets")
