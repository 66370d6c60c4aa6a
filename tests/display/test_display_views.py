"""Views: the gauge, heads, and what every one of them keeps."""

from __future__ import annotations

import dataclasses
import pickle
import re
import subprocess
import sys
from dataclasses import replace

from display_answers import bare, completion
from example_views import example_views
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.formatters import DisplayFormatter

from llama_magic import display, errors
from llama_magic.display import to_html, to_text
from llama_magic.display.static import inline, markdown
from llama_magic.display.static.doc import Bar, Head, Segment
from llama_magic.display.static.html import fragment, page
from llama_magic.display.static.text import columns
from llama_magic.display.static.text import fragment as text_fragment
from llama_magic.display.views import gauge
from llama_magic.microscope.reading import ReadThrough, ReadToken
from llama_magic.microscope.tokens import named
from llama_magic.model.logprobs import TokenLogprob
from llama_magic.model.results import Budget, BudgetPart
from llama_magic.session.history import HistoryEntry
from llama_magic.words.tables import Table


@given(st.integers(0, 9000), st.integers(1, 9000), st.integers(1, 9000), st.integers(0, 9000))
def test_the_gauge_adds_up(prompt: int, reserve: int, window: int, written: int) -> None:
    """Prompt, written, reserved and free in words sum to the window wherever the request fits it."""
    written = min(written, reserve)
    budget = Budget(window, prompt, reserve)
    for shown in (budget, gauge.ended(budget, written)):
        said = gauge.words(shown, written)
        numbers = [int(n.replace(",", "")) for n in re.findall(r"[\d,]+", said)]
        assert numbers[:3] == [prompt, written, window]
        kept = shown.max_tokens - written
        assert ("reserved" in said) == (kept > 0)
        if prompt + shown.max_tokens <= window:
            assert numbers[0] + numbers[1] + sum(numbers[3:]) == window
        assert sum(part.amount for part in gauge.segments(shown, written)) == prompt + written + kept


def test_a_little_of_a_large_window_is_drawn_large() -> None:
    """Its parts fill the bar, and a thin one says how much of the window they are; else one bar says both."""
    little = bar_widths(
        Budget(2048, 53, 7, (BudgetPart("template", "template", 40), BudgetPart("user", "user", 13))), 7
    )
    assert little == {"lm-bar": [66.67, 21.67, 11.67], "lm-whole": [2.93]}
    assert bar_widths(Budget(100, 53, 7), 7) == {"lm-bar": [53.0, 7.0]}
    assert bar_widths(Budget(100, 53, 0), 0) == {"lm-bar": [53.0]}
    assert bar_widths(Budget(1000, 53, 0), 0) == {
        "lm-bar": [5.3]
    }  # one part drawn large would seem to fill it


def test_a_prompt_over_the_window_shows_how_much_that_holds() -> None:
    """The bar is all that was to go in; a thin one, and its words, say how much of it there is room for."""
    over = Budget(100, 153, 7)
    assert bar_widths(over, 7) == {"lm-bar": [95.62, 4.38], "lm-whole": [62.5]}
    assert "the\u00a0window\u00a0holds\u00a0100</" in to_html(over)  # on one line
    assert "holds" not in to_html(Budget(100, 53, 7))


def test_a_line_end_parts_no_dot_from_its_words() -> None:
    """The dot is text, made of blanks that glue, up to the first word; behind a box a line may end."""
    bar = Bar((Segment("a variable", "variable", 1), Segment("b", "reserved", 2)), 10)
    legend = page((bar,)).partition('class="lm-legend"')[2].partition("</p>")[0]
    dots = re.findall(r'<span style="[^"]*">(\s*)</span>(\s*)(\w+)', legend)
    assert dots == [("\u00a0" * 3, "\u00a0", "a"), ("\u00a0" * 3, "\u00a0", "b")]
    assert "inline-block" not in legend


def test_ranges_and_signed_numbers_are_not_broken() -> None:
    """A range stays on its line, and numbers with a sign stand flush right like those without."""
    rows = (("+0.02", "-0.05 to +0.09", "24% to 44%", "2 of 30"), ("-1.5", "0 to 1", "5% to 9%", "1 of 30"))
    html = to_html(Table(("a", "b", "c", "d"), rows))
    assert html.count('align="right"') == 3  # a column: its name and two cells
    cells = re.findall(r'<td style="([^"]*)"', html)
    assert [("right" in style, "nowrap" in style) for style in cells] == [
        (True, True),
        *[(False, True)] * 3,
    ] * 2


def test_a_difference_has_the_digits_that_a_few_rows_can_tell() -> None:
    """Two below 1, so that an interval stays on its line in a narrow window."""
    text = to_text(example_views()["pairs"])
    assert re.search(r" -0\.33 +-0\.53 to -0\.13 +0\.0021$", text, re.MULTILINE)


def test_what_shades_mean_is_true_in_both_themes() -> None:
    """A stronger shade is darker on a light page and lighter on a dark one: the key says neither."""
    for name in ("surprise", "answer with logprobs"):
        text = to_text(example_views()[name])
        assert "More colour is" in text
        assert "Darker" not in text


def test_a_head_says_the_same_in_all_formats() -> None:
    """A colon parts what it is from its details; a sentence to be read has the letters of one."""
    figures, sentence = Head("tokens", "4 of 5"), Head("predict", "Which?", sentence=True)
    for node, words in ((figures, "tokens: 4 of 5"), (sentence, "predict: Which?"), (Head("fit"), "fit")):
        html = page([node])
        assert text_fragment(node) == words
        assert re.sub(r"<[^>]+>", "", html).strip() == words
        assert markdown.fragment(node).replace("*", "") == words
        assert ("lm-dim" in html, "lm-line" in html) == (node is figures, node is sentence)


def test_parts_of_a_character_are_named_by_it() -> None:
    """Surprise and log-probabilities name tokens as the strip does, `🦕 1/2`; stray bytes stay bytes."""
    parts = [(b" \xf0\x9f", -1.0, 2), (b"\xa6\x95", -9.0, 50), (b"\xff", -2.0, 4)]
    tokens = [ReadToken(1, "x", None, None, None, bytes=b"x")]
    tokens += [ReadToken(i, "<0x>", p, rank, 1.0, bytes=data) for i, (data, p, rank) in enumerate(parts, 2)]
    html = bare(to_html(ReadThrough("x 🦕", tuple(tokens))))
    assert re.findall(r"<kbd[^>]*>([^<]+)", html) == ["x", "·🦕\u00a01/2", "·🦕\u00a02/2", "&lt;0x&gt;"]
    assert "“·🦕\u00a02/2”" in html
    logprobs = tuple(TokenLogprob(i, "\ufffd", p, bytes=data) for i, (data, p, _) in enumerate(parts[:2]))
    assert "·🦕\u00a02/2" in to_html(replace(completion("🦕"), logprobs=logprobs))
    assert named([("a", b"\xe3\x81"), ("⟦b⟧", b""), ("c", b"\x82")]) == ["a", "⟦b⟧", "c"]


def test_a_second_head_stands_apart() -> None:
    """What follows another view in the same output has room above its head; the first has none."""
    heads = re.findall(r'<p class="(lm-head[^"]*)" style="([^"]*)"', page([Head("a"), Head("b")]))
    assert [name for name, _ in heads] == ["lm-head", "lm-head lm-next"]
    assert ["margin:0;" in style for _, style in heads] == [True, False]


def bar_widths(budget: Budget, written: int) -> dict[str, list[float]]:
    """Return the widths in each bar of a gauge, in percent."""
    html = fragment(gauge.bar(gauge.ended(budget, written), written))
    bars = re.findall(r'<div class="(lm-bar|lm-whole)"[^>]*>(.*?)</div>', html)
    return {name: [float(width) for width in re.findall(r"width:([\d.]+)%", inner)] for name, inner in bars}


def test_what_ended_an_answer_is_said() -> None:
    """An answer that filled the window says that; one that was cut earlier names the limit."""
    answer = completion("One two", finish_reason="length")
    written = answer.usage.completion_tokens
    cut = dataclasses.replace(answer, budget=Budget(answer.usage.prompt_tokens + written + 1, 1, written))
    full = dataclasses.replace(answer, budget=Budget(answer.usage.prompt_tokens + written, 1, written))
    assert f"cut at max_tokens {written}" in to_text(cut)
    assert "the window is full" in to_text(full)
    assert "cut at" not in to_text(full)


def test_an_overflow_shows_what_fills_the_window() -> None:
    """The error's view names each part with its tokens, and both sentences of the error."""
    error = errors.ContextOverflowError(
        "4,310 tokens + 256 reserved, window 4,096: 470 too many.",
        prompt_tokens=4310,
        max_tokens=256,
        window=4096,
        parts=(
            ("template", 164),
            ("system", 61),
            ("{{ article }}", 3240),
            ("turns", 845),
            ("reserved answer", 256),
        ),
        remedy="Load with --ctx 8192.",
    )
    for text in (to_text(error), re.sub(r"</?span[^>]*>", "", to_html(error)).replace("\u00a0", " ")):
        for part in (
            "ContextOverflowError",
            "470 too many",
            "template 164",
            "{{ article }} 3,240",
            "--ctx 8192",
        ):
            assert part in text
        assert "reserved answer" not in text  # the bar has it once, with the colour of what is reserved
        assert "reserved 256" in text
    assert to_html(error).count(inline.declarations()["lm-k-variable"].rstrip(";")) == 2  # bar and legend


def test_an_error_that_was_caught_shows_itself_as_its_view() -> None:
    """IPython's own formatter finds the view: words and remedy, escaped; a repr has neither."""
    formatter = DisplayFormatter()
    caught = errors.OptionError("No <img src=x> in `a.txt`.", remedy="Write --file.")
    data, _ = formatter.format(caught)
    assert data["text/plain"] == "OptionError: No <img src=x> in `a.txt`.\nWrite --file."
    assert "&lt;img src=x&gt;" in data["text/html"]
    assert "<img" not in data["text/html"]
    stopped, _ = formatter.format(errors.GenerationInterrupted())
    assert stopped["text/plain"] == "Interrupted: nothing is kept."
    assert pickle.loads(pickle.dumps(caught)).remedy == "Write --file."


def test_an_object_without_a_view_is_shown_by_its_fields() -> None:
    """Nothing is ever shown as a bare repr where it has fields."""
    odd = dataclasses.make_dataclass("Odd", ["x"])
    assert re.search(r"Odd\nfield +value\nx +3", to_text(odd(3)))


def test_importing_the_package_brings_no_widgets_and_no_ipython() -> None:
    """`import llama_magic.display`, and showing a table, load no IPython, widgets, numpy, llama.cpp."""
    code = (
        "import sys, llama_magic.display as d\n"
        "from llama_magic.words.tables import Table\n"
        "Table(('a',), ((1,),))._repr_mimebundle_()\n"
        "heavy = ('IPython', 'ipywidgets', 'anywidget', 'numpy', 'llama_cpp')\n"
        "print([m for m in heavy if m in sys.modules])"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
        == "[]\n"
    )


def test_every_public_name_is_there() -> None:
    """`__all__` and what can be imported agree."""
    assert all(hasattr(display, name) for name in display.__all__)


def test_the_history_fits_a_terminal() -> None:
    """Prompt, answer and the rest stand side by side, each in lines of its own, and no line is longer."""

    long = "The answer goes on, and it goes on for more than a line of a terminal would hold."
    text = to_text([HistoryEntry(completion(long), number) for number in (1, 2)])
    assert max(len(line) for line in text.splitlines()) <= 80
    assert text.count("  The answer goes on, and ") == 2
    assert text.count("  18 tokens, chat, seed\n") == 2


def test_a_table_with_many_long_cells_is_told_row_by_row() -> None:
    """In 80 columns there is no room for four of them side by side."""
    names = ("prompt", "answer", "other", "how")
    text = to_text(
        Table(("#", *names), tuple((i, *(f"{name} {'word ' * 9}" for name in names)) for i in (1, 2)))
    )
    assert max(len(line) for line in text.splitlines()) <= 80
    assert text.count("\n  answer: answer word word") == 2


def test_names_and_values_stay_side_by_side() -> None:
    """A table of two columns is never taken apart: what is too wide for 80 columns goes on below."""
    speed = "at most about 170 tokens per second, from the arithmetic of this processor and its memory"
    rows = (("tokenizer.ggml.a_name_of_some_length", "v" * 70), ("general.name", speed), ("日本", "語" * 40))
    lines = display.to_text(Table(("key", "value"), rows)).splitlines()
    assert all(columns(line) <= 80 for line in lines)
    assert lines[1].startswith("tokenizer.ggml.a_name_of_some_length  vvv")
    assert "".join(lines[1:3]).count("v") == 70
    assert " ".join(line[38:].strip() for line in lines[3:6]) == speed
    assert "".join(lines[6:]).count("語") == 40


def test_a_long_path_is_whole() -> None:
    """A path in the last column is neither cut nor broken; beside it everything stands as it did."""
    path = "/models/" + "a/" * 60 + "m.gguf"
    headers = ("name", "state", "size", "window", "path")
    rows = (("m", "current", "98.4 MB", 2048, path), ("n", "on disk", "1 kB", None, "/n.gguf"))
    lines = display.to_text(Table(headers, rows)).splitlines()
    assert lines[1].endswith(f"2,048  {path}")
    assert len(lines) == 3
