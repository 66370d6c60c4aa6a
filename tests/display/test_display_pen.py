"""The pen: what is offered at a token, what grows from a pick, and what a saved notebook keeps of it."""

from __future__ import annotations

import threading
from typing import Any

import front_ends
import pytest
from as_ipython import page_says, show
from display_answers import answering, widgets
from front_ends import WIDGET
from settled import WATCHDOG, boards_rest

from llama_magic import display
from llama_magic.display import hosts, to_text
from llama_magic.display.boards.pen import Pen
from llama_magic.display.static import text as render_text
from llama_magic.errors import OptionError
from llama_magic.testing import Script, scripted_model
from llama_magic.words.tables import percent


def words(board: Pen) -> str:
    """Return the text that the page shows."""
    return "".join(text for text, _, _ in board.sheet.tokens)


@pytest.fixture(autouse=True)
def _widgets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "no_widgets", lambda shell: "")


@pytest.fixture
def answer(loaded: Any) -> Any:
    """A seeded answer of the demo model."""
    return loaded("smollm2").complete("The best thing about the sea is", max_tokens=12, seed=7)


def test_every_token_has_its_probability(answer: Any) -> None:
    """That of the model's own distribution; the text ends as the answer ended."""
    board = answer.live()
    assert words(board) == answer.raw_text
    for step, (_, share, given) in enumerate(board.sheet.tokens):
        drawn = next(one for one in answer.alternatives(step, 2000) if one.drawn)
        assert share == pytest.approx(drawn.probability, abs=1e-4)
        assert not given
    assert board.sheet.end == "cut at max_tokens 12"


def test_a_picked_token_regrows_the_answer(answer: Any) -> None:
    """What the page is offered are the alternatives; a pick makes the branch that `fork` makes."""
    board = answer.live()
    page_says(board.sheet, {"open": 4, "of": 0})
    boards_rest()
    told = answer.alternatives(4, 8)
    assert board.sheet.offered["rows"] == [[a.token_id, a.text, a.probability, a.drawn] for a in told]
    page_says(board.sheet, {"pick": 4, "of": 0, "token": told[1].token_id})
    boards_rest()
    [branch] = answer.branches
    assert board.answer is branch
    assert branch.token_ids == answer.fork(4, told[1].token_id).token_ids
    assert words(board) == branch.raw_text
    shares = [share for _, share, _ in board.sheet.tokens]
    assert None not in shares  # those that were given to the branch are known by the answer before it
    assert shares[4] == pytest.approx(told[1].probability, abs=1e-4)
    assert [given for _, _, given in board.sheet.tokens] == [True] * 5 + [False] * 12
    assert board.which.options[1] == (f"branch 1: token 5 “{told[1].text.strip()}”", 1)
    assert board.recipe()[1].text == f"answer.fork(4, {told[1].token_id})"
    board.look(4)  # given to the branch: the answer before it knows, and nothing is read again
    boards_rest()
    assert [row[3] for row in board.sheet.offered["rows"]] == [False, True, *[False] * 6]
    assert [row[:3] for row in board.sheet.offered["rows"]] == [
        [one.token_id, one.text, one.probability] for one in told
    ]


def test_what_is_typed_stands_in_place_of_the_token(answer: Any) -> None:
    """The answer before stays to be seen, and a branch of the branch is told apart from it."""
    board = answer.live()
    page_says(board.sheet, {"pick": 2, "of": 0, "text": " we"})
    boards_rest()
    page_says(board.sheet, {"pick": 5, "of": 1, "text": " never"})
    boards_rest()
    second = answer.branches[0].branches[0]
    assert second.text.startswith(" that it we")
    assert [label.partition(":")[0] for label, _ in board.which.options] == [
        "the answer",
        "branch 1",
        "branch 1.1",
    ]
    assert board.recipe()[1].text == "answer.fork(2, ' we').fork(5, ' never')"
    board.which.value = 0
    assert (board.answer, words(board)) == (answer, answer.raw_text)
    assert board.which.layout.display is None


def test_the_end_goes_on(answer: Any) -> None:
    """At the place after the last token nothing is replaced; an empty text only goes on."""
    board = answer.live()
    page_says(board.sheet, {"pick": 12, "of": 0, "text": ""})
    boards_rest()
    [branch] = answer.branches
    assert branch.token_ids[:12] == answer.token_ids
    assert len(branch.token_ids) == 24


def test_a_seed_on_the_board_is_that_of_what_grows(answer: Any) -> None:
    """It stands in the line that makes the branch again; what is no number is said, and nothing grows."""
    board = answer.live()
    board.seed.value = "x"
    board.pick(3, " a")
    assert "The seed is &#39;x&#39;" in board.output.value
    board.seed.value = "9"
    board.pick(3, " a")
    boards_rest()
    assert answer.branches[0].seed == 9
    assert board.recipe()[1].text == "answer.fork(3, ' a', seed=9)"
    assert board.output.value == ""


def test_a_pick_stops_what_is_being_written() -> None:
    """What is there of a branch is kept; the next one grows from it. Its text grows on the page meanwhile."""
    seen = threading.Event()
    model = scripted_model(
        ["one two three", Script(" six seven eight", at=2, hold=threading.Event()), " ten"]
    )
    answer = model.complete("Count", max_tokens=9)
    board = answer.live()
    board.sheet.observe(lambda _: "seven" in words(board) and seen.set(), "tokens")
    board.pick(1, " five")
    assert seen.wait(WATCHDOG)
    assert board.sheet.end == ""
    assert (board.sheet.writing, board.stop_button.disabled, board.answer) == (True, False, None)
    assert "branch 1" in board.title.value  # not what it grows from
    assert "one two three" in render_text.page(board.view()).replace("·", " ").replace("│", "")
    seven = [text for text, _, _ in board.sheet.tokens].index(" seven")
    page_says(board.sheet, {"pick": seven, "of": 1, "text": " nine"})
    boards_rest()
    first, second = answer.branches[0], answer.branches[0].branches[0]
    assert (first.text, first.finish_reason) == ("one five six seven", "interrupted")
    assert second.text == "one five six nine ten"
    assert (board.sheet.writing, board.stop_button.disabled) == (False, True)


def test_opening_a_token_stops_what_is_being_written() -> None:
    """The alternatives are those of the text so far; without logits the board says what is needed."""
    seen = threading.Event()
    model = scripted_model(["one two", Script(" six seven", at=1, hold=threading.Event())])
    board = model.complete("Count", max_tokens=9, logprobs=2).live()
    board.sheet.observe(lambda _: "six" in words(board) and seen.set(), "tokens")
    board.pick(1, " five")
    assert seen.wait(WATCHDOG)
    six = [text for text, _, _ in board.sheet.tokens].index(" six")
    page_says(board.sheet, {"open": six, "of": 1})
    boards_rest()
    assert [row[1:] for row in board.sheet.offered["rows"]] == [[" six", pytest.approx(0.9), True]]
    assert board.answer.finish_reason == "interrupted"
    board.look(six - 1)  # given to the branch
    boards_rest()
    assert "logprobs=K" in board.sheet.offered["problem"]


def test_stop_keeps_what_is_there() -> None:
    """The button ends the branch, which stands among the versions; before its first token it says so."""
    model = scripted_model(["one two", Script(" six seven", at=0, hold=threading.Event())])
    board = model.complete("Count", max_tokens=9).live()
    board.pick(1, " five")
    assert (words(board), board.sheet.writing, board.sheet.end) == ("one", True, "is being read")
    board.stop_button.click()
    boards_rest()
    assert board.answer.text == "one five"
    assert "stopped before its end" in board.sheet.end


def test_what_cannot_grow_is_said(answer: Any, loaded: Any) -> None:
    """A token that ends the answer, a step that is none, an error on the way: the version before stays."""
    board = answer.live()
    board.pick(3, loaded("smollm2").backend.tokenizer.eos_id)
    assert "ends the answer" in board.output.value
    assert "ends the answer" in board.voice.text
    board.look(99)
    boards_rest()
    assert "There is no step 99" in board.sheet.offered["problem"]
    assert len(board.versions) == 1
    broken = scripted_model(["one two", Script(error=ValueError("a wire was cut"))])
    board = broken.complete("Count", max_tokens=9).live()
    board.pick(1, " five")
    boards_rest()
    assert "a wire was cut" in board.output.value
    assert (words(board), board.sheet.of, len(board.versions)) == ("one two", 0, 1)


@pytest.mark.parametrize(
    "message",
    [None, {}, {"pick": 1}, {"pick": 1, "of": 9, "text": "x"}, {"pick": "1", "of": 0, "text": "x"},
     {"pick": 1, "of": 0}, {"pick": 1, "of": 0, "token": True}, {"open": 1.5, "of": 0}],
)  # fmt: skip
def test_other_messages_are_ignored(message: Any) -> None:
    """Nothing is asked of the model by what the page cannot have meant."""
    model = answering("one two three")
    board = model.complete("Count").live()
    page_says(board.sheet, message)
    boards_rest()
    assert len(model.backend.requests) == 1


def test_texts_of_a_model_are_data() -> None:
    """Control characters come to the page as their stand-ins."""
    board = answering("one \x1b[31m\u202etwo").complete("Count").live()
    assert "␛[31m⟨U+202E⟩two" in words(board)


def test_several_samples_and_earlier_branches_are_there_from_the_start() -> None:
    """Each sample is a version, as is what was forked before; the tree is of all of them."""
    model = scripted_model([Script(samples=("one two", "three four")), " five"])
    answers = model.complete("Count", n=2, max_tokens=9)
    answers[1].fork(1, " and")
    board = display.live_view(answers)
    assert [label for label, _ in board.which.options] == [
        "sample 1",
        "sample 2",
        "branch 2.1: token 2 “and”",
    ]
    board.which.value = 2
    assert words(board) == "three and five"
    assert board.recipe()[1].text == "answer[1].branches[0]"
    tree = render_text.page(board.view())
    assert "├─" in tree
    assert "one" in tree


def test_an_answer_of_elsewhere_has_no_pen(answer: Any) -> None:
    """Nothing goes on from it, which is said with the way out."""
    import pickle

    with pytest.raises(OptionError, match="was not written in this process"):
        pickle.loads(pickle.dumps(answer)).live()
    with pytest.raises(OptionError, match="takes an answer"):
        display.live_view([])


def test_what_is_saved_says_the_same_without_the_widget(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The stand-in follows each pick: tokens, alternatives, tree, the line in Python; kept, it is all."""
    shell = front_ends.shell(kernel=False)
    monkeypatch.setattr(hosts, "current_shell", lambda: shell)
    before = widgets()
    board = answer.live()
    show(board)
    view, widget = shell.display_pub.shown()
    assert "├─" not in view["text/plain"]
    assert widget[WIDGET]["model_id"] == board.model_id
    assert widget["text/plain"] == "The pen: run this cell again to use it."
    board.look(4)
    boards_rest()
    view, _ = shell.display_pub.shown()
    assert "what may stand at token 5 (step 4)" in view["text/plain"]
    board.pick(4, " deep")
    boards_rest()
    view, _ = shell.display_pub.shown()
    assert "└─ deep" in view["text/plain"]
    assert "answer.fork(4, ' deep')" in view["text/plain"]
    said = " ".join(view["text/plain"].partition("least sure first")[2].split())
    for one in answer.alternatives(4, 5):  # the picked token is unlikely; what was likely there is said
        assert f"“{one.text.replace(' ', '·')}” {percent(one.probability)}" in said
    assert 'class="lm lm-standin' in view["text/html"]
    assert "<script" not in view["text/html"]
    board._view_count = 1
    board.keep_button.click()
    view, line = shell.display_pub.shown()
    assert "└─ deep" in view["text/plain"]
    assert "answer.fork(4, ' deep')" in line["text/plain"]
    assert WIDGET not in line
    board._view_count = 0
    assert widgets() == before


def test_without_widgets_the_answer_itself_comes_back(
    answer: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """One line says why; the answer shows itself as ever."""
    monkeypatch.setattr(hosts, "no_widgets", lambda shell: "it needs a notebook")
    assert answer.live() is answer
    assert capsys.readouterr().out == "The answer is not live here: it needs a notebook.\n"
    assert "seed 7" in to_text(answer)
