"""`lm.sweep`, dry runs, and the grid of settings with what differs marked."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

import llama_magic as lm
from llama_magic.display import to_html, to_markdown, to_text
from llama_magic.display.views.experiments.grids import marked
from llama_magic.engine.native import Context
from llama_magic.experiments.forecast import Forecast
from llama_magic.model.journal import journal
from llama_magic.testing import scripted_model

place = "Lyon"


def said(request: Any) -> str:
    return str(request.messages[-1]["content"])


# --- sweep --------------------------------------------------------------------------------------


def test_a_sweep_is_every_combination() -> None:
    """Axes in their order, models last, `n` answers each; without rows there is one prompt a combination."""
    one, other = (scripted_model(lambda r: f"{said(r)} {r.sampling.temperature:g}", name=n) for n in "ab")
    runs = lm.sweep(
        "{{ thing }} in a {{ style }} way",
        over={"style": ["dry", "warm"], "temperature": [0, 0.8]},
        models=[one, other],
        thing="the sea",
        n=2,
    )
    wanted = [
        (style, t, model, sample)
        for style, t, model, sample in itertools.product(["dry", "warm"], [0, 0.8], "ab", range(2))
    ]
    assert [(*run.settings.values(), run.sample) for run in runs] == wanted
    assert list(runs[0].settings) == ["style", "temperature", "model"]
    assert [run.text for run in runs] == [f"the sea in a {style} way {t:g}" for style, t, *_ in wanted]


def test_eight_prompts_by_eight_seeds_read_each_token_once(
    loaded: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts of one head: their tree is decoded once, a prompt's last token for each of its answers; the
    table is what single calls give, cell by cell.
    """
    model = loaded("short")
    model.complete("x", max_tokens=1, seed=1)  # the context is made, and tried
    model.backend.call(lambda core: [lane.forget() for lane in core.lanes])
    decoded: list[int] = []
    decode = Context.decode

    def counting(self: Context, tokens: Any, *rest: Any) -> Any:
        if self.weights is model.backend.weights:
            decoded.append(len(tokens))
        return decode(self, tokens, *rest)

    monkeypatch.setattr(Context, "decode", counting)
    head = "You judge what people write to a shop, in a few plain words. " * 9
    # No two share a token: for so few nobody waits, who comes while another reads them (`_is_being_read`).
    endings = (
        "Is it good?",
        "Was it bad?",
        "Say one word.",
        "A colour!",
        "Which town?",
        "Please greet.",
        "Count.",
        "Go.",
    )
    # Where a busy machine lets few of them run at once, they would carry guesses, which are decoded too.
    how: dict[str, Any] = {"max_tokens": 3, "temperature": 0.8, "speculate": "off"}
    runs = lm.sweep(
        {f"p{i}": head + ending for i, ending in enumerate(endings)},
        over={"seed": list(range(1, 9))}, model=model, progress=False, **how,
    )  # fmt: skip
    answers = [run.completion for run in runs]
    prompts = [tuple(answer.prompt_token_ids) for answer in answers]
    nodes = {prompt[:end] for prompt in prompts for end in range(1, len(prompt) + 1)}
    again = len(prompts) - len(set(prompts))
    # The last token of an answer is not decoded, but for one that goes on to the token that ends it.
    written = sum(len(a.token_ids) - (a.finish_reason == "length") for a in answers)
    assert sum(decoded) == len(nodes) + again + written
    assert len(nodes) < sum(map(len, prompts)) / 40
    for run in runs:
        prompt = head + endings[int(run.settings["prompt"][1:])]
        single = model.chat([{"role": "user", "content": prompt}], seed=run.settings["seed"], **how)
        assert (single.text, single.token_ids) == (run.text, run.completion.token_ids)


def test_names_are_found_where_it_is_called() -> None:
    """A name that is no axis is a keyword, or a variable where it is called; given rows have to have it."""
    model = scripted_model(said)
    thing = "a tower"
    assert [r.text for r in lm.sweep("{{ thing }} of {{ place }}", {}, model=model)] == ["a tower of Lyon"]
    assert [r.text for r in lm.sweep("{{ thing }}", thing="a bridge", model=model)] == ["a bridge"]
    assert [r.text for r in lm.sweep("{{ thing }}", {"thing": "a hill"}, model=model)] == ["a hill"]
    rows = [{"thing": "x"}, {"thing": "y"}]
    assert [r.text for r in lm.sweep("{{ thing }}", rows=rows, model=model)] == ["x", "y"]
    with pytest.raises(lm.TemplateError, match="no_such_name"):
        lm.sweep("{{ no_such_name }}", model=model)
    with pytest.raises(lm.TemplateError, match="place"):  # rows were given: they have to have it
        lm.sweep("{{ place }}", rows=rows, model=model)
    assert thing == "a tower"


def test_cells_are_single_calls(loaded: Callable[..., Any]) -> None:
    """A sweep over prompts and seeds: each cell is, token by token, the single call."""
    model = loaded("short")
    head = "You tell stories to children. " * 4
    prompts = {name: f"{head}Begin one about a {name}." for name in ("cat", "king", "boat")}
    runs = lm.sweep(prompts, {"seed": [1, 2], "temperature": [0.9]}, model=model, max_tokens=10)
    assert [run.seed for run in runs] == [1, 2] * 3
    for run in runs:
        ask = [{"role": "user", "content": prompts[run.settings["prompt"]]}]
        alone = model.chat(ask, seed=run.settings["seed"], temperature=0.9, max_tokens=10)
        assert run.completion.token_ids == alone.token_ids


# --- the grid -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "base", "pieces"),
    [
        ("a b c", "a b c", [("a b c", False)]),
        ("a x c", "a b c", [("a ", False), ("x", True), (" ", False), ("c", False)]),
        ("a b c d e", "a b c", [("a b c ", False), ("d e", True)]),
        ("b c", "a b c", [("b c", False)]),
        ("x", "", [("x", True)]),
        ("", "x", [("", False)]),
    ],
)
def test_words_that_differ_are_marked(text: str, base: str, pieces: list[tuple[str, bool]]) -> None:
    """Words that another text does not have there, blanks around them left out; the text is whole."""
    assert list(marked(text, base).pieces) == pieces
    assert "".join(piece for piece, _ in marked(text, base).pieces) == text


def test_the_grid_of_a_sweep_marks_what_differs() -> None:
    """A setting a line, without a number where there are no rows; its words that the first has not are
    marked in HTML, Markdown and text.
    """
    model = scripted_model(lambda r: "It stands <firm> on rock." if "b" in said(r) else "It stands on rock.")
    runs = lm.sweep("{{ x }}", {"x": ["a", "b"], "top_k": [1]}, model=model)
    assert "It stands [<firm>] on rock." in to_text(runs)
    assert "It stands **&lt;firm&gt;** on rock." in to_markdown(runs)
    page = to_html(runs)
    assert page.count("<ins") == 1
    assert ">&lt;firm&gt;</ins>" in page
    assert "every answer" in page
    assert ">row</th>" not in page


def test_the_grid_shows_the_row_that_tells_and_the_scores_of_all() -> None:
    """Of many rows that one whose answers differ; shares with their intervals, and who was better."""
    rows = [{"text": str(i)} for i in range(20)]

    def answer(request: Any) -> str:
        kind, text = said(request).split()
        return kind if int(text) >= 5 else "same"

    runs = lm.sweep({"p": "one {{ text }}", "q": "two {{ text }}"}, rows=rows, model=scripted_model(answer),
                    score=lambda run: run.text != "one")  # fmt: skip
    text = to_text(runs)
    assert "answer to row 5" in text
    assert "Marked is what differs from the first line; rows count from 0." in text
    assert "5 of 20" in text
    assert "11% to 47%" in text
    assert "q against p on the same 20 rows: 15 better, 0 worse, p < 0.001: q is better." in text
    samples = lm.sweep("x", {"top_k": [1, 2]}, model=scripted_model(["a", "b", "c", "d"]), n=2)
    assert [line.split()[:2] for line in to_text(samples).splitlines()[2:6]] == [
        ["1", "0"], ["1", "1"], ["2", "0"], ["2", "1"],
    ]  # fmt: skip


def test_errors_and_decisions_have_their_place_in_the_grid() -> None:
    """A setting whose answer failed says so; a grid of decisions shows choices."""
    model = scripted_model(lambda r: json.dumps({"a": said(r)}))
    runs = lm.sweep("{{ x }}", {"x": ["ok", None]}, schema="a", model=model)
    assert "error: {{ x }} on line 1" in to_text(runs)
    odds = lm.decide(
        ["q"], over={"system": ["be kind", "be curt"]}, options=["yes", "no"], model=scripted_model()
    )
    assert "be curt" in to_text(odds)
    assert "every decision" in to_html(odds)


# --- dry runs -----------------------------------------------------------------------------------


def test_a_dry_run_counts_and_asks_nothing() -> None:
    """Tokens of each row as the run would have them, the nodes of the prefix tree, and the rows that fail."""
    model = scripted_model(said, window=80)
    rows: list[Any] = [{"text": "one two"}, {"text": "one three"}, {"text": "word " * 90}, {"text": None}]
    found = lm.map(rows, "Say {{ text }}", model=model, dry_run=True, max_tokens=9, over={"top_k": [1, 2]})
    assert isinstance(found, Forecast)
    assert model.backend.requests == []
    runs = lm.map(rows, "Say {{ text }}", model=model, max_tokens=9, over={"top_k": [1, 2]})
    counted = [None if r.completion is None else r.completion.usage.prompt_tokens for r in runs]
    assert [row.prompt_tokens for row in found.rows if row.error is None] == [c for c in counted if c]
    assert {row.max_tokens for row in found.rows if row.error is None} == {9}
    prompts = {tuple(r.completion.prompt_token_ids) for r in runs if r.completion}
    nodes = {ids[:end] for ids in prompts for end in range(1, len(ids) + 1)}
    assert found.distinct_tokens == len(nodes)
    assert [row.row for row in found.too_long] == [2, 2]
    assert [row.row for row in found.failures] == [2, 2, 3, 3]
    text = to_text(found)
    assert "4 rows would fail, 2 of them too long" in text
    assert len(found.to_pandas()) == 8


def test_a_dry_run_foretells_by_measured_speed() -> None:
    """What this process has measured of the model counts; of a model elsewhere nothing is asked for it."""
    model = scripted_model(lambda r: "four words of answer", name="measured")
    assert lm.map(["a b c"], model=model, dry_run=True).seconds is None
    assert "no time can be foretold" in to_text(lm.map(["a"], model=model, dry_run=True))
    assert model.backend.requests == []
    done = lm.map(["a b c d e f g h"] * 3, model=model)
    found = lm.map(["a b c"] * 10, model=model, dry_run=True)
    speed = found.speeds["measured"]
    assert (speed.answer, speed.answers) == (4, 3)
    timings = [run.completion.timings for run in done]
    read = sum(run.completion.usage.prompt_tokens for run in done)
    assert speed.read == pytest.approx(read / sum(t.prompt_s for t in timings))
    assert found.seconds == pytest.approx(found.distinct_tokens / speed.read + 40 / speed.write)


def test_a_model_here_is_measured_by_one_row(loaded: Callable[..., Any]) -> None:
    """A model that nothing is known of answers one row, and the time of all follows from it."""
    model = loaded("short")
    journal.clear()
    rows = [f"Name a fish that begins with {letter}." for letter in "abcdef"]
    found = lm.map(rows, model=model, dry_run=True, max_tokens=5)
    assert len(list(journal)) == 1
    assert found.speeds["smollm2" if model.name == "smollm2" else model.name].answers == 1
    assert found.seconds is not None
    assert found.seconds > 0
    counts = [model.count_tokens([{"role": "user", "content": row}]) for row in rows]
    assert [row.prompt_tokens for row in found.rows] == counts
    assert max(counts) <= found.distinct_tokens < sum(counts)
