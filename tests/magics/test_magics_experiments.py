"""`%%llama map DF`, `%%llama sweep`, `%%llama decide DF`: from a cell to runs and odds, and what is shown."""

from __future__ import annotations

import json
from typing import Any

import pandas as pd
import pytest

import llama_magic as lm
from llama_magic.experiments.forecast import Forecast
from llama_magic.experiments.odds import Odds
from llama_magic.experiments.runs import Runs
from llama_magic.magics._experiments import read_axes
from llama_magic.testing import Script


def said(request: Any) -> str:
    return str(request.messages[-1]["content"])


@pytest.fixture
def df(ip: Any) -> pd.DataFrame:
    frame = pd.DataFrame({"text": ["good one", "bad one", "good two"], "label": ["good", "bad", "bad"]})
    ip.user_ns["df"] = frame
    return frame


@pytest.fixture(autouse=True)
def _echo(model: Any) -> None:
    model.backend.answers = said


def outputs(capsys: pytest.CaptureFixture[str]) -> str:
    return capsys.readouterr().out


def test_map_asks_for_every_row(run: Any, ip: Any, df: Any, capsys: Any) -> None:
    """The body is the prompt; `-o` binds the runs and the cell shows them, without it the cell gives them."""
    run("%%llama map df -o runs\nSay {{ text }}!").raise_error()
    runs = ip.user_ns["runs"]
    assert isinstance(runs, Runs)
    assert [r.text for r in runs] == ["Say good one!", "Say bad one!", "Say good two!"]
    assert "Say bad one!" in outputs(capsys)
    result = run("%%llama map df\n{{ text }}").result
    assert isinstance(result, Runs)
    run("%%llama map df -q -o quiet\n{{ text }}").raise_error()
    assert len(ip.user_ns["quiet"]) == 3
    assert "good two" in outputs(capsys)  # of the cell before; this one shows nothing
    assert outputs(capsys) == ""


@pytest.mark.parametrize(
    "rows",
    [
        "df[:2]",
        "df.head(2)",
        "{df2}",
        "$df2",
        "df2",
        'df[df["text"].str.len() > 0].head(2)',
        "\"df['text'][:2]\"",
    ],
)
def test_rows_are_a_variable_or_an_expression(run: Any, ip: Any, df: Any, rows: str) -> None:
    """Anything of the namespace that holds rows; what is not there is an error that names the nearest."""
    ip.user_ns["df2"] = df[:2]
    run(f"%%llama map {rows} -o r\n{{{{ text }}}}").raise_error()
    assert [one.text for one in ip.user_ns["r"]] == ["good one", "bad one"]
    result = run("%%llama map dff\n{{ text }}")
    assert "Did you mean df" in str(result.error_in_exec)


def test_several_prompts_stand_under_lines_with_names(run: Any, ip: Any, df: Any) -> None:
    """`=== name` opens a prompt, which may be blocks; a name of the notebook fills what is no column."""
    ip.user_ns["tone"] = "kindly"
    body = "=== short\n{{ text }}\n\n=== long ===\nsystem: Be {{ tone }}.\nuser: {{ text }}?"
    cell = f"%%llama map df -o r\n{body}"
    run(cell).raise_error()
    runs = ip.user_ns["r"]
    assert runs.axes == {"prompt": ["short", "long"]}
    assert [r.text for r in runs.where(prompt="long")] == ["good one?", "bad one?", "good two?"]
    assert runs.where(prompt="long")[0].completion.messages[0]["content"] == "Be kindly."
    run(
        "%%llama map df[:1] -o r\nTitle\n=====\n{{ text }}"
    ).raise_error()  # Markdown's own line is none of ours
    assert [r.text for r in ip.user_ns["r"]] == ["Title\n=====\ngood one"]


@pytest.mark.parametrize(
    ("body", "words"),
    [
        ("above\n=== a\nx", "above the first"),
        ("=== a\nx\n=== a\ny", "stands twice"),
        ("===\nx", "has no name"),
        ("=== a\n\n=== b\nx", "no text below"),
    ],
)
def test_prompts_that_cannot_be_told_apart_are_refused(run: Any, df: Any, body: str, words: str) -> None:
    """Text without a name, a name without text, a name twice: each says what is wrong."""
    assert words in str(run(f"%%llama map df\n{body}").error_in_exec)


def test_options_reach_the_experiment(run: Any, ip: Any, df: Any, loader: Any) -> None:
    """Generation options, --over, --models, --score, --on-error, --schema, -N and --seed, as in Python."""
    loader.answers = lambda r: json.dumps({"label": said(r).split()[0]})
    ip.user_ns["model_names"] = ["one", "two"]

    def length(run: Any) -> int:
        return len(run.text)

    ip.user_ns["length"] = length
    line = (
        '--over "top_k=3,4; temperature=0" --models one,two --score label --schema label --seed 7 -N 2 -n 40'
    )
    run(f"%%llama map df {line} -o r\n{{{{ text }}}}").raise_error()
    runs = ip.user_ns["r"]
    assert runs.axes == {"top_k": [3, 4], "temperature": [0], "model": ["one", "two"]}
    assert len(runs) == 3 * 2 * 2 * 2
    assert [one.answer() for one in runs[:2]] == ["good", "good"]
    assert runs.summary(by=[]).groups[0].scores["right"].mean == pytest.approx(2 / 3)
    assert runs[0].seed == 7
    assert runs[0].completion.budget.max_tokens == 40
    assert [loader.models[name].closed for name in ("one", "two")] == [True, True]
    run("%%llama map df --models {model_names} --score length -o s\n{{ text }}").raise_error()
    assert list(ip.user_ns["s"].axes) == ["model"]
    assert ip.user_ns["s"][0].scores == {"length": len('{"label": "good"}')}
    ip.user_ns["both"] = {"size": length, "right": "label"}
    for score, names in (
        ("{length}", ["length"]),
        ("$both", ["size", "right"]),
        ("{both['size']}", ["length"]),
    ):
        run(f"%%llama map df --score {score} -o s\n{{{{ text }}}}").raise_error()
        assert list(ip.user_ns["s"][0].scores) == names
    result = run("%%llama map df --on-error stop -o t\n{{ text if label == 'good' else none }}")
    assert isinstance(result.error_in_exec, lm.TemplateError)
    assert isinstance(ip.user_ns["t"], Runs)
    assert "stand together" in str(run("%%llama map df -m one --models two\nx").error_in_exec)


def test_a_file_in_place_of_rows_is_named(run: Any, model: Any) -> None:
    """`%%llama map mails.csv`: what to do with a file is said, not that there is no variable `mails`."""
    error = run("%%llama map mails.csv\n{{ body }}").error_in_exec
    assert "mails.csv is a file; expected a variable that holds the rows." in str(error)
    assert "df = pd.read_csv(path) or its kin; then %%llama map df." in str(error)


def test_a_record_goes_on(run: Any, ip: Any, df: Any, model: Any) -> None:
    """--record keeps the answers in a file; the same cell asks for nothing that is there."""
    cell = "%%llama map df --record runs.sqlite --seed 1 -o r\n{{ text }}"
    run(cell).raise_error()
    run(cell).raise_error()
    assert len(model.backend.requests) == 3
    assert [one.text for one in ip.user_ns["r"]] == list(df["text"])
    assert len(lm.open_record("runs.sqlite")) == 3


def test_sweep_fills_from_axes_and_variables(run: Any, ip: Any, df: Any, capsys: Any) -> None:
    """Names come from --over, then from rows, then from the notebook; the grid is shown."""
    ip.user_ns |= {"thing": "the sea", "styles": ["dry", "warm"], "axes": {"style": ["odd"]}}
    run(
        '%%llama sweep --over "style={styles}; temperature=0,0.8" -o r\n{{ thing }} in a {{ style }} way'
    ).raise_error()
    assert [one.text for one in ip.user_ns["r"]] == [
        f"the sea in a {style} way" for style in ("dry", "warm") for _ in range(2)
    ]
    assert "[warm]" in outputs(capsys)
    run("%%llama sweep df --over {axes} -o s\n{{ text }} {{ style }}").raise_error()
    assert [one.text for one in ip.user_ns["s"]] == ["good one odd", "bad one odd", "good two odd"]


@pytest.mark.parametrize(
    ("text", "axes"),
    [
        ("style=dry,warm; temperature=0,0.8; seed=1..4",
         {"style": ["dry", "warm"], "temperature": [0, 0.8], "seed": [1, 2, 3, 4]}),
        ("x='a, b',c;", {"x": ["a, b", "c"]}),
        ('x="1",1,1.5,-2', {"x": ["1", 1, 1.5, -2]}),
        ("n=3..1; y=None,true", {"n": [3, 2, 1], "y": [None, True]}),
        ("x={xs},z; y=$one", {"x": [1, 2, "z"], "y": ["un"]}),
        ("x=very dry,a=b", {"x": ["very dry", "a=b"]}),
        ("x={d['a']},{xs[0] + 5}; y=so {one},'{one}, $one'", {"x": [0, 0.8, 6], "y": ["so un", "un, un"]}),
    ],
)  # fmt: skip
def test_axes_on_the_line(text: str, axes: dict[str, list[Any]]) -> None:
    """Numbers are numbers, a range each of its numbers, quotes keep commas, variables their values."""
    assert read_axes(text, {"xs": [1, 2], "one": "un", "d": {"a": [0, 0.8]}}) == axes


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("style", "NAME=VALUES"),
        ("a=;b=1", "NAME=VALUES"),
        ("a={b}", "'b'"),
        ("seed=1..10000000000", "at most"),
    ],
)
def test_axes_that_cannot_be_read(text: str, words: str) -> None:
    """What is no axis is named, and how to write one."""
    with pytest.raises(lm.OptionError, match=words):
        read_axes(text, {})


def test_decide_weighs_its_options(run: Any, ip: Any, df: Any, model: Any, capsys: Any) -> None:
    """--options, --abstain-below and --end reach `lm.decide`; without options it says what is missing."""
    model.backend.odds = lambda r, t: 0.4 if t.strip("</s>") in said(r) else 0.2
    run('%%llama decide df --options "good|bad" --score label -o r\n{{ text }}').raise_error()
    odds = ip.user_ns["r"]
    assert isinstance(odds, Odds)
    assert [one.choice for one in odds] == ["good", "bad", "good"]
    assert odds.calibration("label").accuracy == pytest.approx(2 / 3)
    assert "67%" in outputs(capsys)
    run('%%llama decide df --options "good|bad" --abstain-below 0.9 -o r\n{{ text }}').raise_error()
    assert [one.choice for one in ip.user_ns["r"]] == [None] * 3
    ip.user_ns["own"] = lambda row: ["good", row["text"]]
    for word in ("own", "{own}"):
        run(f"%%llama decide df --options {word} -o r\n{{{{ text }}}}").raise_error()
        assert [list(one.logprobs)[1] for one in ip.user_ns["r"]] == list(df["text"])
    before = len(model.backend.requests)
    run('%%llama decide df --options "good|bad" --end -o r\n{{ text }}').raise_error()
    assert model.backend.requests[before].max_tokens == 5  # "good" in bytes, and the end
    assert "--options" in str(run("%%llama decide df\n{{ text }}").error_in_exec)
    assert "means nothing in %%llama decide" in str(run("%%llama decide df -t 1\n{{ text }}").error_in_exec)


def test_a_dry_run_asks_nothing(run: Any, ip: Any, df: Any, model: Any, capsys: Any) -> None:
    """--dry-run shows and gives a forecast, in all three modes."""
    for mode, more in (("map df", ""), ("sweep df", ""), ("decide df", '--options "a|b"')):
        run(f"%%llama {mode} {more} --dry-run -o r\n{{{{ text }}}}").raise_error()
        assert isinstance(ip.user_ns["r"], Forecast)
        assert "nothing was asked" in outputs(capsys)
    assert model.backend.requests == []


@pytest.mark.parametrize("out", ["-o r", ""])
def test_an_interrupt_binds_and_shows_what_is_done(
    run: Any, ip: Any, model: Any, out: str, capsys: Any
) -> None:
    """Ctrl-C in the middle: the runs that are done stand under the name of `-o`, or as `_`, and go on."""
    ip.user_ns["texts"] = [f"{i:02}" for i in range(30)]
    pressed: list[bool] = []

    def answer(request: Any) -> Script:
        first = said(request) == "20" and not pressed
        pressed.extend([True] * first)
        return Script(said(request), at=0, interrupt=first)

    model.backend.answers = answer
    result = run(f"%%llama map texts {out}")
    result = run(f"%%llama map texts {out}\n{{{{ text }}}}")
    name = "r" if out else "_"
    assert isinstance(result.error_in_exec, lm.GenerationInterrupted)
    assert f"{name}.resume() goes on" in str(result.error_in_exec)
    runs = ip.user_ns[name]
    assert isinstance(runs, Runs)
    assert 0 < runs.missing < 30
    assert f"{runs.missing} of 30 are missing" in outputs(capsys)
    run(f"done = {name}.resume()").raise_error()
    assert [one.text for one in ip.user_ns["done"]] == ip.user_ns["texts"]


def test_formats_and_help(run: Any, ip: Any, df: Any, capsys: Any) -> None:
    """--format json is a record a run; --help and the missing word explain the mode."""
    run("%%llama map df --format json -o r\n{{ text }}").raise_error()
    assert json.loads(outputs(capsys))[1]["answer"] == "bad one"
    run("%%llama map --help\nx").raise_error()
    assert "%%llama map DF [options]" in outputs(capsys)
    assert "needs DF" in str(run("%%llama map\n{{ text }}").error_in_exec)
    assert "no further word" in str(run("%%llama map df df\n{{ text }}").error_in_exec)


def test_tab_offers_rows_models_and_scores(ip: Any, df: Any) -> None:
    """Behind the mode the variables that hold rows, behind --score functions, behind --on-error its words."""
    ip.user_ns |= {"texts": ["a"], "number": 5, "is_right": len}

    def offered(line: str) -> list[str]:
        return [c.text for c in ip.Completer.completions(line, len(line))]

    assert {"df", "texts"} <= set(offered("%%llama map "))
    assert "number" not in offered("%%llama map ")
    assert "is_right" in offered("%%llama map df --score is")
    assert offered("%%llama map df --on-error ") == ["keep", "stop"]
