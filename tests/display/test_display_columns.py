"""Columns of tables: figures flush right, names on one line, no more than a window of 1,000 pixels holds."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

import pytest
from display_answers import answering, bare, completion
from example_views import example_views

import llama_magic as lm
from llama_magic.display import to_html, to_markdown, to_text
from llama_magic.display.static.doc import Answer, Code, Grid, Head, Line, Node
from llama_magic.display.static.html import page
from llama_magic.display.views.experiments.comparing import sentence
from llama_magic.display.views.kept import listed
from llama_magic.engine.snapshot import LaneState
from llama_magic.errors import ContextOverflowError
from llama_magic.experiments.comparing import Pair, Pairs
from llama_magic.microscope.cells import KVSequence, KVState
from llama_magic.microscope.reading import ReadThrough, ReadToken
from llama_magic.microscope.tracing import Drawn, SamplerTrace, TraceStage
from llama_magic.request.sampling import Sampling
from llama_magic.session.history import History
from llama_magic.testing import scripted_model
from llama_magic.words.tables import Share, Table


def _styles(html: str) -> list[str]:
    return re.findall(r"<td(?: style=\"([^\"]*)\")?", html)


def test_figures_with_a_deviation_stand_flush_right() -> None:
    """As all figures do, so that their sizes are compared at a glance."""
    html = to_html(example_views()["bench"])
    assert html.count('align="right">800.0 ± 14.1') == html.count('align="right">61.0 ± 0.7') == 1


def test_a_minus_is_one_to_who_looks_and_a_hyphen_in_what_is_copied() -> None:
    """Of numbers alone: what a model or a person wrote with a hyphen keeps it, and so do text formats."""
    pairs = example_views()["pairs"]
    assert ">\u22120.53 to \u22120.13<" in to_html(pairs)
    assert "-0.53 to -0.13" in to_text(pairs)
    rows, asks = [{"bias": -1e-07, "code": "-5"}], "{{ bias }} {{ code }}"
    table = to_html(lm.map(rows, asks, model=scripted_model(lambda _r: "-5")))
    assert ">\u22121e\u221207<" in table
    assert table.count(">-5<") == 2
    number = Table(("x",), ((-3.5,),))
    assert ">\u22123.5<" in to_html(number)
    assert "-3.5" in to_markdown(number)


def test_names_are_not_torn_where_only_values_stand_beside_them() -> None:
    """A key of a header is one word of up to 40 letters; a longer one may be broken anywhere."""
    for key, torn in (("llama.attention.layer_norm_rms_epsilon", False), ("a." * 30, True)):
        styles = _styles(to_html(Table(("key", "value"), ((key, "1e-5 or so"),))))
        assert ("anywhere" in styles[0]) == torn, key
        assert "nowrap" not in styles[0]
    name, value = _styles(to_html(Table(("what", "value"), (("guessed ahead", "80 of them"),))))
    assert "nowrap" in name
    assert "nowrap" not in value


def test_a_mixed_history_has_the_columns_that_a_window_holds() -> None:
    """Mode, model, end and seed stand in one column, each only where it is not said of all, with time and
    speed."""
    history = History()
    history.add(completion("One."))
    history.add(completion("Two.", mode="complete", finish_reason="length"))
    history.add(replace(completion("Three."), model="other", finish_reason="interrupted"))
    lines = to_text(history).splitlines()
    assert lines[0] == "history: 3 generations, the newest first"
    html = to_html(history)
    assert re.findall(r"<th [^>]*>([^<]*)</th>", html) == ["#", "prompt", "answer", "how"]
    hows = re.findall(r"<td[^>]*>([^<]*)</td></tr>", html)
    assert hows == [
        f"1\u00a0token, {how}, seed\u00a042, 1\u00a0s"
        for how in ("chat, other, stopped", "complete, smollm2, cut", "chat, smollm2")
    ]


def test_all_of_a_history_ended_in_words() -> None:
    """`stop` is what a server says; people read that somebody stopped it."""
    for reason, words in (("stop", "ended by themselves"), ("length", "cut at max_tokens")):
        history = History()
        for text in "ab":
            history.add(completion(text, finish_reason=reason))
        assert to_text(history).splitlines()[0].endswith(f"the newest first · all chat · all {words}")


def test_what_was_expected_instead_is_another_token() -> None:
    """The token that came is left out of what is said to have been expected in its place."""
    likely = ((" the", 0.5), (" sea", 0.25), (" sky", 0.125))
    read = ReadThrough("The sea", (ReadToken(1, "The", None, None, None),
                                   ReadToken(2, " sea", math.log(0.25), 2, 1.0, likely)), "m")  # fmt: skip
    row = to_text(read).splitlines()[-1]
    assert "“·the” 50%, “·sky” 12%" in row


def test_a_value_that_is_no_word_is_compared_with_its_name() -> None:
    """`2 against 1` says nothing; a prompt's name does."""
    pair = Pair(1, 2, 90, 0, 60, -0.3, -0.5, -0.1, 0.002, 0.002)
    assert sentence(pair, "top_k").startswith("top_k 2 against 1 on the same 90 rows: 0 better, 60 worse")
    assert sentence(pair, "top_k").endswith(": top_k 2 is worse.")
    named = replace(pair, first="short", second="long")
    assert sentence(named, "prompt").startswith("long against short on the same 90 rows")


def test_a_dot_beside_a_token_is_a_blank_and_parts_nothing() -> None:
    """Candidates, and what is said of a token, are parted by commas, in words and in HTML."""
    shown = example_views()["difference"]
    assert "“·a” 27%, “·the” 20%" in to_text(shown)
    assert "“·a” 27%, “·the” 20%" in re.sub("<[^>]+>", "", to_html(shown))
    assert "drawn: “·door”, token 1" in bare(to_html(example_views()["xray"]))


def test_the_parameters_of_a_stage_are_those_that_were_asked_for() -> None:
    """The first, and what is not the default, without the stage's own name before it."""
    trace: Any = example_views()["xray"]
    stages = (
        ("penalties", {"repeat_penalty": 1.1, "repeat_last_n": 64, "presence_penalty": 0.3}),
        ("xtc", {"xtc_probability": 0.5, "xtc_threshold": 0.1}),
        ("temperature", {"temperature": 0.8, "dynatemp_range": 0.4, "dynatemp_exponent": 1.0}),
        ("min_p", {"min_p": 0.05}),
    )
    last = trace.stages[-1]
    shown = to_text(replace(trace, stages=(*(replace(last, name=n, parameters=p) for n, p in stages), last)))
    for words in ("penalties repeat_penalty 1.1, presence_penalty 0.3", "xtc probability 0.5",
                  "temperature 0.8, dynatemp_range 0.4", "min_p 0.05"):  # fmt: skip
        assert f"\n{words}  " in shown, words


def test_what_a_sliding_window_still_holds_counts_from_one() -> None:
    """The last 8 of 11 tokens are the 4th to the 11th, as tokens are counted everywhere."""
    lines = to_text(example_views()["kv"]).splitlines()
    assert next(line for line in lines if line.startswith("sequence")).endswith("tokens held")
    assert next(line for line in lines if line.startswith("a  ")).endswith("4 to 11")


def test_a_beginning_of_many_sequences_says_how_many() -> None:
    """Those below it name them: a list of ten at each node hid the tree."""
    texts = [f"hello {letter}".encode() for letter in "abcd"]
    held = tuple(
        KVSequence(f"s-{i}", "cells", "main", (*text,), tuple(bytes([c]) for c in text), len(text), 10)
        for i, text in enumerate(texts)
    )
    lanes = (LaneState("main", 2048, 60, 10**7, 0, 10**8),)
    text = to_text(KVState(lanes, held, 1, "f16", "f16", 0))
    assert "6 tokens “hello ” · 4 sequences" in text
    assert "1 token “a” · s-0\n" in text
    few = to_text(KVState(lanes, held[:3], 1, "f16", "f16", 0))
    assert "6 tokens “hello ” · s-0, s-1, s-2" in few


@pytest.mark.parametrize(("used", "shared"), [(13, True), (28, False)])
def test_who_adds_up_sequences_is_told_of_shared_cells(used: int, shared: bool) -> None:
    """Two of 14 tokens in fewer than 28 cells: their memory is more than the cache's, and a line says why."""
    held = tuple(
        KVSequence(name, "cells", "main", (1,) * 14, (b"a",) * 14, 14, 10) for name in ("s-0", "s-1")
    )
    lanes = (LaneState("main", 2048, used, 10**7, 0, 10**8),)
    text = to_text(KVState(lanes, held, 1, "f16", "f16", 0))
    assert ("cells that sequences share are counted in each of them" in text) is shared


def test_what_fills_a_window_is_read_as_names_and_figures() -> None:
    """`user 1 8` would be one name; in the error as in the gauge a colon parts them."""
    turns = [{"role": role, "content": "word " * 20} for role in ("user", "assistant", "user")]
    with pytest.raises(ContextOverflowError, match=r"user 1: \d+, assistant 1: \d+, user 2: \d+"):
        answering("x", window=64).chat(turns)


def test_an_x_ray_has_as_many_candidates_as_fit() -> None:
    """Five where their names are short, three where they are long; the drawn one is always among them."""
    trace: Any = example_views()["xray"]
    for names, shown in ((" of", 5), (" notwithstanding", 3)):
        leaders = tuple((f"{names}{letter}", 0.3 - i / 20) for i, letter in enumerate("abcde"))
        stages = tuple(replace(stage, leaders=leaders) for stage in trace.stages)
        drawn = replace(trace.drawn, text=leaders[4][0])
        heads = re.findall(r"<th [^>]*>([^<]*)</th>", to_html(replace(trace, stages=stages, drawn=drawn)))
        assert len(heads) == 3 + shown
        assert heads[-1] == f"◉ ·{names.strip()}e"


def test_a_comma_between_shares_ends_a_line_and_begins_none() -> None:
    """It stays with the share before it, where the line is too narrow for both."""
    assert "27%</span>, <span" in to_html(example_views()["difference"])


def test_rows_that_none_shares_have_no_figures() -> None:
    """No difference and no p, where there is nothing to compare; never `nan`."""
    nothing = Pair(0, 0.8, 0, 0, 0, math.nan, math.nan, math.nan, 1.0, 1.0)
    line = to_text(Pairs("temperature", "score", (nothing,))).splitlines()[2]
    assert line.split() == ["0.8", "0", "0", "0", "0", "–", "–", "–"]


def test_a_record_tells_how_each_answer_came_about_in_one_column() -> None:
    """Tag and label with their names, where there are any; the model only where there are several.

    How it ended stands there where it did not end by itself.
    """
    headers = ("#", "time", "tag", "label", "mode", "model", "prompt", "answer", "tokens", "ended", "seed")
    rows = (
        (1, "noon", "t", "", "chat", "m", "p", "a", 3, "stop", "7"),
        (2, "one", "", "x", "chat", "m", "p", "a", 1, "", ""),
    )
    found = listed(Table(headers, rows, "c"), ("#", "answer"), ["model"])
    assert found.headers == ("#", "answer", "how")
    assert found.rows == (
        (1, "a", "3\u00a0tokens, tag\u00a0t, chat, seed\u00a07"),
        (2, "a", "1\u00a0token, label\u00a0x, chat"),
    )
    assert found.caption == "c"


def test_no_line_ends_behind_a_hyphen_of_an_option_a_path_or_a_command() -> None:
    """They are whole between blanks and slashes, as is a name that ends in a number; one too long for a
    narrow column, words of a sentence and numbers are left as they are. What is copied is the text.
    """
    path = f"/a-b/site-packages/{'long-' * 9}name/c"
    said = f"A well-known -1.5 of --max-tokens 3 (-n) in main-0, {path}"
    whole = r'<span style="white-space:nowrap">(.*?)</span>'
    options = ["--max-tokens", "(-n)", "main-0,", "a-b/", "site-packages/"]
    nodes: tuple[Node, ...] = (
        Line(said),
        Grid(Table(("where",), ((said,),))),
        Head("no", said, sentence=True),
    )
    for html in (page([node]) for node in nodes):
        assert re.findall(whole, html) == options
        assert said in re.sub(r"<[^>]*>", "", html)
    html = page([Code('pip install --no-deps a-b==1 "c;d-e"')])
    assert re.findall(whole, html) == ["--no-deps", "a-b==1", "d-e&#34;"]
    assert ";<wbr>" in html  # else a list of samplers is broken in the middle of one
    assert re.findall(whole, page([Answer("--max-tokens"), Code("{{ a-b }}", template=True)])) == []


def test_columns_of_texts_are_no_word_wide() -> None:
    """Up to three are wide enough for a few words, whatever stands beside them; one is for two words, but in
    a table of names and values, which fits the page. Short words need no room."""
    long, longer = "words of a prompt, five of them", "an answer " * 12
    for row, widths in (
        ((1, long, longer), ["", "10em", "10em"]),
        ((1, "short", longer), ["", "", "6em"]),
        (("short", longer), ["", ""]),
        ((long, longer, long, long), [""] * 4),
    ):
        heads = re.findall(r"<th [^>]*>", to_html(Table(tuple("abcd"[: len(row)]), (row,))))
        found = [re.search('min-width:([^;"]*)', head) for head in heads]
        assert [one[1] if one else "" for one in found] == widths


def test_a_share_stands_as_far_from_a_range_as_other_columns() -> None:
    """`33% 6% to 79%` is no text: only shares that are to be compared stand near each other."""
    html = to_html(
        Table(("of all", "right", "interval"), (((Share("", 1.0),), (Share("", 0.3),), "6% to 79%"),))
    )
    near, far, _ = _styles(html)
    assert "padding:2px 6px 2px 0" in near
    assert "padding:2px 13px 2px 0" in far
    assert "nowrap" in near
    assert "nowrap" in far


def test_the_token_that_a_penalty_took_most_from_has_a_column() -> None:
    """The first row's likeliest is among the columns, though others lead after the last stage."""
    left: Any = (
        ("logits", ("sea", "sky", "bay", "rock")),
        ("penalties", ("sky", "land", "sun", "fog", "ice")),
        ("dist", ("fog",)),
    )
    stages = tuple(
        TraceStage(
            name, {}, 9, 2.0, 1.0, tuple((word, 0.5 / i) for i, word in enumerate(words, 1)), *[()] * 3
        )
        for name, words in left
    )
    trace = SamplerTrace(stages, Drawn(7, "fog", 1.0), 0, 1, Sampling())
    html = to_html(trace)
    assert set(re.findall(r"<th [^>]*>([^<]*)</th>", html)[3:]) == {"sea", "sky", "land", "sun", "◉ fog"}
