"""What comes out: rows, tables and pages of answers."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest
from moods import TEXTS, Mood, said, until

import llama_magic as lm
from llama_magic.display import to_html, to_markdown, to_text
from llama_magic.testing import scripted_model


def test_answers_go_back_to_the_rows_that_they_are_of() -> None:
    """A table has the index of the rows: labels of a DataFrame, else places; so a gap moves no answer."""
    texts = ["a", None, "c", "d"]
    frame = pd.DataFrame({"text": texts}, index=["w", "x", "y", "z"])
    model = scripted_model(lambda r: said(r).upper())
    runs = lm.map(frame, "{{ text }}", model=model)
    assert list(runs.to_pandas().index) == ["w", "x", "y", "z"]
    frame["answer"] = runs.to_pandas()["answer"]
    assert list(frame["answer"][["w", "y", "z"]]) == ["A", "C", "D"]
    assert list(runs.failures.to_pandas().index) == ["x"]
    assert [line.split()[:2] for line in to_text(runs[2:]).splitlines()[1:]] == [
        ["row", "index"], ["2", "y"], ["3", "z"],
    ]  # fmt: skip
    assert list(runs[2:].scored(lambda run: 1).to_pandas().index) == ["y", "z"]
    plain = lm.map([{"text": text} for text in texts], "{{ text }}", model=model)
    assert list(plain[2:].to_pandas().index) == [2, 3]
    series = frame["text"].dropna()
    assert list(lm.map(series, "{{ text }}", model=model).to_pandas().index) == ["w", "y", "z"]
    both = lm.map(frame[2:], "{{ text }}", model=model, over={"top_k": [1, 2]})
    assert list(both.to_pandas().index) == ["y", "y", "z", "z"]
    assert list(both.where(top_k=2).to_pandas().index) == ["y", "z"]
    numbered = lm.map(["a", "b"], model=model, n=2)
    assert list(numbered.to_pandas().index) == [0, 1, 2, 3]
    named = lm.map(frame[:2].rename_axis("key"), "{{ text }}", model=model, over={"top_k": [3, 4]})
    assert list(named.where(top_k=4).to_pandas().reset_index()["key"]) == ["w", "x"]
    levels = frame[:1].set_index(pd.MultiIndex.from_tuples([("w", 1)], names=["a", "b"]))
    assert lm.map(levels, "{{ text }}", model=model).to_pandas().index.names == ["a", "b"]
    pairs = frame[:1].set_index(pd.MultiIndex.from_tuples([("w", 1)]))
    assert list(lm.map(pairs, "{{ text }}", model=model).to_pandas().index) == [("w", 1)]


def test_whole_numbers_stay_whole_where_a_row_failed() -> None:
    """Counts, seeds, fields and columns of the rows: a gap made floats of all of them (42.0, 4.29e9)."""
    rows = [{"text": "a", "age": 2**40}, {"text": None, "age": None}, {"text": "b", "age": 3}]
    answer = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
    model = scripted_model(lambda r: '{"n": 7}')
    runs = lm.map(rows, "{{ text }}", schema=answer, model=model, score={"s": lambda run: run.parsed["n"]})
    frame = runs.to_pandas()
    whole = ["age", "answer.n", "s", "seed", "prompt_tokens", "completion_tokens"]
    assert frame[whole].dtypes.astype(str).tolist() == ["Int64"] * len(whole)
    assert list(frame["age"].dropna()) == [2**40, 3]
    assert list(frame["seed"].dropna()) == [run.seed for run in runs if run.error is None]
    assert frame.loc[1, whole].isna().all()
    assert frame["seconds"].dtype == float
    assert lm.map([1.5, None], model=model).to_pandas()["completion_tokens"].isna().all()
    assert lm.map(rows, "{{ text }}", model=model, dry_run=True).to_pandas()["prompt_tokens"].dtype == "Int64"
    odd = [{"text": "a", "x": True, "y": 2**70, "z": 1.0}, {"text": "b", "x": None, "y": None, "z": None}]
    frame = lm.map(odd, "{{ text }}", model=model).to_pandas()
    assert [frame[name][0] for name in "xyz"] == [True, 2**70, 1.0]
    assert [str(frame[name].dtype) for name in "xyz"] == ["object", "object", "float64"]


def test_a_prompt_that_names_no_column_is_told_of() -> None:
    """All rows are asked the same: a note says so."""
    rows = [{"review": "a"}, {"review": "b"}]
    words = "names no column, so every row was asked the same. A column is written {{ review }}."
    assert lm.map(rows, "Mood?", model=scripted_model(said)).notes == (f"The prompt {words}",)
    both = lm.map(rows, {"x": "{{ review }}", "y": "Mood?"}, model=scripted_model(said))
    assert both.notes == (f"The prompt 'y' {words}",)
    assert f"The prompt 'y' {words}" in to_text(both).replace("\n", " ")
    for how in ({"prompt": "{{ review }}"}, {"prompt": "Mood?", "system": "Of {{ review }}"}):
        assert lm.map(rows, model=scripted_model(said), **how).notes == ()
    assert lm.map(rows[:1], "Mood?", model=scripted_model(said)).notes == ()
    assert lm.map(["a", "b"], model=scripted_model(said)).notes == ()


def test_a_column_in_single_braces_alone_is_refused() -> None:
    """Nothing is asked; beside double braces, or where the system prompt has some, they are a text."""
    model, rows = scripted_model(said), [{"review": "a"}, {"review": "b"}]
    calls = (
        lambda: lm.map(rows, "Mood of {review}", model=model),
        lambda: lm.map(
            rows, {"x": "{{ review }}", "y": [{"role": "user", "content": "{review}"}]}, model=model
        ),
        lambda: lm.sweep("In {style} words", over={"style": ["few", "many"]}, model=model),
    )
    for call in calls:
        with pytest.raises(lm.TemplateError, match=r"in single braces(?s:.*)Write \{\{ (review|style) \}\}"):
            call()
    assert model.backend.requests == []
    for prompt, more in (
        ("{review} {{ review }}", {}),
        ("{{ '{review}' }}", {}),
        ("{review}", {"system": "{{ review }}"}),
    ):
        assert "{review}" in lm.map(rows, prompt, model=model, **more)[0].completion.messages[-1]["content"]


def test_a_column_is_written_as_it_is_called() -> None:
    """`Review Text` and `answer.mood` alone are columns, not expressions; within one they are no names."""
    rows = [
        {"Review Text": f"text {n}", "answer.mood": "good", "answer": "whole", "a-b": None} for n in range(2)
    ]
    runs = lm.map(rows, "{{ Review Text }}, {{answer.mood}} of {{ answer }}", model=scripted_model(said))
    assert [run.completion.messages[0]["content"] for run in runs] == [
        "text 0, good of whole",
        "text 1, good of whole",
    ]
    assert (runs.notes, list(runs.columns)) == ((), ["Review Text", "answer.mood", "answer"])
    over = lm.sweep("In {{ two words }}", over={"two words": ["x", "y"]}, model=scripted_model(said))
    assert [run.completion.messages[0]["content"] for run in over] == ["In x", "In y"]
    # What is no expression is none on any row: it was an error of each.
    for prompt in (
        "{{ Review Text | upper }} {{ a-b }}",
        {"x": "{{ answer }}", "y": [{"role": "user", "content": "{{ Review Text or 1 }}"}]},
    ):
        with pytest.raises(lm.TemplateError, match=r"write it alone, \{\{ Review Text \}\}, or rename it"):
            lm.map(rows, prompt, model=scripted_model(said))
    gap = str(lm.map(rows, "{{ a-b }}", model=scripted_model(said))[0].error)
    assert "has no text: the value is None" in gap
    assert "or rename it" in gap  # `{{ a-b or 'none' }}` would be no cure
    with pytest.raises(lm.TemplateError, match=r"asks for \{\{ Mood \}\}"):
        lm.map(rows, "{{ Mood }}", model=scripted_model(said))


@pytest.mark.parametrize(
    ("written", "cure", "cured"),
    [
        ("day", "{{ day or 'none' }}", "none"),
        ("day | upper", "(day or 'none') in place of day", "NONE"),
        ("'on ' ~ day", "(day or 'none') in place of day", "on none"),
        ("'%s, %d' % (day, n)", "(day or 'none') in place of day", "none, 2"),
        ("'{}'.format(day)", "(day or 'none') in place of day", "none"),
        ("'%s' | format(day)", "(day or 'none') in place of day", "none"),
        ("day | int", "(day or 'none') in place of day", "0"),
        ("day | safe", "(day or 'none') in place of day", "none"),
        ("'ab' | join(day)", "(day or 'none') in place of day", "anoneb"),
        ("deep.day", "{{ (deep.day) or 'none' }}", "none"),
        ("deep.day | trim", "(x or 'none') in place of x", "none"),
    ],
)
def test_a_gap_is_never_a_word_of_the_prompt(written: str, cure: str, cured: str) -> None:
    """Not by a filter, `~` or a format either, that write None, nor as 0; the cure that is named fills it."""
    rows = [{"day": float("nan"), "n": 2, "deep": {"day": None}}]
    error = str(lm.map(rows, f"{{{{ {written} }}}}", model=scripted_model(said))[0].error)
    assert cure in error
    name = "deep.day" if "deep" in written else "day"
    filled = re.sub(rf"\b{name}\b", f"({name} or 'none')", written)
    assert lm.map(rows, f"{{{{ {filled} }}}}", model=scripted_model(said))[0].text == cured
    within = str(lm.map(rows, "{{ deep.day.year }}", model=scripted_model(said))[0].error)
    assert "Fill the column" in within
    assert "{{ x.date() if x else 'none' }}" in within
    kept = "{{ 'none' if day is none else day | upper }} {{ [day] | tojson }}"
    assert lm.map(rows, kept, model=scripted_model(said))[0].text == "none [null]"


def test_statements_are_told_of() -> None:
    """`{% for %}` is sent as it stands: a note says so, and an error for a name that only it would give."""
    rows = [{"parts": ["a", "b"]}, {"parts": ["c"]}]
    runs = lm.map(rows, "{% if parts %}{{ parts | join('+') }}{% endif %}", model=scripted_model(said))
    assert runs[0].completion.messages[0]["content"] == "{% if parts %}a+b{% endif %}"
    assert [note[:60] for note in runs.notes] == [
        "In the prompt {% … %} is sent as it stands, only {{ }} is fi"
    ]
    with pytest.raises(lm.TemplateError, match=r"asks for \{\{ p \}\}.*\n.*write \{\{ names \| join"):
        lm.map(rows, "{% for p in parts %}{{ p }}{% endfor %}", model=scripted_model(said))
    assert lm.map(rows, "A share of {% 5 %} {{ parts }}", model=scripted_model(said)).notes == ()


def test_a_grid_shows_a_row_that_was_answered() -> None:
    """Errors are no answers that differ: another row tells more; where there is none they are short."""
    rows = [{"text": "word " * 600}, {"text": "b"}]
    model = scripted_model(lambda r: f"{said(r)} {r.sampling.top_k}")
    runs = lm.map(rows, {"p": "{{ text }}", "q": "So: {{ text }}"}, model=model, over={"top_k": [3, 4]})
    page = to_text(runs)
    assert "answer to row 1" in page
    assert page.partition("every answer")[0].count("error:") == 0
    alone = to_text(lm.map(rows[:1], {"p": "{{ text }}", "q": "So: {{ text }}"}, model=model))
    assert "[" not in alone
    assert "It is filled" not in alone


def test_a_table_of_all_that_is_known() -> None:
    """One row a run: the columns of its row keep their names, ours stand beside them; fields have columns."""
    rows = [{"answer": "gold", "text": "x", "seed": 1}, {"answer": "gold", "text": None, "seed": 2}]
    model = scripted_model(lambda r: json.dumps({"mood": said(r)}))
    frame = lm.map(rows, "{{ text }}", schema=Mood, model=model, over={"top_k": [3]}).to_pandas()
    assert list(frame["answer"]) == ["gold", "gold"]
    assert frame["answer.mood"][0] == "x"
    assert list(frame["top_k"]) == [3, 3]
    assert list(frame["seed"]) == [1, 2]
    assert frame["seed (run)"][0] > 0
    assert "no text" in frame["error"][1]
    assert frame["completion_tokens"][0] > 0
    assert len(lm.map([], model=model).to_pandas()) == 0


def test_a_table_keeps_a_row_s_columns_and_axes_of_the_same_name_apart() -> None:
    """Runs that are judged: the writer's columns keep their names, the judge's axes stand beside them."""
    model = scripted_model(lambda r: "ok")
    rows = [{"text": "a", "row": 7, "sample": 2, "top_k": 5}]
    runs = lm.map(rows, "{{ text }}", model=model, over={"top_k": [3, 4], "seed": [1, 2]})
    frame = runs.to_pandas()
    assert list(frame["top_k"]) == [5] * 4
    assert list(frame["top_k (run)"]) == [3, 3, 4, 4]
    assert list(frame["row"]) == [7] * 4
    assert list(frame["row (run)"]) == list(frame["sample (run)"]) == [0] * 4
    assert "column 'top_k', too" in to_text(runs)
    assert "column 'seed'" not in to_text(runs)


def test_an_axis_of_seeds_can_be_grouped_by() -> None:
    """The column `seed` is the axis, the same for every row; what was drawn with stands beside it."""
    model = scripted_model(lambda r: "ok")
    runs = lm.map(["a", "b"], "{{ text }}", model=model, over={"seed": [1, 2]})
    frame = runs.to_pandas()
    assert list(frame["seed"]) == [1, 2, 1, 2]
    assert list(frame["seed (run)"]) == [run.seed for run in runs]
    assert frame["seed (run)"].nunique() == 4


def test_labels_that_no_answer_ever_is_are_said() -> None:
    """Where the column holds "Yes" and answers are "yes", 0 % right is the table's fault; said only then."""
    model = scripted_model(said)
    rows = [{"text": "yes", "label": "Yes", "sound": "no"}, {"text": "no", "label": "No", "sound": "no"}]
    runs = lm.map(rows, "{{ text }}", model=model)
    assert "it holds 'No', 'Yes', and answered was 'no', 'yes'" in to_text(runs.confusion("label"))
    assert runs.confusion("sound").apart is None


def test_numbers_of_rows_and_answers_are_shown_as_they_are() -> None:
    """1913 is a year, and a latitude keeps its digits: in the table, in one run, in the answer alone."""
    model = scripted_model(lambda _: '{"opened": 1913, "at": 48.85661}')
    schema = {"type": "object", "properties": {"opened": {"type": "integer"}, "at": {"type": "number"}}}
    rows = [{"text": "a", "built": 1899}]
    runs = lm.map(rows, "{{ text }} {{ built }}", schema=schema, model=model, over={"temperature": [0.125]})
    for shown in (runs, runs[0], runs[0].completion):
        for page in (to_text(shown), to_html(shown), to_markdown(shown)):
            assert "1913" in page
            assert "48.85661" in page
            assert "1,9" not in page
    assert "1899" in to_text(runs)
    assert "0.125" in to_text(runs[0])


def _html_rows(page: str) -> int:
    return page.count("<tr") - page.count("<thead")


@pytest.mark.parametrize(("rows", "folds"), [(50, 0), (51, 1), (120, 2), (700, 5)])
def test_tables_are_paged_above_fifty_rows(rows: int, folds: int) -> None:
    """HTML has six pages, so that a notebook does not grow with them; text and Markdown have the first."""
    runs = lm.map([f"<{i}>" for i in range(rows)], model=scripted_model(said))
    page = to_html(runs)
    assert page.count("<details") == folds
    assert _html_rows(page) == min(rows, 300)
    assert "&lt;0&gt;" in page
    for text in (to_text(runs), to_markdown(runs)):
        assert (f"{rows} in all; .to_pandas() has every one." in text.replace("\\", "")) == (rows > 50)
        assert ("49" in text) == (rows >= 50)
        assert "51>" not in text


def test_a_row_is_said_once_beside_all_that_was_asked_of_it() -> None:
    """Its number and its columns stand at the first of its settings, also where rows have one text, and again
    on the next page; a line is drawn below the last."""
    runs = lm.map(["a", "a", "b"], model=scripted_model(said), over={"top_k": [1, 2], "seed": [3, 4]})
    rows = re.findall(r"<tr([^>]*)>(<td.*?)</tr>", to_html(runs).partition("every answer")[2])
    said_of = [re.findall(r"<td[^>]*>([^<]*)</td>", cells)[:2] for _, cells in rows]
    assert said_of == [
        cells for row in (["0", "a"], ["1", "a"], ["2", "b"]) for cells in (row, *[["", ""]] * 3)
    ]
    assert ["border" in mark for mark, _ in rows] == [False, False, False, True] * 3
    rows17 = [{"text": None if i == 16 else "a"} for i in range(17)]
    runs = lm.map(rows17, "{{ text }}", model=scripted_model(said), over={"top_k": [1, 2, 3]})
    assert len(re.findall("<td[^>]*>16</td>", to_html(runs))) == 2  # its third error stands on page 2


def test_below_a_grid_a_page_of_answers_is_kept() -> None:
    """What sums 300 answers up is a grid; of the answers 50 are saved, the number of all, and each error."""
    rows = [{"text": None if i == 99 else f"<{i}>"} for i in range(100)]
    runs = lm.map(rows, "{{ text }}", model=scripted_model(said), over={"top_k": [1, 2, 3]})
    odds = lm.decide(
        rows, {"a": "{{ text }}", "b": "{{ text }}!"}, options=["yes", "no"], model=scripted_model(said)
    )
    for result, word, whole in ((runs, "every answer", 300), (odds, "every decision", 200)):
        page = to_html(result).partition(word)[2]
        assert f"{whole} in all; .to_pandas() has every one." in page
        failed = whole // 100  # all settings of one row
        assert re.findall(r"<summary[^>]*>(.*?)</summary>", page) == [f"{failed} errors further on"]
        assert _html_rows(page) == 50 + failed


def test_errors_beyond_the_pages_have_one_of_their_own() -> None:
    """A row that failed is found in a saved notebook, however far down it is."""
    rows = [{"text": None if i in (3, 320, 333) else f"<{i}>"} for i in range(400)]
    page = to_html(lm.map(rows, "{{ text }}", model=scripted_model(said)))
    assert re.findall(r"<summary[^>]*>(.*?)</summary>", page)[-2:] == ["251 to 300", "2 errors further on"]
    failed = page.partition("further on")[2]
    assert re.findall(r"<tr[^>]*><td[^>]*>(\d+)</td>", failed) == ["320", "333"]
    assert page.count("no text: the value is None") == 3


def test_a_view_says_what_failed_and_what_is_missing() -> None:
    """Errors stand in their rows, in words that need no style; so does what is still to come."""
    model = scripted_model(until("03"))
    with pytest.raises(lm.GenerationInterrupted) as caught:
        lm.map([*TEXTS[:5], {"text": None}], "{{ text }}", schema=Mood, model=model, score=lambda run: 1.0)
    runs = caught.value.completion
    for text in (to_text(runs), to_markdown(runs), to_html(runs)):
        assert f"{runs.missing} of 6 are missing; .resume() goes on." in text.replace("\\", "")
    runs.resume()
    assert "1 error" in to_text(runs)
    assert "no text: the value is None" in to_html(runs).replace("&#x27;", "'")
    assert "missing" not in to_text(runs)
    assert to_text(runs[1]).startswith("run: row 1\n")


def test_a_failed_answer_shows_what_was_written_and_what_to_do() -> None:
    """Of an answer that was cut: its words, and the remedy; both were in the error alone."""
    model = scripted_model(['{"name": "Lyon and all that lies around it, far and wide", "age": 7}'])
    (run,) = lm.map(["a"], schema="name, age int", model=model, max_tokens=30)
    assert run.completion is None
    for page in (to_text(run), to_html(run)):
        assert "before it was complete" in page
        assert "Allow more tokens (max_tokens=)" in page
    assert '"name"' in to_text(run)


@pytest.mark.parametrize("name", ["to_csv", "to_json", "to_html", "to_markdown", "export", "save"])
def test_a_way_out_that_is_called_otherwise_is_named(name: str) -> None:
    """What runs have no method for is had by pandas, or by llama_magic.display."""
    runs = lm.map(["a"], model=scripted_model(["b"]))
    with pytest.raises(AttributeError, match=r"runs\.to_pandas\(\)"):
        getattr(runs, name)
