"""Each thing has one view, and its words and numbers are right in every format."""

from __future__ import annotations

import dataclasses
import itertools
import math
import pickle
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from display_answers import bare, completion
from example_views import example_views
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.formatters import DisplayFormatter

from llama_magic import display, errors
from llama_magic.display import to_html, to_markdown, to_text
from llama_magic.display.live.progress import progress_nodes
from llama_magic.display.static import inline, markdown
from llama_magic.display.static.doc import Bar, Grid, Head, Segment
from llama_magic.display.static.html import fragment, page
from llama_magic.display.static.text import columns
from llama_magic.display.static.text import fragment as text_fragment
from llama_magic.display.views import gauge
from llama_magic.display.views.data import leaves
from llama_magic.display.views.model.model import ModelCard
from llama_magic.display.views.model.results import after
from llama_magic.gguf import inspect
from llama_magic.microscope.reading import ReadThrough, ReadToken
from llama_magic.microscope.tokens import TokenPiece, TokenStrip, named
from llama_magic.microscope.tracing import Drawn, SamplerTrace, TraceStage
from llama_magic.model.results import Budget, BudgetPart, TokenLogprob
from llama_magic.request.sampling import Sampling
from llama_magic.session import history
from llama_magic.session.history import HistoryEntry
from llama_magic.words.progress import Progress
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


def test_a_token_strip_shows_blanks_control_tokens_ids_and_count() -> None:
    """Without colour, each token is a key of its own, control tokens are named and blanks are dots."""
    tokens = [("<|im_start|>", 1, True), ("user", 9690, False), ("\n", 198, False), (" to", 288, False)]
    strip = TokenStrip("", tuple(TokenPiece(i, t, t.encode(), s) for t, i, s in tokens))
    assert to_text(strip).startswith(
        "tokens: 4 tokens, 1 control token among them ⟦…⟧\n⟦<|im_start|>⟧│user│↵\n·to"
    )
    html = to_html(strip)
    below = "<sub> {}</sub></kbd>".format
    assert f"<kbd>⟦&lt;|im_start|&gt;⟧{below(1)} <kbd>user{below(9690)}<wbr><kbd>↵{below(198)}<br>" in bare(
        html
    )
    assert re.search(r"2 +9690 +user +75 73 65 72$", to_text(strip), re.MULTILINE)
    assert re.search(r'<kbd class="lm-c" style="[^"]*dashed[^"]*" title="id 1">', html)
    assert "9690" in to_markdown(strip)


def test_a_line_of_tokens_ends_behind_one() -> None:
    """In a terminal too: no token is torn, and a line break that was written begins a line."""
    words = [" capital"] * 30 + ["\n"] + [" x"] * 60
    strip = TokenStrip("", tuple(TokenPiece(i, t, t.encode(), False) for i, t in enumerate(words)))
    lines = to_text(strip).partition("\nplace, id")[0].splitlines()[1:]
    assert [piece for line in lines for piece in line.split("│")] == [
        "·capital" if word == " capital" else "↵" if word == "\n" else "·x" for word in words
    ]
    assert max(map(len, lines)) <= 100
    assert sum(line.endswith("↵") for line in lines) == 1


def test_no_line_of_a_cell_ends_in_a_number_or_a_quote() -> None:
    """A long cell is broken behind blanks and dots, but not at those of 15.75 and of “.”."""
    for shift in range(30):
        cell = "y" * shift + " · “.” 15.75% · “,” 1,000" * 4
        lines = text_fragment(Grid(Table(("", "long"), (("k", cell),)))).splitlines()
        assert len(lines) == 3
        assert set(" ".join(lines).split()) <= {
            "long",
            "k",
            "y" * shift,
            "·",
            "“.”",
            "15.75%",
            "“,”",
            "1,000",
        }


def test_a_read_through_counts_in_bits() -> None:
    """Surprise is -log2 p, perplexity 2 to its mean; the worst token comes first."""
    first = ReadToken(1, "x", None, None, None)
    likely = ReadToken(2, " a", math.log(0.5), 1, 1.0, ((" a", 0.5), (" d", 0.25)))
    rare = ReadToken(3, " b", math.log(1 / 8), 7, 1.0, ((" c", 0.5),))
    text = to_text(ReadThrough("x a b", (first, likely, rare)))
    assert "3 tokens · 4.0 bits · 2.00 bits a token · perplexity 4.00" in text
    assert text.splitlines()[-1].split() == ["3", "“·b”", "3.0", "7", "“·c”", "50%"]  # rank 1 is no surprise
    assert "“·a”" not in text


def test_a_text_that_cannot_be_has_an_endless_perplexity() -> None:
    """Weights that are damaged give such; two to so many bits is more than a number holds."""
    for logprob in (-1e4, -math.inf):
        second = ReadToken(2, " a", logprob, 9, 1.0)
        read = ReadThrough("x a", (ReadToken(1, "x", None, None, None), second))
        assert read.perplexity == math.inf
        assert "perplexity inf" in to_text(read)
        assert "perplexity inf" in to_html(read)


def test_logprobs_are_shown_with_what_else_was_likely() -> None:
    """Each token with its probability where it was unsure and its place, as people and as Python count; the
    least sure with their alternatives."""
    text = to_text(example_views()["answer with logprobs"])
    assert re.search(r"place +token +probability +also likely\n +1 +“·Lyon” +8.0% +“·Paris” 71%", text)
    html = to_html(example_views()["answer with logprobs"])
    assert "<sub> 8.0%</sub>" in bare(html)
    assert (
        "token 1 (step 0), 8.0%" in html
    )  # as the pen and the x-ray count, with the number that `xray` takes
    assert "how sure" not in to_text(completion("Lyon"))


def test_a_continuation_names_what_it_goes_on_from() -> None:
    """The end of the prompt stands before the text, told apart from it."""
    text = to_text(example_views()["continued"]).splitlines()
    assert text[1:3] == ["after “<|im_start|>user↵Hi<|im_end|>↵”", " upon a time"]
    assert after("complete", "unheard " + "of " * 66) == f"after “…{' of' * 66} ”"  # from a word on
    assert (
        after("complete", "cut " + "x" * 197 + " end") == f"after “…{'x' * 196} end”"
    )  # where one begins soon


def test_parts_of_a_character_say_so() -> None:
    """Three tokens that make one emoji together are 1/3 to 3/3 of it; bytes that are no text stay bytes."""
    parts = [b" \xf0\x9f", b"\xa6", b"\x95", b"a", b"\xff", b"b"]
    pieces = [TokenPiece(i, "".join(f"<0x{b:02X}>" for b in p), p, False) for i, p in enumerate(parts)]
    strip = TokenStrip(
        "", tuple(replace(p, text=p.bytes.decode()) if p.bytes in (b"a", b"b") else p for p in pieces)
    )
    assert "·🦕\u00a01/3│·🦕\u00a02/3│·🦕\u00a03/3│a│<0xFF>│b" in to_text(strip)


def test_a_sampler_trace_says_who_was_cut() -> None:
    """Candidates are columns and stages rows; who is cut has a dash, who is drawn a ring and its rank."""
    nothing: Any = ()  # ids, logits and probabilities of the survivors are not shown
    first = TraceStage(
        "logits", {}, 49152, 4.31, 1.0, ((" door", 0.5), (" gate", 0.25)), nothing, nothing, nothing
    )
    last = TraceStage("min_p", {"min_p": 0.05}, 1, 0.0, 0.5, ((" door", 1.0),), nothing, nothing, nothing)
    text = to_text(SamplerTrace((first, last), Drawn(7, " door", 1.0), 0, 1, Sampling()))
    assert "x-ray: drawn: “·door” · token 1" in text
    assert re.search(r"stage +left +bits +◉ ·door +·gate\n", text)
    assert re.search(r"logits +49,152 +4.31 +50% +25%\n", text)
    assert re.search(r"min_p 0.05 +1 +0.00 +100% +–\n", text)
    assert "◉ ·door: drawn; for the model itself, before any stage, it is rank 1, at 50%" in text
    assert "min_p: drops those far less likely than the likeliest" in text


def test_a_model_card_puts_foretold_and_used_memory_side_by_side() -> None:
    """The card has size, quantisation, context, template and both memory figures."""
    card = ModelCard(
        name="smollm2",
        architecture="llama",
        n_params=134_515_008,
        quantisation="Q4_1",
        file_size=92_100_000,
        window=2048,
        trained_context=8192,
        formatter="chatml",
        predicted_bytes=201_000_000,
        actual_bytes=205_500_000,
        notes=(),
    )
    text = to_text(card)
    for words in (
        "135 M",
        "Q4_1",
        "92.1 MB",
        "2,048 tokens (trained for 8,192)",
        "chatml",
        "201 MB",
        "206 MB",
    ):
        assert words in text
    assert "more from then on" not in text
    to_come = to_text(replace(card, seeded_bytes=101_000_000, prompt_reader_bytes=20_900_000))
    assert re.search(r"with a seed +101 MB more from then on, at temperature 0 too\n", to_come)
    assert re.search(r"with many at once +20\.9 MB more from then on\n?$", to_come, re.MULTILINE)


def test_long_lists_of_a_header_are_brief_in_text_and_whole_in_html(tmp_path: Path) -> None:
    """A terminal is not flooded by 300 tensors; the saved HTML folds them away, what is alike once."""
    writer = gguf.GGUFWriter(tmp_path / "x.gguf", "llama")
    for i in range(300):
        writer.add_tensor(f"blk.{i}.q", np.zeros((192, 576 if i in (7, 9) else 64), np.float32))
        writer.add_tensor(f"rope_{i}", np.zeros(8, np.float32))
    for step in ("header", "kv_data", "ti_data"):  # a header without its data is enough to be inspected
        getattr(writer, f"write_{step}_to_file")()
    writer.close()
    info = inspect(tmp_path / "x.gguf")
    text = to_text(info)
    assert "tensors (600)" in text
    assert "rope_5 " in text
    assert "rope_299" not in text
    assert "more lines" in text
    html = bare(to_html(info))
    assert "<td>rope_299</td><td>8</td><td>F32</td><td>32</td>" in html
    assert "blk.0 to 6, 8, 10 to 299: 298 blocks alike, 1 tensor each, 14.6 MB" in html
    assert "blk.7, 9: 2 blocks alike, 1 tensor each, 885 kB" in html
    assert "<td>blk.*.q</td><td>576 × 192</td><td>F32</td><td>442,368</td>" in html


def test_the_sampler_chain_is_shown_in_its_order() -> None:
    """Stages are numbered in the order in which they run, with their parameters."""
    text = to_text(Sampling(samplers=("temperature", "top_k")))
    assert re.search(r"1  temperature +temperature 0.8.*\n.*2  top_k +top_k 40", text)


def test_history_lists_what_was_asked_and_answered() -> None:
    """Prompt, answer and seed of an entry stand in one row, and pandas takes the table over."""
    entry = HistoryEntry(
        completion(
            "Yes.", messages=({"role": "user", "content": "Is it?"}, {"role": "assistant", "content": "Yes."})
        ),
        1,
    )
    table = display.mimebundle([entry])["text/plain"]
    assert re.search(r"Is it\? +Yes\. +1 token, chat, smollm2, seed 42", table)


def test_the_history_leaves_out_what_means_nothing() -> None:
    """A step that was asked for has no ending; one token has no speed."""
    answer = completion("Yes.", mode="xray", finish_reason="length", n=1)
    table = history.table([HistoryEntry(answer, 1)])
    row = dict(zip(table.headers, table.rows[0], strict=True))
    assert (row["mode"], row["ended"], row["tok/s"]) == ("xray", "", None)
    stopped = history.table([HistoryEntry(dataclasses.replace(answer, finish_reason="interrupted"), 1)])
    assert "interrupted" in stopped.rows[0]


def test_one_token_has_no_surprise() -> None:
    """Nothing is measured of it: no bits, no perplexity, and words that say so."""
    token = ReadToken(1, "a", None, None, None)
    text = to_text(ReadThrough("a", (token,)))
    assert "surprise: 1 token\n" in text
    assert "Nothing was measured" in text
    assert "1.00" not in text


def test_tables_go_to_pandas_with_their_types() -> None:
    """Numbers stay numbers and headers become columns."""
    frame = Table(("name", "n"), (("a", 1), ("b", 2))).to_pandas()
    assert list(frame.columns) == ["name", "n"]
    assert frame["n"].sum() == 3


def test_wide_characters_keep_columns_straight() -> None:
    """A CJK character takes two columns of a terminal."""
    lines = to_text(Table(("a", "b"), (("漢字", 1), ("abcd", 2)))).splitlines()
    assert lines[1] == "漢字  1"
    assert lines[2] == "abcd  2"


def test_structured_answers_are_tables_of_their_fields() -> None:
    """Nested fields are paths, and the JSON is kept behind a fold."""
    r = completion(
        '{"name": "Ada"}',
        mode="structured",
        parsed={"name": "Ada", "tags": ["x", "y"], "home": {"zip": None}},
    )
    assert "<td>tags[1]</td><td>y</td>" in bare(to_html(r))
    assert leaves({"a": True, "b": [], "c": {}}) == [("a", "true"), ("b", "[]"), ("c", "{}")]
    assert "home.zip  null" in to_text(r)


def test_a_download_says_bytes_speed_time_left_and_where_it_went_on() -> None:
    """All four are in the words, not in the bar alone."""
    head = progress_nodes(
        Progress("download", 50_000_000, 100_000_000, "x.gguf", "B", 20_000_000, 5e6, 10.0)
    )[0]
    assert head.details == "x.gguf · 50 MB of 100 MB · 50% · 5 MB/s · 10 s left · resumed at 20 MB"


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


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_colours_are_of_marks_and_seen_on_both_themes() -> None:
    """WCAG 2.1: a mark has 3 : 1 on white, black and the grounds between; no text has a colour of ours."""
    css = (Path(display.__file__).parent / "static" / "base.css").read_text()
    colours = dict(re.findall(r"--lm-([\w-]+): (#\w{6});", css))
    assert len(colours) == 7
    for name, colour in colours.items():
        for ground in ("#ffffff", "#111111", "#1e1e1e", "#0d1117"):
            assert _contrast(colour, ground) >= 3, (name, ground)
    assert set(re.findall(r"[{; ]color: ([^;]+);", css)) == {"inherit"}


# Machado, Oliveira and Fernandes 2009, severity 1: what is seen of linear RGB.
_BLIND = {
    "deuteranopia": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    "protanopia": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
}


def _seen(colour: str, by: str) -> tuple[float, float, float]:
    """Return a colour in CIELAB as somebody sees it who has one kind of cones less."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    seen = [max(0.0, sum(map(math.prod, zip(row, linear, strict=True)))) for row in _BLIND[by]]
    to_xyz = ((0.434, 0.376, 0.190), (0.213, 0.715, 0.072), (0.018, 0.109, 0.873))  # 1, 1, 1 for white
    x, y, z = (math.cbrt(sum(map(math.prod, zip(row, seen, strict=True)))) for row in to_xyz)
    return 116 * y, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("by", _BLIND)
def test_who_is_red_green_blind_tells_the_parts_of_a_gauge_apart(by: str) -> None:
    """In CIELAB any two are 15 apart; template and user, system and answer were 2."""
    css = (Path(display.__file__).parent / "static" / "base.css").read_text()
    marks = [colour for name, colour in re.findall(r"--lm-(\w+): (#\w{6});", css) if name != "bad"]
    assert len(marks) == 6
    for one, other in itertools.combinations(marks, 2):
        assert math.dist(_seen(one, by), _seen(other, by)) >= 15, (one, other)


def test_the_history_fits_a_terminal() -> None:
    """Prompt, answer and the rest stand side by side, each in lines of its own, and no line is longer."""
    from llama_magic.session.history import HistoryEntry

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
