"""`--live` and `%llama pen`: where the pen comes from, and over what."""

from __future__ import annotations

from typing import Any

import pytest
from settled import boards_rest

from llama_magic.display import hosts
from llama_magic.display.boards.pen import Pen
from llama_magic.errors import BackendError, GenerationInterrupted, OptionError
from llama_magic.model.branching import Branching
from llama_magic.testing import Script


@pytest.fixture
def boards(monkeypatch: pytest.MonkeyPatch) -> list[Pen]:
    """The pens that a cell shows; a notebook with widgets."""
    shown: list[Pen] = []
    monkeypatch.setattr(hosts, "no_widgets", lambda shell: "")

    def show(board: Pen) -> None:
        shown.append(board)

    monkeypatch.setattr(Pen, "_ipython_display_", show)
    return shown


@pytest.mark.parametrize("mode", ["complete", "chat --new", "structured --schema name"])
def test_a_live_cell_ends_with_the_pen(run: Any, model: Any, boards: list[Pen], mode: str) -> None:
    """Below the answer, which is bound and kept as ever; what grows is a branch of that very value."""
    model.backend.answers = ['{"name": "Ada"}']
    run(f"%%llama {mode} --live -o said\nQ").raise_error()
    [board] = boards
    assert board.answer is run("said").result
    assert (board.answer.text, board.versions[0].source) == ('{"name": "Ada"}', "said")
    run("%%llama complete\nQ").raise_error()
    assert len(boards) == 1


def test_quiet_shows_none(run: Any, model: Any, boards: list[Pen]) -> None:
    """-q is stronger."""
    assert run("%%llama complete --live -q\nQ").success
    assert boards == []


def test_samples_are_versions(run: Any, model: Any, boards: list[Pen]) -> None:
    """-N: all of them under one pen; the list has one of its own, too."""
    model.backend.answers = [Script(samples=("one", "two"))]
    samples = run("%%llama complete --live -N 2\nQ").result
    assert [version.answer.text for version in boards[0].versions] == ["one", "two"]
    assert isinstance(samples.live(), Pen)


def test_an_interrupted_cell_has_the_pen(run: Any, model: Any, boards: list[Pen]) -> None:
    """What was written until Ctrl-C is under it, and then the interrupt goes on."""
    model.backend.answers = [Script("one two three", at=2, interrupt=True), " more"]
    assert isinstance(run("%%llama complete --live -o cut\nQ").error_in_exec, GenerationInterrupted)
    [board] = boards
    assert board.answer.text == "one two"
    board.pick(2, "")
    boards_rest()
    assert run("cut").result.branches[0].text == "one two more"


def test_the_pen_of_an_answer_that_was_written(run: Any, model: Any, boards: list[Pen], session: Any) -> None:
    """The last one, one of the history by its number, a variable, a list of answers."""
    assert "Nothing was written" in str(run("%llama pen").error_in_exec)
    model.backend.answers = ["red", "green", Script(samples=("blue", "grey"))]
    run("%%llama complete -o first\nQ")
    run("%%llama complete\nQ")
    samples = run("%%llama complete -N 2 -o many\nQ").result
    run("%%llama tokens\nnot an answer")
    number = session.history[0].number
    for word, text in (("", "grey"), (str(number), "red"), ("first", "red"), (str(number + 1), "green")):
        board = run(f"%llama pen {word}").result
        assert board.answer.text == text, word
    board = run("%llama pen many").result
    assert [version.label for version in board.versions] == ["sample 1", "sample 2"]
    assert board.versions[1].source == "many[1]"
    assert samples is None
    run("receipt = first.receipt")
    for wrong in ("99", "nothing", "receipt", "first many"):
        assert isinstance(run(f"%llama pen {wrong}").error_in_exec, OptionError), wrong
    assert "lm.rerun(receipt)" in str(run("%llama pen receipt").error_in_exec)


def test_tab_offers_what_holds_answers(run: Any, ip: Any, model: Any) -> None:
    """Variables with an answer, or with several; no other."""
    from types import SimpleNamespace

    from llama_magic.magics._complete import complete

    run("%%llama complete -o said\nQ")
    run("%%llama complete -N 2 -o both\nQ")
    run("number = 3\nnumbers = [3]")
    offered = complete(ip, SimpleNamespace(text_until_cursor="%llama pen ", cursor_line=0))[1]
    assert {"said", "both"} <= set(offered)
    assert not {"number", "numbers"} & set(offered)


def test_where_there_are_no_widgets(run: Any, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """In a terminal one line says so below the answer; %llama pen gives the answer itself."""
    answer = run("%%llama complete --live\nQ").result
    assert answer.text == "answer 1"
    assert capsys.readouterr().out.count("The answer is not live here: it needs a notebook") == 1
    assert run("%llama pen").result is answer


def test_a_replayed_answer_has_the_pen(run: Any, model: Any, boards: list[Pen]) -> None:
    """What grows from it is written by the model."""
    model.backend.answers = ["one two", " more"]
    run("%llama record r.sqlite").raise_error()
    run("%%llama complete --seed 1\nQ").raise_error()
    run("%llama replay r.sqlite")
    run("%%llama complete --seed 1 --live -o again\nQ").raise_error()
    [board] = boards
    assert run("again").result.replayed
    board.pick(2, "")
    boards_rest()
    assert board.answer.text == "one two more"


def test_an_answer_that_cannot_go_on_costs_no_cell(
    run: Any,
    model: Any,
    boards: list[Pen],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The answer is bound and shown; why there is no pen is said below it."""

    def gone(self: Any, tokens: Any = None) -> None:
        raise BackendError("The server is gone.")

    monkeypatch.setattr(Branching, "pieces", gone)
    run("%%llama complete --live -o said\nQ").raise_error()
    assert (boards, run("said").result.text) == ([], "answer 1")
    assert "There is no pen here: The server is gone." in capsys.readouterr().out


def test_a_branch_is_put_into_its_chat(run: Any, model: Any, boards: list[Pen], session: Any) -> None:
    """A button makes what is shown the answer of its turn; what stood there, and what followed, is kept."""
    model.backend.answers = ["good day", "A2", "bye", "A3"]
    run("%%llama chat --session a --live -o first\nQ1").raise_error()
    run("%%llama chat --session a\nQ2").raise_error()
    [board] = boards
    button, chat = board.in_chat.button, session.chats["a"]
    assert (button.description, button.disabled, button.layout.display) == ("Stands in chat a", True, None)
    board.pick(0, "bad")
    boards_rest()
    assert (button.description, button.disabled) == ("Use in chat a", False)
    button.click()
    assert chat.turns[-1].completion is board.answer
    assert [m["content"] for m in chat.messages] == ["Q1", board.answer.text]
    assert board.answer.text.startswith("bad")
    assert "turn 1 of the chat “a”" in board.voice.text
    assert "with the 1 turn after it, is kept as branch 1" in board.voice.text
    assert board.voice.text in board.output.value
    assert button.disabled
    board.which.value = 0  # what stood there can be taken back
    assert (button.disabled, board.output.value) == (False, "")
    button.click()
    assert [m["content"] for m in chat.messages] == ["Q1", "good day"]


def test_only_what_a_chat_has_can_be_put_into_it(
    run: Any, model: Any, boards: list[Pen], session: Any
) -> None:
    """A completion has no button; where the chat was reset meanwhile, that is said in its place."""
    model.backend.answers = ["one two", "three four"]
    run("%%llama complete --live\nQ").raise_error()
    assert boards[0].in_chat.button.layout.display == "none"
    run("%%llama chat --session a --live\nQ").raise_error()
    boards[1].pick(0, "five")
    boards_rest()
    session.chats["a"].reset()
    boards[1].in_chat.button.click()
    assert "was reset, or changed" in boards[1].output.value
    assert session.chats["a"].turns == []
