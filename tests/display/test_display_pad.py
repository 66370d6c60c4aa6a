"""The prompt pad counts, runs, stops and becomes a cell."""

from __future__ import annotations

import re
import threading
from dataclasses import replace
from typing import Any

import pytest
from as_ipython import page_says
from display_answers import answering
from settled import WATCHDOG, boards_rest

from llama_magic.display.boards.pad import Pad as pad  # noqa: N813 - `pad(…)` is how users make one
from llama_magic.errors import OptionError
from llama_magic.model.model import Model
from llama_magic.request.sampling import Sampling
from llama_magic.session import session
from llama_magic.testing import Script


def fake(answer: str | Script = "") -> Model:
    """A model with a window of 300 tokens, which are words and ChatML's marks: 8 in a user's turn and the
    answer's opening, 5 more in a system's."""
    return answering(answer, name="fake", window=300)


def test_the_gauge_counts_what_is_typed() -> None:
    """After a rest the gauge shows the tokens of system and prompt, and what is too many."""
    board = pad(fake(), system="be brief")
    board.prompt.value = "one two three"
    boards_rest()
    assert "18 prompt + 0 written of 300 tokens" in board.gauge.value
    board.prompt.value = " ".join(["w"] * 41)  # 56 with what is around it, and 256 for the answer
    boards_rest()
    assert "Does not fit: 12 tokens too many." in board.gauge.value


def test_an_error_while_counting_stands_on_the_pad() -> None:
    """A closed model is said where the gauge would stand."""
    model = fake()
    model.close()
    board = pad(model, prompt="x")
    assert "was unloaded; load it again to use it." in board.gauge.value


def test_a_stream_that_pauses_is_drawn_to_its_last_word() -> None:
    """What was written before a pause stands on the pad while it lasts, however soon one word followed."""
    gate, seen = threading.Event(), threading.Event()
    board = pad(fake(Script("one two three four five", at=4, hold=gate)), prompt="Hi")
    board.output.observe(lambda change: "four" in change["new"] and seen.set(), "value")
    board.run_button.click()
    try:
        assert seen.wait(WATCHDOG)
        assert "five" not in board.output.value
    finally:
        gate.set()
    boards_rest()
    assert "one two three four five" in board.output.value


def test_run_shows_the_answer_and_keeps_it() -> None:
    """Run passes the messages and the moved sliders on; the answer stands below, escaped."""
    model = fake("Hello <b>you</b>")
    board = pad(model, prompt="Hi", system="S")
    board.sliders["temperature"].value = 0.2
    board.seed.value = "7"
    board.run_button.click()
    boards_rest()
    [asked] = model.backend.requests
    assert list(asked.messages) == [{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}]
    assert asked.sampling == replace(Sampling(), temperature=0.2)
    assert (asked.max_tokens, asked.seed) == (256, 7)
    assert board.answer.text == "Hello <b>you</b>"
    assert "Hello &lt;b&gt;you&lt;/b&gt;" in board.output.value
    assert (board.run_button.disabled, board.stop_button.disabled) == (False, True)


def test_an_interrupt_while_run_begins_lets_it_begin_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The answer that nobody would read is cancelled, and the next Run writes one."""
    model = fake(Script("first", at=0, hold=threading.Event()))
    model.backend.answers.append("second")
    board = pad(model, prompt="Hi")

    def strike(_thread: threading.Thread) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr("llama_magic.display.boards.pad.set_going", strike)
    with pytest.raises(KeyboardInterrupt):
        board.run()
    assert model.backend.requests[0].handle.cancelled
    board.run()
    boards_rest()
    assert board.answer.text == "second"


def test_stop_cancels_the_stream() -> None:
    """Stop ends a slow answer and the pad can run again."""
    model = fake(Script("a b c", at=1, hold=threading.Event()))
    board = pad(model, prompt="Hi")
    board.run_button.click()
    assert board.run_button.disabled
    board.stop_button.click()
    boards_rest()
    assert model.backend.requests[0].handle.cancelled
    assert "stopped before its end" in board.output.value
    assert not board.run_button.disabled


def test_insert_as_cell_leaves_the_answer_and_holds_the_drawn_seed() -> None:
    """The cell has the seed that was drawn, as long as the pad asks what it asked then."""
    cells: list[str] = []
    model = fake("An answer")
    board = pad(model, prompt="Hi", insert=cells.append)
    board.run_button.click()
    boards_rest()
    seed = model.backend.requests[0].seed
    assert board.seed.placeholder == f"drawn: {seed}"
    board.insert_button.click()
    assert "An answer" in board.output.value
    assert f"--seed {seed}" in re.sub(r"<[^>]*>", "", board.inserted.value)
    board.prompt.value = "Hi!"
    board.insert_button.click()
    assert [f"--seed {seed}" in cell for cell in cells] == [True, False]


def test_the_page_inserts_the_cell_or_the_next_good_reply_does(
    ip: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The page is told source and place; it answers. Where it has no notebook to write to, the shell is
    given the cell, and the pad says when that will stand there."""
    sent: list[dict[str, Any]] = []
    given: list[str] = []
    monkeypatch.setattr(ip, "set_next_input", given.append)
    board = pad(fake(), prompt="Hi")
    monkeypatch.setattr(board.voice, "send", sent.append)
    board._stands_in = "cell-7"
    board.insert_button.click()
    [message] = sent
    assert message["below"] == "cell-7"
    assert message["insert"].endswith("\nHi")
    page_says(board.voice, {"inserted": True})
    assert "This cell stands below:" in board.inserted.value
    assert not given
    page_says(board.voice, {"inserted": False})
    assert "will stand below the next cell that runs without an error; or copy it:" in board.inserted.value
    assert given == [message["insert"]]
    board.seed.value = "x"
    board.insert_button.click()
    assert "expected a whole number" in board.inserted.value
    assert len(sent) == 1


def test_the_cell_names_the_pads_own_model(ip: Any) -> None:
    """Not another one that gives itself the same name, and by the name that the kernel knows it by."""
    mine, other, current = fake(), fake(), fake()
    known = session.current(ip)
    known.keep(current, "now")
    known.keep(other, "fake")
    known.use("now")
    cells: list[str] = []
    board = pad(mine, prompt="Hi", insert=cells.append)
    board.insert_button.click()
    known.keep(mine, "third")
    known.use("now")
    board.insert_button.click()
    known.use("third")
    board.insert_button.click()
    assert [cell.split("--session")[0] for cell in cells] == [
        "%%llama chat ",
        "%%llama chat -m third ",
        "%%llama chat ",
    ]


def test_the_gauge_tells_the_template_from_what_was_typed() -> None:
    """The parts of the prompt stand in the key: template, system, user."""
    board = pad(fake(), prompt="one two", system="be brief")
    for part in ("template 13", "system 2", "user 1: 2"):
        assert part in board.gauge.value.replace("\u00a0", " ")


def test_shift_enter_runs_what_the_page_holds() -> None:
    """The message brings the fields' texts, the last key may still be on its way; others are ignored."""
    model = fake("An answer")
    board = pad(model, prompt="H")
    page_says(board.voice, {"run": {board.prompt.placeholder: "Hi", "other": "x"}})
    boards_rest()
    page_says(board.voice, {"run": None})
    assert [list(asked.messages) for asked in model.backend.requests] == [[{"role": "user", "content": "Hi"}]]


def test_a_seed_that_is_no_number_is_an_error_on_the_pad() -> None:
    """Nothing runs, and the pad says what was found and expected."""
    board = pad(fake(), prompt="Hi")
    board.seed.value = "abc"
    with pytest.raises(OptionError, match="'abc'"):
        board.options()
    board.run_button.click()
    assert "abc" in board.output.value


def test_saved_notebooks_say_what_the_pad_was() -> None:
    """In one bundle with the widget stand its texts, not the repr of twenty widgets."""
    bundle = pad(fake(), prompt="<b>Ahoy</b>")._repr_mimebundle_()
    assert bundle["text/plain"].splitlines()[:3] == ["prompt pad: fake", "user", "<b>Ahoy</b>"]
    assert "&lt;b&gt;Ahoy&lt;/b&gt;" in bundle["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in bundle
