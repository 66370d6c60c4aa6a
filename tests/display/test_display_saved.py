"""Saved answers: equal for a seed, within a terminal, small; they say what was cut and what ended them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from display_answers import completion
from test_display_render import Reader

from llama_magic.display import mimebundle, to_html, to_text
from llama_magic.model.results import Budget, Usage
from llama_magic.request.sampling import Sampling


def test_static_outputs_have_no_times_and_are_equal_for_a_seed() -> None:
    """Speed and cached tokens differ from run to run, the saved bundle does not."""
    first = mimebundle(completion("Hi", seeded=True, cached=0, speed=70.0))
    again = mimebundle(completion("Hi", seeded=True, cached=96, speed=91.5))
    assert first == again


def test_wide_columns_share_the_room_of_a_terminal() -> None:
    """Where each of the long ones has 24 columns or more, they are wrapped side by side."""
    from llama_magic.words.tables import Table

    rows = ((0, "a review " * 12, "bad", 0.5), (1, "short", "error: it is much too long for a line", 0.25))
    lines = to_text(Table(("row", "text", "choice", "margin"), rows)).splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[0].split() == ["row", "text", "choice", "margin"]
    assert lines[1].split() == ["0", *["a", "review"] * 3, "a", "bad", "0.5"]
    at, end = lines[0].index("choice"), lines[0].index("margin")
    columns = [[" ".join(line[a:b].split()) for line in lines[1:]] for a, b in ((0, 3), (5, at), (at, end))]
    assert columns[0] == ["0", "", "", "", "1", ""]
    assert " ".join(columns[1]).split() == [*["a", "review"] * 12, "short"]
    assert columns[2] == ["bad", "", "", "", "error: it is much too long for", "a line"]


def test_a_table_of_wide_cells_stays_within_a_terminal() -> None:
    """Japanese takes two columns a character; an empty cell is not named as if it said yes."""
    from llama_magic.display.static.text import columns
    from llama_magic.words.tables import Table

    long = "日本の首都はどこですか？🦙" * 4
    rows = (("旅行の計画と日本語の長い名前", 1, "", long, long),)
    text = to_text(Table(("chat", "turns", "interrupted", "first question", "last question"), rows))
    assert max(columns(line) for line in text.splitlines()) <= 80
    assert "interrupted" not in text
    assert "turns 1" in text


def test_what_was_cut_is_always_said() -> None:
    """A note stands in every form of an answer, seeded or not, of samples, and in a terminal."""
    from llama_magic.display.live.terminal import figures

    cut = "Cut the first 9 tokens of the prompt to fit the window of 256."
    for answer in (completion("Hi", seeded=True, notes=(cut,)), completion("Hi", notes=(cut,))):
        assert figures(answer).endswith(f"]\n{cut}")
        for shown in (answer, [answer, answer]):
            bundle: dict[str, Any] = mimebundle(shown)
            assert bundle["text/plain"].count(cut) == 1
            assert bundle["text/html"].count(cut) == 1
        assert mimebundle(answer)["application/vnd.llama-magic.v1+json"]["notes"] == [cut]


def test_the_ending_is_what_ended_it() -> None:
    """A stop text is named as it was written, the full window is said, a limit has its number."""
    budget = Budget(100, 20, 30)
    ends = {
        "ended by itself": {"finish_reason": "stop"},
        'ended at the stop text "."': {"finish_reason": "stop", "stop": ".", "made_with": _asked(".")},
        'ended at the stop text "\\n\\n"': {"stop": "\n\n", "made_with": _asked("x", "\n\n")},
        "cut at max_tokens 30": {"finish_reason": "length", "usage": Usage(20, 0, 30)},
        "the window is full": {"finish_reason": "length", "usage": Usage(20, 0, 80)},
    }
    for words, facts in ends.items():
        said = to_text(replace(completion("Hi"), budget=budget, **facts))
        assert words in said
        assert [w for w in ends if w in said] == [words]
    own = replace(completion("Hi"), stop="<|im_end|>", made_with=_asked("."))  # the template's
    assert "ended by itself" in to_text(own)


def _asked(*stops: str) -> dict[str, Any]:
    return {"asked": {"stop": list(stops)}}


def test_samples_have_the_window_each() -> None:
    """The gauge under several samples is that of the longest one, not of their sum."""
    answers = [
        replace(completion("Hi"), budget=Budget(256, 4, 100), usage=Usage(4, 0, n)) for n in (100, 60, 80)
    ]
    said = to_text(answers)
    assert "longest sample: 4 prompt + 100 written of 256 tokens · 152 free" in said
    assert "sample 2: 60 tokens, 64 of 256 tokens · ended by itself" in said
    assert "240 written" not in said


def test_an_unseeded_answer_says_what_was_reused() -> None:
    """Without a seed the receipt keeps cached tokens and notes, so that a difference can be explained."""
    bundle: dict[str, Any] = mimebundle(
        completion("Hi", seeded=False, cached=96, notes=("reused 96 tokens",))
    )
    receipt = bundle["application/vnd.llama-magic.v1+json"]
    assert receipt["usage"]["cached_tokens"] == 96
    assert "reused 96 tokens" in bundle["text/plain"]
    assert "seed 42 (drawn)" in bundle["text/plain"]
    cold = replace(completion("Hi", seeded=False), sampling=Sampling(temperature=0))
    assert to_text(cold).startswith("chat: smollm2 · temperature 0\n")  # a draw had nothing to choose


def test_formats_choose_what_is_stored() -> None:
    """Each format holds its own form, always text/plain and the receipt."""
    receipt = "application/vnd.llama-magic.v1+json"
    forms = {
        "auto": {"text/html"},
        "html": {"text/html"},
        "markdown": {"text/markdown"},
        "text": set(),
        "json": {"application/json"},
    }
    for form, more in forms.items():
        assert set(mimebundle(completion(), form)) == {"text/plain", receipt} | more  # type: ignore[arg-type]


def test_a_saved_answer_is_small() -> None:
    """A short answer costs under 4 kB of HTML, its styles included."""
    assert len(to_html(completion())) < 4000


def test_text_is_there_with_every_style_stripped() -> None:
    """Without the style element and attributes the head, the text and the figures stand in their order."""
    text = Reader(to_html(completion("The answer."))).text
    order = [
        text.index(part)
        for part in ("chat", "smollm2", "seed 42", "The answer.", "100 prompt + 2 written of 4,096")
    ]
    assert order == sorted(order)
    assert "reserved" not in text
