"""Boards (pad, live trace): what they show, leave behind in a saved notebook, and say without widgets."""

from __future__ import annotations

import importlib.util
import json
import re
import threading
from typing import Any

import nbclient
import nbformat
import pytest
from as_ipython import show
from display_answers import widgets
from front_ends import WIDGET
from settled import boards_rest
from test_display_hosts import IMPORTS
from test_display_pad import fake

from llama_magic import display
from llama_magic.display import hosts
from llama_magic.display.boards.pad import Pad
from llama_magic.display.boards.question import QuestionBoard
from llama_magic.display.boards.trace import LiveTrace
from llama_magic.lesson.question import Question
from llama_magic.microscope import SamplerTrace
from llama_magic.testing import Script


@pytest.fixture(scope="module")
def trace(loaded: Any) -> Any:
    """The trace of one token of the demo model."""
    return loaded("smollm2").xray("The best thing about the sea is", seed=1)


def test_a_slider_runs_the_chain_and_redraws_it(trace: Any) -> None:
    """Table, sentence, announced words and the line to paste follow; the first trace is untouched."""
    board = LiveTrace(trace)
    board.sliders["top_k"].value = 3
    board.sliders["temperature"].value = 0.5
    assert board.trace.stages[-1].survivors == 3
    assert "3 tokens are left of 49,152" in board.voice.text
    assert "3 tokens are left of 49,152" in board.output.value
    said = re.sub(r"<[^>]*>", "", board.output.value)
    assert "--temperature 0.5 --top-k 3 --top-p 0.95 --min-p 0.05 --seed 1" in said
    assert trace.stages[-1].survivors != 3


def test_warnings_stand_out_and_are_announced(trace: Any) -> None:
    """A temperature of 0 says at once which stages it leaves unused."""
    board = LiveTrace(trace)
    assert 'class="lm-line lm-warn"' not in board.output.value
    board.sliders["temperature"].value = 0.0
    words = "temperature 0 is greedy decoding: top_k, top_p and min_p are not used."
    assert re.search(rf'<p class="lm-line lm-warn" [^>]*>{words}', board.output.value)
    assert board.voice.text.endswith(words)


def test_an_order_or_seed_that_cannot_be_meant_keeps_the_last_view(trace: Any) -> None:
    """The error is said above the chain that was shown, and the next good value goes on from there."""
    board = LiveTrace(trace)
    board.sliders["top_k"].value = 4
    board.order.value = "top_k;temprature"
    assert "Did you mean temperature?" in board.output.value
    assert "4 tokens are left" in board.output.value
    assert "Did you mean temperature?" in board.voice.text
    board.order.value = "temperature;top_k"
    assert [stage.name for stage in board.trace.stages] == ["logits", "temperature", "top_k", "dist"]
    board.seed.value = "x"
    assert "The seed is &#39;x&#39;" in board.output.value
    board.seed.value = ""
    assert board.trace.seed == 1


def test_next_seed_and_reset(trace: Any) -> None:
    """Next seed draws with the seed after; Reset brings back the chain and seed, with one redraw."""
    board = LiveTrace(trace)
    board.next_seed.click()
    assert (board.trace.seed, board.seed.value) == (2, "2")
    board.sliders["min_p"].value = 0.3
    drawn: list[Any] = []
    board.output.observe(drawn.append, "value")
    board.reset_button.click()
    assert (board.trace.seed, board.trace.sampling, board.trace.drawn) == (1, trace.sampling, trace.drawn)
    assert len(drawn) == 1


def test_stages_are_put_in_order_by_the_row_and_by_the_text(trace: Any) -> None:
    """Row and text say the same order, whichever is changed; each says its number, or that it is off."""
    board = LiveTrace(trace)
    names = list(board.stages.names)
    assert names == list(trace.sampling.samplers)
    assert board.stages.words["top_k"] == "40"
    assert board.stages.words["xtc"] == "off"
    assert board.stages.end == "draw"
    board.stages.names = ["temperature", *(name for name in names if name != "temperature")]
    assert board.order.value.startswith("temperature;penalties;")
    assert [stage.name for stage in board.trace.stages][:3] == ["logits", "temperature", "top_k"]
    board.order.value = "top_k;temperature"
    assert board.stages.names == ["top_k", "temperature"]
    board.order.value = "top_k;tmperature"  # a mistake leaves the row as it was
    assert board.stages.names == ["top_k", "temperature"]
    board.order.value = "top_k;temperature"
    board.sliders["temperature"].value = 0.0
    assert board.stages.words == {"top_k": "not used", "temperature": "not used"}
    assert board.stages.end == "take the likeliest"
    board.reset_button.click()
    assert board.stages.names == names


def test_a_hundred_draws_stand_beside_the_probabilities_and_follow(shell: Any, trace: Any) -> None:
    """They are those of `draws`, are announced, saved, and drawn anew at a move; a chain in which every seed
    runs every stage is not drawn from unasked; Reset takes them away."""
    board = LiveTrace(trace)
    show(board)
    assert board.draws is None
    board.draw_button.click()
    assert board.draws == trace.draws(100)
    others = f"{len(trace.draws(100).others)} seeds of 100 would have drawn another token"
    view = shell.display_pub.shown()[0]
    for said in (board.voice.text, board.output.value, view["text/plain"], view["text/html"]):
        assert others in said
    board.sliders["temperature"].value = 0.2
    assert board.draws == board.trace.draws(100)
    assert board.draws.counts != trace.draws(100).counts
    assert "tokens are left of" in board.voice.text
    board.sliders["xtc_probability"].value = 0.5
    assert board.draws is None
    assert "would have drawn" not in board.output.value
    board.draw_button.click()
    assert board.draws == board.trace.draws(100)
    board.reset_button.click()
    assert board.draws is None
    forced = LiveTrace(
        SamplerTrace(trace.stages, trace.drawn, 0, 1, trace.sampling)
    )  # as one of a forced token
    forced.draw_button.click()
    assert "holds no logits" in forced.output.value


def test_values_beyond_a_slider_stay_as_they_were_given(trace: Any) -> None:
    """A top_k of 9,000 and an unusual stage in use are on the board, unchanged."""
    board = LiveTrace(trace.rerun(top_k=9000, top_p=1.0, min_p=0.0, xtc_probability=0.4, mirostat=2))
    assert board.sliders["top_k"].value == 9000
    board.sliders["typical_p"].value = 0.9
    sampling = board.trace.sampling
    assert (sampling.top_k, sampling.xtc_probability, sampling.mirostat) == (9000, 0.4, 2)


def test_the_steps_of_an_answer_can_be_walked(loaded: Any) -> None:
    """The chain as moved is kept from step to step; a forced step shows itself and says why it is fixed."""
    model = loaded("short")
    answer = model.complete("Once upon a time", max_tokens=6, seed=5)
    board = LiveTrace(answer.xray(2))
    board.sliders["top_k"].value = 2
    assert board.step.value == 3  # people count from 1
    board.step.value = 5
    assert (board.trace.step, board.trace.sampling.top_k) == (4, 2)
    board.reset()
    assert board.trace.drawn.id == answer.token_ids[4]
    assert board.step in board.children
    answer = model.complete("Colour:", choices=["crimson", "crimson red"], seed=1, max_tokens=8)
    forced = next(i for i in range(len(answer.token_ids)) if len(answer.xray(i).stages) == 1)
    board = LiveTrace(answer.xray(0 if forced else 1))
    board.step.value = forced + 1
    assert board.trace.step == forced
    assert "the constraint forced the token" in board.output.value
    assert LiveTrace(model.xray("x", seed=1)).step is None


def test_what_is_saved_says_the_same_without_the_widget(shell: Any, trace: Any) -> None:
    """Two outputs: a stand-in that follows every move, and the widget, which also holds HTML and text."""
    board = LiveTrace(trace)
    show(board)
    view, widget = shell.display_pub.shown()
    assert set(view) == {"text/html", "text/plain"}
    assert 'class="lm lm-standin' in view["text/html"]
    assert ":has(+" in view["text/html"]  # the rules that hide it beside a living widget
    assert widget[WIDGET]["model_id"] == board.model_id
    assert widget["text/plain"] == "The live view of a trace: run this cell again to use it."
    assert "run this cell again" in widget["text/html"]
    board.sliders["top_k"].value = 3
    view, again = shell.display_pub.shown()
    assert "3 tokens are left of 49,152" in view["text/plain"]
    assert "--top-k 3" in view["text/plain"]
    assert again is widget
    assert "<script" not in json.dumps([view, again])


def test_keep_leaves_static_outputs_and_no_widget(shell: Any, trace: Any) -> None:
    """The view and its line stay in their places; once the page has let go, every model is closed."""
    before = widgets()
    board = LiveTrace(trace)
    show(board)
    board._view_count = 1  # as the front end says when it shows it
    board.sliders["top_k"].value = 3
    board.keep_button.click()
    view, line = shell.display_pub.shown()
    assert "3 tokens are left" in view["text/plain"]
    assert "lm-standin" not in view["text/html"]
    assert "<style" not in view["text/html"]
    assert "--top-k 3" not in view["text/plain"]
    assert "--top-k 3" in line["text/plain"]
    assert WIDGET not in line
    assert "The page was reloaded" in board.children[0].value  # seen only where the page still shows it
    board._view_count = 0
    assert widgets() == before


def test_a_kept_pad_has_the_answer_below_what_was_asked(shell: Any) -> None:
    """Also where the prompt was changed since; while nothing is written, the count stands there."""
    board = Pad(fake("Hello <b>you</b>"), prompt="Hi there", system="Be kind")
    show(board)
    view = shell.display_pub.shown()[0]
    assert "17 prompt + 0 written of 300 tokens" in view["text/plain"]
    board.run()
    boards_rest()
    board.prompt.value = "Something else"
    boards_rest()
    view = shell.display_pub.shown()[0]
    assert view["text/plain"].splitlines()[:5] == [
        "prompt pad: fake",
        "system",
        "Be kind",
        "user",
        "Hi there",
    ]
    assert "Hello <b>you</b>" in view["text/plain"]
    assert "Hello &lt;b&gt;you&lt;/b&gt;" in view["text/html"]
    board.keep()
    view, cell = shell.display_pub.shown()
    assert "Hello <b>you</b>" in view["text/plain"]
    assert re.search(r'--seed \d+ --system "Be kind"\nHi there\Z', cell["text/plain"])


def test_keeping_a_pad_that_writes_keeps_what_is_written(shell: Any) -> None:
    """The stream is stopped, and its text so far stands in the output."""
    model = fake(Script("a b c", at=1, hold=threading.Event()))
    board = Pad(model, prompt="Hi")
    show(board)
    board.run()
    board.keep()
    view, _ = shell.display_pub.shown()
    assert model.backend.requests[0].handle.cancelled
    assert "stopped before its end" in view["text/plain"]


def test_a_kept_board_without_a_recipe_leaves_nothing_below_its_view(shell: Any) -> None:
    """A view without a word would be a short line on the left."""
    board = QuestionBoard(Question("Which?", ("sea", "tea")))
    show(board)
    board.keep()
    view, below = shell.display_pub.shown()
    assert "Which?" in view["text/plain"]
    assert below == {"text/html": "", "text/plain": ""}


WHYS = {
    "terminal": "this is a terminal",
    "plain": "what runs this notebook shows none",
    "missing": "ipywidgets is not installed here",
}


@pytest.mark.parametrize("host", WHYS)
def test_without_widgets_none_is_made_and_one_line_says_why(
    shell: Any, trace: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any, host: str
) -> None:
    """The live trace is the static one; the pad says what to do instead."""
    find = importlib.util.find_spec
    if host == "missing":
        monkeypatch.setattr(importlib.util, "find_spec", lambda n: None if n == "ipywidgets" else find(n))
    else:
        monkeypatch.setattr(hosts, "host", lambda shell: host)
    before = widgets()
    needs = f"it needs a notebook with widgets (JupyterLab, Notebook 7, VS Code, Colab), and {WHYS[host]}."
    assert trace.live() is trace
    assert capsys.readouterr().out == f"The trace is not live here: {needs}\n"
    display.show_board(display.live_view(trace))
    [view] = shell.display_pub.shown()
    assert view == display.mimebundle(trace)
    assert capsys.readouterr().out == f"The trace is not live here: {needs}\n"
    assert display.pad(fake()) is None
    assert capsys.readouterr().out == (
        f"There is no prompt pad here: {needs}\nWrite %%llama chat and the prompt below it instead.\n"
    )
    assert widgets() == before


def test_a_board_that_is_captured_is_its_static_view(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Made in a notebook and shown inside %%capture: one output, no widget."""
    board = Pad(fake(), prompt="Ahoy")
    monkeypatch.setattr(hosts, "host", lambda shell: "plain")
    show(board)
    [view] = shell.display_pub.shown()
    assert set(view) == {"text/html", "text/plain"}
    assert "Ahoy" in view["text/plain"]
    assert "The prompt pad is not live here" in view["text/plain"]


def test_every_call_for_a_board_makes_one(shell: Any, trace: Any) -> None:
    """Importing a board's module does not take the place of the function that makes it."""
    for _ in range(2):
        assert isinstance(display.pad(fake()), Pad)
        assert isinstance(trace.live(), LiveTrace)


def test_nbclient_saves_no_widget_state() -> None:
    """It would store every widget that is made, shown or not; so none is made there."""
    source = "d.pad(answering('Hello'))"
    spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
    cells = [nbformat.v4.new_code_cell(text) for text in (IMPORTS, source)]
    book = nbformat.v4.new_notebook(cells=cells, metadata=spec)
    book = nbclient.NotebookClient(book, timeout=600, startup_timeout=600, coalesce_streams=True).execute()
    [output] = book.cells[1].outputs
    assert output.text.startswith("There is no prompt pad here")
    assert "widgets" not in book.metadata
