"""Trees of answers: what they share once, each way on, and how it ends."""

from __future__ import annotations

import pickle
from typing import Any

import pytest

import llama_magic as lm
from llama_magic import display
from llama_magic.testing import Script, scripted_model


def test_a_tree_of_branches() -> None:
    """Shared text stands once, before the ways on; a branch of a branch below it; read back as well."""
    model = scripted_model(["red green blue", " sky", " ", " grass grows"])
    answer = model.complete("Say", max_tokens=9, seed=1)
    first = answer.fork(1, " deep", seed=2)
    second = first.fork(first.begun, " sea", seed=3)
    other = answer.fork(1, " wide", seed=4)
    assert lm.tree(answer).answers == (answer, first, second, other)
    frame = lm.tree(answer).to_pandas()
    assert list(frame["branch_of"].fillna(-1)) == [-1, 0, 1, 0]
    assert list(frame["step"].fillna(-1)) == [-1, 1, first.begun, 1]
    assert (list(frame["seed"]), set(frame["prompt"])) == ([1, 2, 3, 4], {"Say"})
    read = pickle.loads(pickle.dumps(answer))  # without the vocabulary they part at words
    assert lm.tree(read).drawing.splitlines() == [
        "… Say",
        "red",
        "├─ green  blue   seed 1 · 3 written",
        "├─ deep ",
        "│  ├─ sky    seed 2 · 1 written",
        "│  └─ sea     seed 3 · 1 written",
        "└─ wide  grass grows   seed 4 · 2 written",
    ]


def test_the_ways_on_have_their_probabilities(scripted: Any, answers: dict[str, str]) -> None:
    """Answers of this process part at tokens; what was picked has its share of where it was not drawn."""
    question = min(answers)
    answer = scripted.complete(question, seed=1, max_tokens=9)
    answer.fork(2, answer.alternatives(2, k=2)[1], max_tokens=1)
    head, shared, drawn, picked = lm.tree(answer).drawing.splitlines()
    assert (head, shared) == (f"… {question}", "<0> is <0")
    assert drawn.startswith("├─ >, <0> 100%  .")
    assert picked.startswith("└─ ")
    assert " <1%  " in picked


def test_a_tree_of_samples_and_of_what_was_read_back() -> None:
    """Several answers are merged as well; without a vocabulary they part at words."""
    model = scripted_model([Script(samples=("a dog\nbarks", "a dog sleeps", "a dog sleeps", "a dog"))])
    samples = model.complete("What?", n=4, max_tokens=9, seed=1)
    by_token, by_word = lm.tree(samples), lm.tree([pickle.loads(pickle.dumps(one)) for one in samples])
    assert by_token.drawing == by_word.drawing
    seeds = [one.seed for one in samples]
    assert by_token.drawing.splitlines() == [
        "… What?",
        "a dog",
        f"├─ ↵barks    seed {seeds[0]} · 3 written",
        f"├─ sleeps    seed {seeds[1]} · 3 written",
        f"├─ sleeps    seed {seeds[2]} · 3 written",
        f"└─ (the end)   seed {seeds[3]} · 2 written",
    ]


def test_answers_to_several_prompts_are_a_tree_each() -> None:
    """What one prompt's answers part at is no choice of another's; a branch stays with its answer."""
    model = scripted_model(lambda request: "one way" if "A" in str(request.text) else "one day")
    first, other = model.complete("A", seed=1), model.complete("B", seed=2)
    branch = first.fork(1, "x")
    assert lm.tree([first, other]).drawing == "\n\n".join(lm.tree(one).drawing for one in (first, other))
    assert lm.tree([branch, other, first]).answers == (branch, first, other)


def test_a_tree_shows_itself() -> None:
    """Every format holds the drawing, escaped; a lone answer is a tree, too; other things are none."""
    model = scripted_model(["<b>bold</b>"])
    answer = model.chat([{"role": "user", "content": "Hi"}], max_tokens=9)
    tree = lm.tree(answer)
    assert tree.drawing.splitlines()[0] == "Hi"
    assert "&lt;b&gt;bold" in display.to_html(tree)
    assert tree.drawing in display.to_text(tree)
    assert "<b>bold" in display.to_markdown(tree)
    assert "1 answer of scripted" in str(tree)
    with pytest.raises(lm.OptionError, match="no answer to draw"):
        lm.tree([])
    with pytest.raises(lm.InputTypeError, match="of answers"):
        lm.tree(["text"])  # type: ignore[list-item]


def test_no_line_of_a_tree_is_wider_than_a_narrow_window() -> None:
    """A long stretch goes on below itself, beside the lines of the tree; not a word of it is lost."""
    ways = [f"It was {' '.join(['word'] * 10)} and {name} {' '.join(['more'] * 10)}." for name in ("a", "b")]
    model = scripted_model(ways)
    drawing = lm.tree([model.complete("Q", max_tokens=40, seed=i) for i in range(2)]).drawing
    lines = drawing.splitlines()
    assert max(map(len, lines)) <= 64
    assert drawing.count("word") == 10
    assert drawing.count("more") == 20
    assert [line[:3] for line in lines[1:]] == ["It ", "├─ ", "│  ", "└─ ", "   "]
