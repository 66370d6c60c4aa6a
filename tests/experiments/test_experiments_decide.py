"""`lm.decide` and `model.score`: exact probabilities of given texts, and what is made of them."""

from __future__ import annotations

import enum
import itertools
import math
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import pandas as pd
import pytest
from raw_llama import Raw, raw
from sklearn.calibration import calibration_curve
from sklearn.metrics import accuracy_score, brier_score_loss
from stand_ins import taken

import llama_magic as lm
from llama_magic.display import to_html, to_markdown, to_text
from llama_magic.engine.native import Context
from llama_magic.experiments.deciding import overlaps
from llama_magic.experiments.odds import Decision, Odds
from llama_magic.model.journal import journal
from llama_magic.request.backend import Scores
from llama_magic.testing import ScriptedBackend, scripted_model

OPTIONS = ["yes", "no", "maybe so", "not at all really", "not at all", "yes, of course it is one"]
TEXTS = [
    "The box was torn.",
    "Lovely.",
    "The box was torn, and the colour is wrong, and nobody answers, which is a shame for such a shop.",
]


def said(request: Any) -> str:
    return str(request.messages[-1]["content"]) if request.messages else request.text


def _forced(llama: Raw, prompt: list[int], options: list[list[int]]) -> list[float]:
    """Return log p(option | prompt) by plain llama_cpp, the prompt read as one, options token by token."""

    def log_softmax(logits: Any) -> Any:
        logits = logits.astype(np.float64)
        return logits - (logits.max() + np.log(np.exp(logits - logits.max()).sum()))

    found = []
    memory = llama_cpp.llama_get_memory(llama.context)
    llama_cpp.llama_memory_clear(memory, True)
    after = log_softmax(llama.decode(prompt))
    for option in options:
        logprob = float(after[option[0]])
        for token, following in itertools.pairwise(option):
            logprob += float(log_softmax(llama.decode([token]))[following])
        found.append(logprob)
        llama_cpp.llama_memory_seq_rm(memory, 0, len(prompt), -1)
    return found


@pytest.mark.parametrize("name", ["short", "windowed"])
def test_probabilities_are_those_of_teacher_forcing(
    loaded: Callable[..., Any], name: str, path_of: Callable[[str], Any]
) -> None:
    """Options of one to seven tokens after three prompts, against the raw C API: equal to 1e-4.

    Where weights are repacked, kernels round differently by how many rows they work on (0.001 a letter, 0.25
    in an option of Gemma at exp(-19)); without that the logarithms are equal as well.
    """
    model = loaded(name)
    odds = lm.decide(TEXTS, "Is this a complaint? {{ text }}", options=OPTIONS, model=model)
    tokens = [model.backend.tokenizer.tokenize(option) for option in OPTIONS]
    near = {"windowed": 0.1, "gemma": 0.5}.get(taken(name), 1e-4)
    assert {len(one) for one in tokens} >= {1, 2, 4} or taken(name) == "windowed"  # of one letter each
    with raw(path_of(name), 1024) as llama:
        forced = [_forced(llama, model.tokenize(decision.prompt), tokens) for decision in odds]
    for decision, expected in zip(odds, forced, strict=True):
        for option, wanted in zip(OPTIONS, expected, strict=True):
            assert abs(np.exp(decision.logprobs[option]) - np.exp(wanted)) < 1e-4
            assert abs(decision.logprobs[option] - wanted) < near
        assert sum(decision.probabilities.values()) == pytest.approx(1)
        assert decision.raw["not at all really"] < decision.raw["not at all"]


def test_numbers_do_not_depend_on_what_else_is_asked(each_lane: Any) -> None:
    """Alone, in another order, among twenty others, after other prompts: the same bits."""
    messages = [{"role": "user", "content": TEXTS[2]}]
    first = each_lane.score(messages, OPTIONS)
    assert each_lane.score(messages, OPTIONS[::-1]) == first[::-1]
    each_lane.score([{"role": "user", "content": TEXTS[2][:30]}], ["no"])
    each_lane.score("Once upon a time, " * 20, [" there was"])
    assert [each_lane.score(messages, [option])[0] for option in OPTIONS] == first
    many = [f"option {i}" for i in range(20)]
    assert each_lane.score(messages, [*many, *OPTIONS, "yes"])[20:] == [*first, first[0]]
    assert all(value < 0 for value in first)


@pytest.fixture
def decoded(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The sizes of all batches that are decoded."""
    sizes: list[int] = []
    decode = Context.decode_shared

    def counting(self: Context, tokens: Any, *rest: Any) -> Any:
        sizes.append(len(tokens))
        return decode(self, tokens, *rest)

    monkeypatch.setattr(Context, "decode_shared", counting)
    return sizes


def test_what_prompts_and_options_share_is_read_once(loaded: Callable[..., Any], decoded: list[int]) -> None:
    """Rows of one head, options that begin alike: each token of the whole tree is decoded once."""
    model = loaded("short")
    model.score("Something else.", ["x"])
    decoded.clear()
    head = "You judge what people write to a shop. " * 10
    options = ["no", "not at all", "not at all really"]
    odds = lm.decide([f"{head} {text}" for text in TEXTS], options=options, model=model)
    prompts = [model.tokenize(one.prompt) for one in odds]
    paths = [[*ids, *model.backend.tokenizer.tokenize(o)[:-1]] for ids in prompts for o in options]
    nodes = {tuple(path[:end]) for path in paths for end in range(1, len(path) + 1)}
    assert sum(decoded) == len(nodes)
    assert len(decoded) < len(odds) * len(options)
    assert sum(map(len, prompts)) > 1.7 * sum(decoded)


def test_rows_have_the_same_bits_alone_and_together(each_lane: Any) -> None:
    """Six rows, and seventy options of one row, in other orders and alone: the same bits."""
    texts = [f"{text} {i}" for i, text in enumerate(TEXTS * 2)]
    options = ["yes", "no way", "not at all really"]
    odds = lm.decide(texts, "Is this a complaint? {{ text }}", options=options, model=each_lane)
    again = lm.decide(texts[::-1], "Is this a complaint? {{ text }}", options=options[::-1], model=each_lane)
    assert [one.logprobs for one in again][::-1] == [one.logprobs for one in odds]
    alone = {
        o: each_lane.score([{"role": "user", "content": f"Is this a complaint? {texts[4]}"}], [o])[0]
        for o in options
    }
    assert alone == odds[4].logprobs
    many = each_lane.score("One of", [f" {i} of" for i in range(70)])
    assert each_lane.score("One of", [" 65 of", " 3 of"]) == [many[65], many[3]]


def test_a_text_is_scored_as_it_stands(loaded: Callable[..., Any]) -> None:
    """A raw prompt is no turn; the end of an answer counts when asked for; a prompt may be one token."""
    model = loaded("smollm2")
    once, twice = model.score("Once upon a", [" time", " banana"])
    assert once > -3 > twice
    with_end = model.score([{"role": "user", "content": "Hi"}], ["Hello", "Hello!"], end=True)
    without = model.score([{"role": "user", "content": "Hi"}], ["Hello", "Hello!"])
    assert all(a < b for a, b in zip(with_end, without, strict=True))
    assert model.score("A", ["B"])[0] < 0


@pytest.mark.parametrize(
    ("texts", "error"), [([], lm.InputTypeError), ("yes", lm.InputTypeError), ([5], lm.InputTypeError),
                         (["yes", ""], lm.OptionError)],
)  # fmt: skip
def test_what_cannot_be_scored_is_refused(texts: Any, error: type[Exception]) -> None:
    """A text that is none, or empty, or no list, is an error before anything is read."""
    model = scripted_model()
    with pytest.raises(error):
        model.score("x", texts)
    assert model.backend.requests == []


def test_the_window_holds_prompt_and_option() -> None:
    """A prompt that does not fit with the longest option is refused with the numbers."""
    model = scripted_model(window=20)
    assert len(model.score("w " * 15, ["four"])) == 1
    with pytest.raises(lm.ContextOverflowError, match="20"):
        model.score("w " * 15, ["four", "sixsix"])


class _Unscored(ScriptedBackend):
    score = None  # type: ignore[assignment]


def test_a_source_that_cannot_score_is_named() -> None:
    """What writes its tokens elsewhere, and tells no probabilities of given texts, is refused by name."""
    model = scripted_model(name="far")
    model.backend.__class__ = _Unscored
    assert isinstance(scripted_model().backend, Scores)
    with pytest.raises(lm.BackendError, match=r"far.*does not say how likely"):
        model.score("x", ["y"])
    with pytest.raises(lm.BackendError, match=r"far.*does not say how likely"):
        lm.decide(["x"] * 300, options=["yes", "no"], model=model)  # at once, and not row by row
    assert not model.backend.requests
    beside = lm.decide(["x"], options=["yes", "no"], models=[model, scripted_model(odds=lambda r, t: 0.4)])
    assert [type(one.error) for one in beside] == [lm.BackendError, type(None)]


def test_what_a_record_holds_needs_no_probabilities(tmp_path: Path) -> None:
    """A source that tells none goes on from what was decided before."""
    model = scripted_model(odds=lambda r, t: 0.4 if t == "yes" else 0.1)
    rows, how = ["a", "b"], {"options": ["yes", "no"], "record": tmp_path / "r.sqlite", "model": model}
    lm.decide(rows[:1], **how)
    model.backend.__class__ = _Unscored
    assert lm.decide(rows[:1], **how)[0].choice == "yes"
    with pytest.raises(lm.BackendError):
        lm.decide(rows, **how)


# --- decisions ------------------------------------------------------------------------------------


def _odds(request: Any, text: str) -> float:
    """Return probabilities by what is asked: "0.3" means that yes has 0.3 and no 0.1."""
    return float(said(request)) if text == "yes" else 0.1


def test_a_decision_has_what_is_made_of_the_probabilities() -> None:
    """Raw as they are, normalised to 1, the likeliest, its margin, and what the options have together."""
    odds = lm.decide(["0.3", "0.05", "0.1", "0"], options=["yes", "no"], model=scripted_model(odds=_odds))
    assert isinstance(odds, Odds)
    assert [one.choice for one in odds] == ["yes", "no", "yes", "no"]
    assert odds[0].raw == pytest.approx({"yes": 0.3, "no": 0.1})
    assert odds[0].probabilities == pytest.approx({"yes": 0.75, "no": 0.25})
    assert (odds[0].margin, odds[0].mass, odds[0].confidence) == pytest.approx((0.5, 0.4, 0.75))
    assert odds[3].probabilities == {"yes": 0, "no": 1}
    nothing = lm.decide(["0"], options=["yes", "ja"], model=scripted_model(odds=lambda r, t: 0.0))
    assert nothing[0].probabilities == {"yes": 0.5, "ja": 0.5}


def test_it_abstains_where_it_is_not_sure_enough() -> None:
    """Below the probability that is asked for there is no choice and no score; the odds are there."""
    rows = [{"text": text, "label": "yes"} for text in ("0.3", "0.11", "0.05")]
    model = scripted_model(odds=_odds)
    odds = lm.decide(rows, "{{ text }}", options=["yes", "no"], model=model, abstain_below=0.6, score="label")
    assert [(one.choice, one.abstained, dict(one.scores)) for one in odds] == [
        ("yes", False, {"right": True}), (None, True, {}), ("no", False, {"right": False}),
    ]  # fmt: skip
    assert odds[1].best == "yes"
    assert "1 abstained" in to_text(odds)


def test_a_threshold_is_set_anew_and_nothing_is_read_again() -> None:
    """Rows that had abstained are scored then; a part, which cannot score them, says so."""
    asked: list[str] = []

    def counted(request: Any, text: str) -> float:
        asked.append(text)
        return _odds(request, text)

    rows = [{"text": t, "label": "yes"} for t in ("0.3", "0.11", "0.01")]
    how: dict[str, Any] = {"options": ["yes", "no"], "model": scripted_model(odds=counted), "score": "label"}
    strict = lm.decide(rows, "{{ text }}", **how, abstain_below=0.6)
    asked.clear()
    free = strict.abstain_below(0)
    assert [(one.choice, dict(one.scores)) for one in free] == [
        ("yes", {"right": True}), ("yes", {"right": True}), ("no", {"right": False}),
    ]  # fmt: skip
    assert [one.choice for one in free.abstain_below(0.8)] == [None, None, "no"]
    assert [one.choice for one in strict] == ["yes", None, "no"]
    assert free[1:].abstain_below(0.6)[0].scores == {}
    with pytest.raises(lm.OptionError, match="part or a copy"):
        strict[:2].abstain_below(0)
    with pytest.raises(lm.OptionError, match="expected a probability"):
        strict.abstain_below(60)
    assert free.resume() is free
    assert not asked


def test_a_column_that_holds_no_option_is_named() -> None:
    """Where "Yes" is right and "yes" an option, no decision could be right: that is said, not counted."""
    part = Odds(None, {0: Decision(0, 0, {"label": "Yes"}, {}, {"yes": -0.1, "no": -3.0})})
    for ask in (part.calibration, part.thresholds):
        with pytest.raises(lm.OptionError, match=r"in 'label': the first holds 'Yes', its"):
            ask("label")


def test_labels_that_are_no_option_are_counted_and_named() -> None:
    """Where some are, these count as wrong, and it is said: of calibration, thresholds and a score."""
    labels = ["yes", "Yes", "maybe", "Yes", None]
    rows = [{"text": "0.3", "label": label} for label in labels]
    how: dict[str, Any] = {"options": ["yes", "no"], "model": scripted_model(odds=_odds)}
    odds = lm.decide(rows, "{{ text }}", **how, score="label")
    calibration = odds.calibration("label")
    assert (calibration.rows, calibration.no_option, calibration.accuracy) == (4, 3, 0.25)
    said = "3 of 4 labels in 'label' are no option and count as wrong: 'Yes', 'maybe'."
    for shown in (calibration, odds.thresholds("label"), odds):
        assert " ".join(to_text(shown).split()).count(said) == 1
    assert "no option" not in to_text(odds.where().scored(lambda one: True))
    part = lm.decide(rows[:1], "{{ text }}", **how, score="label")
    assert (part.calibration("label").no_option, part.calibration("label").notes, part.foreign) == (0, (), ())


def test_a_summary_counts_what_abstained() -> None:
    """What has no choice has no score, so the score's rows are fewer: a column says by how many."""
    rows = [{"text": text, "label": "yes"} for text in ("0.3", "0.11", "0.05")]
    model = scripted_model(odds=_odds)
    odds = lm.decide(rows, "{{ text }}", options=["yes", "no"], model=model, abstain_below=0.6, score="label")
    (group,) = odds.summary().groups
    assert (group.results, group.abstained, group.scores["right"].rows) == (3, 1, 2)
    assert to_text(odds.summary()).split()[3:8] == ["results", "abstained", "right", "95%", "interval"]
    assert list(odds.summary().to_pandas()["abstained"]) == [1]
    confusion = odds.confusion("label")
    assert (confusion.left_out, confusion.abstained) == (1, 1)
    assert "1 left out (1 abstained)" in to_text(confusion)
    assert lm.map(["a"], model=scripted_model(["b"])).summary().groups[0].abstained is None


def test_what_is_counted_together_is_said() -> None:
    """Settings that nothing tells apart are named, with what takes one of them; one setting is not."""
    rows = [{"text": text, "label": "yes"} for text in ("0.3", "0.11", "0.05")]
    prompts = {"a": "{{ text }}", "b": "{{ text }}"}
    odds = lm.decide(rows, prompts, options=["yes", "no"], model=scripted_model(odds=_odds))
    note = "All of prompt (2) are counted together; .where(prompt=…) takes one."
    for ask in (Odds.calibration, Odds.thresholds, Odds.confusion):
        assert ask(odds, "label").notes == (note,)
        assert note in to_text(ask(odds, "label"))
        assert ask(odds.where(prompt="a"), "label").notes == ()
    assert "count as one, by their mean" in to_text(odds.thresholds("label"))
    assert "by their mean" not in to_text(odds.where(prompt="a").thresholds("label"))


def test_thresholds_say_how_many_are_decided_and_how_many_of_these_rightly() -> None:
    """Rows without a label are left out; where nothing is decided there is no share."""
    texts = {"0.95": "yes", "0.3": "yes", "0.2": "no", "0.1": "no", "0.4": None}
    rows = [{"text": text, "label": label} for text, label in texts.items()]
    odds = lm.decide(rows, "{{ text }}", options=["yes", "no"], model=scripted_model(odds=_odds))
    found = odds.thresholds("label").to_pandas().set_index("abstain_below")
    assert found["decided"].to_dict() == {0: 4, 0.5: 4, 0.6: 3, 0.7: 2, 0.8: 1, 0.9: 1, 0.95: 0, 0.99: 0}
    assert found["right"].to_list()[:5] == pytest.approx([0.5, 0.5, 2 / 3, 1, 1])
    assert found["right"].isna().sum() == 2
    assert "4 decisions, 1 left out" in to_text(odds.thresholds("label"))
    prompts = {"a": "{{ text }}", "b": "{{ text }}"}
    twice = lm.decide(rows, prompts, options=["yes", "no"], model=scripted_model(odds=_odds))
    once, again = (one.thresholds("label").each[0].right for one in (odds, twice))
    assert once is not None
    assert again == replace(once, answers=8)  # two answers to a row count as one
    assert "abstained" in to_text(twice.abstain_below(1)).splitlines()[2]
    with pytest.raises(lm.OptionError, match="labl"):
        odds.thresholds("labl")


def test_rows_have_options_of_their_own(short: Any, tmp_path: Path) -> None:
    """A function of the columns says them, as a list or by name; what it gets wrong is that row's error.

    Read together they have the bits that each has alone, and a record finds them again.
    """
    given = (["yes", "not at all"], ["one"], {"A": "maybe so", "B": "yes"})
    rows = [{"text": text, "own": own} for text, own in zip(TEXTS, given, strict=True)]
    how: dict[str, Any] = {"options": lambda row: row["own"], "model": short, "record": tmp_path / "r.sqlite"}
    odds = lm.decide(rows, "{{ text }}", **how)
    for row, written in ((0, ["yes", "not at all"]), (2, ["maybe so", "yes"])):
        asked = [{"role": "user", "content": TEXTS[row]}]
        assert [*odds[row].logprobs.values()] == short.score(asked, written)
    assert [list(one.logprobs) for one in odds] == [["yes", "not at all"], [], ["A", "B"]]
    assert "expected two or more" in str(odds[1].error)
    again = lm.decide(rows, "{{ text }}", **how)
    assert [one.seconds for one in again if one.error is None] == [
        one.seconds for one in odds if one.error is None
    ]
    table = odds.to_pandas()
    assert table["probabilities"][0] == odds[0].probabilities
    assert not [name for name in table if name.startswith("p(")]
    assert to_text(odds).splitlines()[1].split() == ["row", "text", "choice", "confidence"]


def test_options_have_names_and_prompts_as_for_map() -> None:
    """A dict names what is written; prompts are filled, with a system prompt, and may be an axis."""
    model = scripted_model(odds=lambda r, t: {"ja": 0.2, "nein": 0.1}[t])
    odds = lm.decide(
        pd.DataFrame({"text": ["a"]}), {"p": "{{ text }}?", "q": "{{ text }}!"},
        options={"yes": "ja", "no": "nein"}, model=model, system="{{ text }}.", over={"mode": ["chat"]},
    )  # fmt: skip
    assert [(one.settings["prompt"], one.choice) for one in odds] == [("p", "yes"), ("q", "yes")]
    assert model.backend.requests[0].messages[0]["content"] == "a."
    raw_text = lm.decide(["once"], options={"yes": "ja", "no": "nein"}, model=model, mode="complete")
    assert raw_text[0].prompt == "once"
    frame = odds.to_pandas()
    assert list(frame["choice"]) == ["yes", "yes"]
    assert frame["p(yes)"][0] == pytest.approx(2 / 3)
    assert frame["logprob(no)"][0] == pytest.approx(np.log(0.1))


@pytest.mark.parametrize(
    ("how", "error", "words"),
    [
        ({"options": "yes"}, lm.InputTypeError, "list of texts"),
        ({"options": ["yes"]}, lm.OptionError, "two or more"),
        ({"options": ["yes", "yes"]}, lm.OptionError, "two or more that differ"),
        ({"options": ["yes", ""]}, lm.OptionError, "expected a text"),
        ({"options": {"a": 1, "b": "x"}}, lm.OptionError, "'a' is written 1"),
        ({"options": {"a": "x", "b": "x"}}, lm.OptionError, "'a' and 'b' are both written 'x'"),
        ({"options": ["yes", None]}, lm.OptionError, "options holds None"),
        ({"options": np.array(["yes", float("nan")], dtype=object)}, lm.OptionError, "options holds nan"),
        ({"abstain_below": 60}, lm.OptionError, "0 to 1"),
        ({"temperature": 0}, lm.OptionError, "no option 'temperature'.*abstain_below.*end.*options"),
        ({"abstain": 0.5}, lm.OptionError, "Did you mean abstain_below"),
        ({"n": 2}, lm.OptionError, "no option 'n'"),
        ({"over": {"seed": [1]}}, lm.OptionError, "'seed' is neither"),
        ({"score": "lable"}, lm.OptionError, "no row|No row"),
    ],
)
def test_what_cannot_be_decided_is_said(how: Any, error: type[Exception], words: str) -> None:
    """Nothing is drawn, so sampling has no say; options are two texts at least, all different."""
    with pytest.raises(error, match=words):
        lm.decide(["a"], **{"options": ["yes", "no"], "model": scripted_model(), **how})


class _Verdict(enum.Enum):
    GOOD = "yes"
    BAD = "no"


@pytest.mark.parametrize(
    "options",
    [np.array(["yes", "no"]), pd.Series(["yes", "no"]), _Verdict, {"yes": 1, "no": 2}.keys(), ("yes", "no")],
)
def test_options_come_as_whatever_lists_them(options: Any) -> None:
    """`df["label"].unique()` is an array; an Enum gives its values."""
    model = scripted_model(odds=lambda r, t: 0.4 if "yes" in t else 0.1)
    odds = lm.decide(["a"], options=options, model=model, abstain_below=np.float32(0.5))
    assert list(odds[0].raw) == ["yes", "no"]
    assert odds[0].choice == "yes"
    in_a_set = lm.decide(["a"], options={"yes", "no"}, model=model)
    assert list(in_a_set[0].raw) == ["no", "yes"]  # sorted: the order of a set is another in each process


def test_options_of_the_same_tokens_are_noted() -> None:
    """Where a tokenizer makes one of two texts they have one probability, and that is said once."""
    assert list(overlaps({"Yes": (1, 2), "yes": (1, 2), "no": (3,)})) == [
        "'Yes' and 'yes' are the same tokens for this model: it cannot tell them apart."
    ]


def test_options_that_begin_each_other_are_noted(loaded: Callable[..., Any]) -> None:
    """ "1" holds the probability of "10"; with the end of the answer they exclude each other."""
    model = loaded("short")
    odds = lm.decide(["Rate it."], options=["1", "10", "2"], model=model)
    assert odds.notes == (
        "'1' begins '10': its probability holds that of the other. With end=True the end of the answer "
        "counts, and they exclude each other.",
    )
    assert odds.notes[0] in to_text(odds)
    assert odds[0].raw["1"] > odds[0].raw["10"]
    ended = lm.decide(["Rate it."], options=["1", "10", "2"], model=model, end=True)
    assert ended.notes == ()
    assert ended[0].mass < odds[0].mass


def test_a_bad_row_costs_no_other_and_an_interrupt_keeps() -> None:
    """A row's error is its own; Ctrl-C holds what is decided, and `resume` decides the rest, none twice."""
    asked: list[str] = []

    def odds(request: Any, text: str) -> float:
        if text == "yes":
            asked.append(said(request))
            if said(request) == "0.5" and asked.count("0.5") == 1:
                raise KeyboardInterrupt
        return _odds(request, text)

    rows: list[Any] = [{"text": t} for t in ("0.1", None, "0.5", "word " * 600, "0.7", "not a number")]
    with pytest.raises(lm.GenerationInterrupted, match=r"of 6 rows are done and kept") as caught:
        lm.decide(rows, "{{ text }}", options=["yes", "no"], model=scripted_model(odds=odds))
    found = caught.value.completion
    assert isinstance(found, Odds)
    assert 0 < found.missing < 6
    found.resume()
    assert [one.choice for one in found] == ["yes", None, "yes", None, "yes", None]
    assert [type(one.error).__name__ for one in found.failures] == [
        "TemplateError", "ContextOverflowError", "ValueError",
    ]  # fmt: skip
    assert sorted(asked) == ["0.1", "0.5", "0.5", "0.7", "not a number"]


# --- calibration ----------------------------------------------------------------------------------


@pytest.mark.parametrize("bins", [1, 5, 10])
@pytest.mark.parametrize("seed", range(5))
def test_calibration_is_that_of_scikit_learn(seed: int, bins: int) -> None:
    """Bins, their means, accuracy and Brier score; ECE is their weighted distance. Gaps are left out."""
    rng = random.Random(seed)
    shares = [rng.choice([rng.random(), 0.5, 0.8, 1.0, 0.1 * rng.randrange(1, 10)]) for _ in range(200)]
    rows = [{"text": str(s), "label": rng.choice(["yes", "no"])} for s in shares] + [
        {"text": "1", "label": None}
    ]

    def odds(request: Any, text: str) -> float:
        share = float(said(request))
        return share if text == "yes" else 1 - share

    found = lm.decide(rows, "{{ text }}", options=["yes", "no"], model=scripted_model(odds=odds))
    confidence = np.array([one.confidence for one in found][:-1])
    right = np.array([one.choice == one.inputs["label"] for one in found][:-1])
    calibration = found.calibration("label", bins=bins)
    fractions, means = calibration_curve(right, confidence, n_bins=bins)
    filled = [one for one in calibration.bins if one.rows]
    assert [one.accuracy for one in filled] == pytest.approx(list(fractions))
    assert [one.confidence for one in filled] == pytest.approx(list(means))
    assert (calibration.rows, calibration.left_out) == (200, 1)
    weights = np.array([one.rows for one in filled])
    assert calibration.ece == pytest.approx(float((weights * abs(fractions - means)).sum() / 200))
    assert calibration.brier == pytest.approx(brier_score_loss(right, confidence))
    assert calibration.accuracy == pytest.approx(accuracy_score(np.ones(200), right))


def test_calibration_is_shown_in_words_and_as_bars() -> None:
    """A line a bin with two bars, the errors, the verdict; small bins are warned of."""
    rows = [{"text": t, "label": "yes"} for t in ("0.9", "0.9", "0.07")]
    odds = lm.decide(rows, "{{ text }}", options=["yes", "no"], model=scripted_model(odds=_odds))
    calibration = odds.calibration("label")
    text = to_text(calibration)
    assert "Expected calibration error" in text
    assert "2 of 2 bins have fewer than 10 rows" in text
    assert "surer than it is right" in text
    assert to_html(calibration).count('class="lm-p"') == 4
    assert [*calibration.to_pandas()["rows"]] == [0, 0, 0, 0, 0, 1, 0, 0, 2, 0]
    with pytest.raises(lm.OptionError, match="labl"):
        lm.decide(["0.1"], options=["yes", "no"], model=scripted_model(odds=_odds)).calibration("labl")


def test_options_that_the_model_would_hardly_write_are_noted() -> None:
    """Below a twentieth together (the median of rows) it is said what to do; above, nothing."""
    rare, usual = math.log(0.01), math.log(0.4)

    def odds(*rows: float) -> Odds:
        made = [Decision(i, i, {}, {}, {"yes": one, "no": one}) for i, one in enumerate(rows)]
        return Odds(None, dict(enumerate([*made, Decision(9, 9, {}, {}, error=ValueError("x"))])))

    said = to_text(odds(rare, rare, usual))
    assert "('yes', 'no') have 2.0% of what the model would write" in said
    assert "odds[" not in said  # nobody's variable is called so
    assert odds(rare, usual, usual).rare is None
    assert odds().rare is None


def test_decisions_read_well_without_styles() -> None:
    """Each option with its percentage in words; an error in its row; one decision by itself."""
    rows = [{"text": "0.3"}, {"text": None}]
    odds = lm.decide(rows, "{{ text }}", options=["yes", "no"], model=scripted_model(odds=_odds))
    for page in (to_text(odds), to_markdown(odds), to_html(odds)):
        assert "75%" in page.replace("&#53;", "5")
        assert "error: " in page
    assert "choice yes" in to_text(odds[0])
    assert "0.3" in to_text(odds[0])
    assert "no text" in to_text(odds[1])


def test_texts_to_score_come_in_any_form() -> None:
    """A list, a column, an array, a generator: anything that has an order; one text alone is none of them."""
    model = scripted_model(odds=lambda r, t: {"a": 0.5, "b": 0.25}[t])
    wanted = [pytest.approx(np.log(0.5)), pytest.approx(np.log(0.25))]
    for several in (["a", "b"], ("a", "b"), pd.Series(["a", "b"]), np.array(["a", "b"]), iter(["a", "b"])):
        assert model.score("x", several) == wanted
    for wrong in ("a", [], {"a", "b"}, ["a", 5]):
        with pytest.raises(lm.InputTypeError, match="expected"):
            model.score("x", wrong)


def test_a_row_that_takes_too_long_is_its_own_error(short: Any, tmp_path: Path) -> None:
    """With a `timeout` that no row keeps each has the error, and the next call decides them all."""
    how: dict[str, Any] = {"options": ["yes", "no"], "model": short, "record": tmp_path / "r.sqlite"}
    odds = lm.decide(TEXTS, **how, timeout=1e-4)
    assert [type(one.error) for one in odds] == [lm.OutOfTimeError] * 3
    assert [one.choice for one in odds.failures] == [None] * 3
    with pytest.raises(lm.OutOfTimeError, match="The time was up"):
        lm.decide(TEXTS, **how, timeout=1e-4, on_error="stop")
    found = lm.decide(TEXTS, **how, timeout=600)
    assert [one.error for one in found] == [None] * 3
    assert found[0].logprobs == lm.decide(TEXTS[:1], options=["yes", "no"], model=short)[0].logprobs
    with pytest.raises(lm.OptionError, match="timeout is 0"):
        lm.decide(TEXTS, **how, timeout=0)


def test_decisions_go_on_from_a_record(tmp_path: Path) -> None:
    """What is in the record is not read again, in another kernel either; other options are."""
    path = tmp_path / "odds.sqlite"
    how: dict[str, Any] = {"prompt": "{{ text }}", "options": {"ja": "yes", "no": "no"}, "record": path}
    first = lm.decide(["0.3", "0.1", "0.05"], model=scripted_model(odds=_odds), **how)
    other = scripted_model(odds=_odds)
    again = lm.decide(["0.3", "0.1", "0.2"], model=other, **how)
    assert [said(request) for request in other.backend.requests] == ["0.2"]
    assert [one.logprobs for one in again][:2] == [one.logprobs for one in first][:2]
    assert [one.choice for one in again] == ["ja", "ja", "ja"]
    assert again[0].seconds == first[0].seconds
    lm.decide(["0.3"], model=other, **{**how, "options": ["yes", "nope"]})
    lm.decide(["0.3"], model=other, **how, end=True)
    assert len(other.backend.requests) == 3
    assert sorted(answer.text for answer in lm.open_record(path)) == ["no", *["yes"] * 5]


def test_a_dry_run_of_decisions_counts_and_times(loaded: Callable[..., Any]) -> None:
    """Tokens and those that do not fit; the time is that of reading, for nothing is written."""
    model = scripted_model(window=30)
    found = lm.decide(["a b", "w " * 40], options=["yes", "no"], model=model, dry_run=True)
    assert model.backend.requests == []
    assert [row.row for row in found.too_long] == [1]
    assert found.seconds is None
    real = loaded("short")
    journal.clear()
    timed = lm.decide(TEXTS, options=["yes", "no"], model=real, dry_run=True)
    (speed,) = timed.speeds.values()
    assert timed.seconds == pytest.approx(timed.distinct_tokens / speed.read)
    assert (speed.write, speed.read > 0) == (0.0, True)
