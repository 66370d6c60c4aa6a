"""Summaries, intervals, paired tests and agreement, against scikit-learn and SciPy."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics

import llama_magic as lm
from llama_magic.display import to_html, to_markdown, to_text
from llama_magic.doors import Door, through
from llama_magic.experiments.statistics import bootstrap, estimate, holm, kappa, sign_test, wilson
from llama_magic.testing import scripted_model


def said(request: Any) -> str:
    return str(request.messages[-1]["content"])


# --- the formulas -------------------------------------------------------------------------------


@given(st.integers(1, 300).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_is_that_of_scipy(pair: tuple[int, int]) -> None:
    """The interval of any share, at its edges too."""
    wanted = stats.binomtest(*pair).proportion_ci(method="wilson")
    assert wilson(*pair) == pytest.approx((wanted.low, wanted.high), abs=1e-12)


def test_wilson_of_nothing_says_nothing() -> None:
    """No row, no knowledge; a single row nearly none."""
    assert wilson(0, 0) == (0.0, 1.0)
    assert wilson(1, 1)[0] < 0.3


@given(st.integers(0, 60), st.integers(0, 60))
def test_the_sign_test_is_exact(better: int, worse: int) -> None:
    """Two-sided p of the binomial test at one half; nothing to tell is 1."""
    total = better + worse
    wanted = stats.binomtest(better, total).pvalue if total else 1.0
    assert sign_test(better, worse) == pytest.approx(wanted)


@settings(max_examples=30)
@given(st.lists(st.integers(-20, 20), min_size=8, max_size=60).filter(lambda xs: len(set(xs)) > 3))
def test_the_bootstrap_is_a_percentile_of_means(values: list[int]) -> None:
    """2.5 % of SciPy's means of resamples lie below it and above it; equal scores have the same interval."""
    low, high = bootstrap(values)
    means = stats.bootstrap(
        (values,), np.mean, method="percentile", n_resamples=5000, rng=np.random.default_rng(0)
    ).bootstrap_distribution
    noise = 0.016  # of two draws of 5,000: five standard deviations
    for beyond, up_to in (
        (means < low - 1e-9, means < low + 1e-9),
        (means > high + 1e-9, means > high - 1e-9),
    ):
        assert beyond.mean() - noise < 0.025 < up_to.mean() + noise  # many means may be equal
    assert bootstrap(values) == (low, high)


def test_the_bootstrap_of_many_rows_holds_few_of_its_draws() -> None:
    """It is the same in parts, which for 3,000 rows it is made in: of 100,000 rows all would be 8 GB."""
    values = [math.sin(k) for k in range(3000)]
    draws = np.random.default_rng(20_260_101).integers(0, 3000, (5000, 3000))
    means = np.asarray(values)[draws].mean(axis=1)
    assert bootstrap(values) == tuple(map(float, np.quantile(means, [0.025, 0.975])))


def test_the_bootstrap_of_one_value_says_nothing() -> None:
    """An interval needs two rows at least."""
    assert all(map(math.isnan, bootstrap([1.0])))


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abc")), min_size=1, max_size=50))
def test_kappa_is_that_of_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    """Agreement beyond chance; where there is one label alone, not a number."""
    one, other = zip(*pairs, strict=True)
    wanted = metrics.cohen_kappa_score(one, other) if len({*one, *other}) > 1 else math.nan
    assert kappa(pairs) == pytest.approx(wanted, nan_ok=True)


@given(st.lists(st.floats(0, 1), max_size=8))
def test_holm_corrects_step_by_step(ps: list[float]) -> None:
    """The least is multiplied by how many there are, the next by one less, and the order is kept."""
    corrected = holm(ps)
    order = sorted(range(len(ps)), key=lambda i: ps[i])
    wanted = list(itertools.accumulate((min(1.0, (len(ps) - k) * ps[i]) for k, i in enumerate(order)), max))
    assert [corrected[i] for i in order] == pytest.approx(wanted)


def test_several_answers_to_a_row_count_as_one() -> None:
    """Ten answers to each of three rows are no thirty rows: the interval is that of three."""
    one = estimate({row: [True] * 10 for row in range(3)})
    assert one is not None
    assert (one.kind, one.mean, one.rows, one.answers) == ("share", 1.0, 3, 30)
    assert (one.low, one.high) == wilson(3, 3)
    mixed = estimate({0: [1.0, 0.0], 1: [0.5]})
    assert mixed is not None
    assert (mixed.kind, mixed.mean, mixed.rows) == ("mean", 0.5, 2)
    assert estimate({}) is None


# --- of runs ------------------------------------------------------------------------------------


def _runs(rows: int = 40, seed: int = 1, n: int = 1) -> Any:
    """Return runs of two prompts and two temperatures: the long prompt is right more often."""
    rng = random.Random(seed)
    table = [{"text": str(i), "label": rng.choice(["good", "bad"])} for i in range(rows)]
    hard = {str(i) for i in range(rows) if rng.random() < 0.5}
    right = {row["text"]: row["label"] for row in table}
    wrong = {"good": "bad", "bad": "good"}

    def answer(request: Any) -> str:
        kind, text = said(request).split()
        label = right[text]
        return wrong[label] if kind == "short" and text in hard else label

    return lm.map(
        table,
        {"short": "short {{ text }}", "long": "long {{ text }}"},
        over={"temperature": [0, 0.7]},
        model=scripted_model(answer),
        score={"right": "label", "length": lambda run: len(run.text)},
        n=n,
    )


def test_a_summary_counts_and_estimates_by_axis() -> None:
    """Results, errors, shares and means of each setting, with their intervals, also as a table."""
    runs = _runs()
    by_prompt = runs.summary(by="prompt")
    assert [dict(group.settings) for group in by_prompt.groups] == [{"prompt": "short"}, {"prompt": "long"}]
    assert [group.results for group in by_prompt.groups] == [80, 80]
    short, long = (group.scores["right"] for group in by_prompt.groups)
    share = sum(run.scores["right"] for run in runs.where(prompt="short")) / 80
    assert (short.mean, long.mean) == (share, 1.0)
    assert (short.low, short.high) == pytest.approx(wilson(40 * share, 40))
    lengths = [len(run.text) for run in runs.where(prompt="long", temperature=0)]
    every = runs.summary()
    assert len(every.groups) == 4
    assert every.groups[2].scores["length"].mean == pytest.approx(sum(lengths) / 40)
    assert (every.groups[2].scores["length"].low, every.groups[2].scores["length"].high) == bootstrap(lengths)
    frame = by_prompt.to_pandas()
    assert list(frame["right rows"]) == [40, 40]
    assert runs.summary(by=[]).groups[0].results == 160
    assert by_prompt.groups[0].tokens == 1
    with pytest.raises(lm.OptionError, match=r"no axis 'promt'.*prompt"):
        runs.summary(by="promt")


def test_the_only_prompt_is_one_group() -> None:
    """A table by `prompt` or `model` is written once for one prompt and for several: one is one group."""
    model = scripted_model(lambda _: "yes")
    runs = lm.map(
        ["a", "b"],
        "Say {{ text }}",
        model=model,
        over={"temperature": [0, 0.5]},
        score=lambda run: len(run.text),
    )
    (group,) = runs.summary(by="prompt").groups
    assert (dict(group.settings), group.results) == ({}, 4)
    both = runs.summary(by=["model", "prompt", "temperature"])
    assert [dict(group.settings) for group in both.groups] == [{"temperature": 0}, {"temperature": 0.5}]
    with pytest.raises(lm.OptionError, match=r"no axis 'promt'"):
        runs.summary(by="promt")
    model.close()


def test_few_draws_are_warned_of() -> None:
    """Drawn once or twice at a temperature a row cannot tell settings apart; drawn five times, or greedily,
    it can. A seed axis counts as draws. Where the verdict is that nothing can be told, it is said already.
    """
    assert "drawn once a row" in _runs(6).summary().notes[0]
    few, many = (_runs(rows, n=2).pairs("prompt", "right") for rows in (6, 40))
    assert [pair.tells for pair in (*few, *many)] == [False, True]
    assert few.notes == ()
    assert "drawn 2 times a row" in many.notes[0]
    assert _runs(6).summary().notes[0].endswith("n=5 or more tells them apart.")
    with through(Door.MAGIC):
        assert _runs(6).summary().notes[0].endswith("--samples 5 or more tells them apart.")
    assert _runs(6, n=5).summary().notes == ()
    assert _runs(6).where(temperature=0).summary().notes == ()
    model = scripted_model(said)
    seeds = lm.map(["a"], over={"seed": range(5)}, model=model, score=lambda run: True)
    assert seeds.summary(by=[]).notes == ()
    assert lm.map(["a"], model=model).summary().notes == ()  # nothing was scored


def test_pairs_compare_on_the_same_rows() -> None:
    """Rows better and worse, the difference with its interval, McNemar's exact p, and a verdict in words."""
    runs = _runs().where(temperature=0)
    found = runs.pairs("prompt", score="right")
    (pair,) = found.pairs
    short = {r.row: r.scores["right"] for r in runs.where(prompt="short")}
    long = {r.row: r.scores["right"] for r in runs.where(prompt="long")}
    better = sum(long[row] and not short[row] for row in short)
    assert (pair.first, pair.second, pair.rows) == ("short", "long", 40)
    assert (pair.better, pair.worse) == (better, 0)
    assert pair.p == pytest.approx(stats.binomtest(better, better).pvalue)
    assert pair.difference == pytest.approx(better / 40)
    assert (pair.low, pair.high) == bootstrap([float(long[r]) - short[r] for r in short])
    assert pair.tells
    assert "long is better" in to_text(found)
    wrong = runs.pairs("prompt", score=lambda run: not run.scores["right"])  # a function as for `map`
    assert (wrong.score, wrong.pairs[0].better, wrong.pairs[0].worse) == ("score", 0, better)
    few = _runs(6).where(temperature=0).pairs("prompt", "right")
    assert "not enough rows to tell" in to_text(few) or "no difference" in to_text(few)
    assert found.to_pandas()["p"][0] == pair.p
    equal = replace(pair, difference=9.57e-19, low=-0.1, high=0.1)  # what sums of equal shares leave
    assert " 0  -0.10 to +0.10 " in to_text(replace(found, pairs=(equal,)))
    small = replace(pair, difference=-0.1034, low=-0.2, high=-0.0086)  # no end has more digits than the other
    assert " -0.10  -0.20 to -0.01 " in to_text(replace(found, pairs=(small,)))
    wide = replace(pair, difference=31.04, low=0, high=63.7)
    assert " +31  0 to +64 " in to_text(replace(found, pairs=(wide,)))


def test_several_pairs_are_corrected_for() -> None:
    """Three values are three pairs; each p is Holm's, and the view says so."""
    model = scripted_model(lambda r: str(r.sampling.top_k))
    runs = lm.map(["a"] * 12, over={"top_k": [1, 2, 3]}, model=model, score=lambda run: float(run.text))
    found = runs.pairs("top_k")
    assert [(p.first, p.second) for p in found.pairs] == [(1, 2), (1, 3), (2, 3)]
    assert [p.p_holm for p in found.pairs] == pytest.approx([3 * 2 / 2**12] * 3)
    assert "p is corrected for 3 comparisons (Holm), the intervals are not." in to_text(found)


def test_what_cannot_be_compared_is_said() -> None:
    """Which axes and scores there are stands in the error."""
    runs = _runs(4)
    with pytest.raises(lm.OptionError, match=r"no one score to.*\n.*right, length"):
        runs.pairs("prompt")
    failed = lm.map(
        [{"text": None}] * 2, {"a": "{{ text }}", "b": "{{ text }}"}, model=scripted_model({}), score=len
    )
    with pytest.raises(lm.OptionError, match=r"no one score to.*\nEvery answer is an error; .* has no text"):
        failed.pairs("prompt")
    with pytest.raises(lm.OptionError, match="no axis"):
        runs.pairs("prompts", "right")
    with pytest.raises(lm.OptionError, match="one value"):
        runs.where(prompt="long").pairs("prompt", "right")
    with pytest.raises(lm.OptionError, match=r"\.scored\("):
        lm.map(["a"], over={"top_k": [1, 2]}, model=scripted_model()).pairs("top_k")


def test_confusion_is_that_of_scikit_learn() -> None:
    """Counts, accuracy, precision, recall and F1 of each label; errors and gaps are left out."""
    rng = random.Random(3)
    rows: list[Any] = [{"text": rng.choice("abc"), "label": rng.choice("abc")} for _ in range(90)]
    rows += [{"text": None, "label": "a"}, {"text": "b", "label": None}]
    runs = lm.map(rows, "{{ text }}", model=scripted_model(said))
    truth = [row["label"] for row in rows[:90]]
    answers = [row["text"] for row in rows[:90]]
    confusion = runs.confusion("label")
    assert confusion.to_pandas().to_numpy().tolist() == metrics.confusion_matrix(truth, answers).tolist()
    assert confusion.accuracy == pytest.approx(metrics.accuracy_score(truth, answers))
    precision, recall, f1, _ = metrics.precision_recall_fscore_support(truth, answers, labels=list("abc"))
    assert [confusion.precision(label) for label in "abc"] == pytest.approx(list(precision))
    assert [confusion.recall(label) for label in "abc"] == pytest.approx(list(recall))
    assert [confusion.f1(label) for label in "abc"] == pytest.approx(list(f1))
    assert confusion.kappa == pytest.approx(metrics.cohen_kappa_score(truth, answers))
    assert (confusion.total, confusion.left_out) == (90, 2)
    with pytest.raises(lm.OptionError, match="labl"):
        runs.confusion("labl")
    for page in (to_text(confusion), to_markdown(confusion), to_html(confusion)):
        assert "answered b" in page
        assert "2 left out" in page
    never = lm.map([{"text": "a", "label": "b"}], "{{ text }}", model=scripted_model(said)).confusion("label")
    lines = [line.split() for line in to_text(never).splitlines()]
    assert ["a", "0", "0", "–"] in lines  # no row of it: no recall
    assert ["precision", "0%", "–", "–"] in lines  # never answered: no precision


def test_confusion_of_structured_answers_and_decisions() -> None:
    """The field that is named as the column counts, or the only one; of a decision the choice."""
    model = scripted_model(lambda r: f'{{"label": "{said(r)}", "why": "x"}}')
    rows = [{"text": "a", "label": "a"}, {"text": "b", "label": "a"}]
    schema = "label, why"
    runs = lm.map(rows, "{{ text }}", schema=schema, model=model)
    assert runs.confusion("label").counts == {"a": {"a": 1, "b": 1}, "b": {"a": 0, "b": 0}}
    assert runs.confusion("label", field="why").labels == ("a", "x")
    other = [{"text": "a", "mood": "good"}, {"text": None, "mood": "bad"}]
    runs = lm.map(other, "{{ text }}", schema=schema, model=model)
    with pytest.raises(lm.OptionError, match=r"fields label, why, and none is 'mood'\.\n.*field='label'"):
        runs.confusion("mood")
    with pytest.raises(lm.OptionError, match=r"'mood' is a column of the rows, .*\n.*groupby\('mood'\)"):
        runs.pairs("mood", score=len)
    odds = lm.decide(
        rows,
        "{{ text }}",
        options=["a", "b"],
        model=scripted_model(odds=lambda r, t: 0.9 if t == said(r) else 0.1),
    )
    assert odds.confusion("label").accuracy == 0.5


def test_agreement_between_models_is_that_of_scikit_learn() -> None:
    """Cohen's kappa of the answers of two models to the same rows; errors are left out."""
    rng = random.Random(5)
    rows: list[Any] = [{"text": f"{rng.choice('xyz')}{i}"} for i in range(60)] + [{"text": None}]
    one = scripted_model(lambda r: said(r)[0], name="one")
    other = scripted_model(lambda r: said(r)[0] if int(said(r)[1:]) % 3 else "x", name="other")
    found = lm.map(rows, "{{ text }}", models=[one, other]).kappa("model")
    ones = [row["text"][0] for row in rows[:60]]
    others = [row["text"][0] if int(row["text"][1:]) % 3 else "x" for row in rows[:60]]
    assert found.pairs[0][:3] == ("one", "other", 60)
    assert found.kappa == pytest.approx(metrics.cohen_kappa_score(ones, others))
    assert found.pairs[0][3] == pytest.approx(metrics.accuracy_score(ones, others))
    assert f"{found.kappa:.2f}" in to_text(found)
    both = lm.map(rows, {"a": "{{ text }}", "b": "{{ text }}"}, models=[one, other]).kappa("model")
    assert list(both.to_pandas()["answers"]) == [120]  # of 60 rows
    assert "answers compared" in to_text(both)


def test_agreement_is_of_the_field_that_is_named() -> None:
    """Of structured answers whole instances are compared, or a field of them."""
    one = scripted_model(lambda r: f'{{"label": "{said(r)}", "why": "x"}}', name="one")
    other = scripted_model(lambda r: f'{{"label": "{said(r)}", "why": "y"}}', name="other")
    runs = lm.map([{"text": "a"}, {"text": "b"}], "{{ text }}", schema="label, why", models=[one, other])
    equal = [runs.kappa("model", field).pairs[0][3] for field in (None, "label", "why")]
    assert equal == [0.0, 1.0, 0.0]


def test_runs_are_scored_again_without_asking() -> None:
    """`scored` gives the same runs other scores; no request is made."""
    model = scripted_model(said)
    runs = lm.map(["a", "bb"], model=model)
    again = runs.scored(lambda run: len(run.text))
    assert [run.scores for run in again] == [{"score": 1}, {"score": 2}]
    assert [run.scores for run in runs] == [{}, {}]
    assert len(model.backend.requests) == 2
