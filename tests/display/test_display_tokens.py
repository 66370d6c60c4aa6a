"""Tokens, read texts and sampler traces as they are shown."""

from __future__ import annotations

import math
import re
from dataclasses import replace
from typing import Any

from display_answers import bare, completion
from example_views import example_views

from llama_magic.display import to_html, to_markdown, to_text
from llama_magic.display.static.doc import Grid
from llama_magic.display.static.text import fragment as text_fragment
from llama_magic.display.views.model.results import after
from llama_magic.microscope.reading import ReadThrough, ReadToken
from llama_magic.microscope.tokens import TokenPiece, TokenStrip
from llama_magic.microscope.tracing import Drawn, SamplerTrace, TraceStage
from llama_magic.request.sampling import Sampling
from llama_magic.words.tables import Table


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
    assert "x-ray: drawn: “·door”, token 1" in text
    assert re.search(r"stage +left +bits +◉ ·door +·gate\n", text)
    assert re.search(r"logits +49,152 +4.31 +50% +25%\n", text)
    assert re.search(r"min_p 0.05 +1 +0.00 +100% +–\n", text)
    assert "◉ ·door: drawn; for the model itself, before any stage, it is rank 1, at 50%" in text
    assert "min_p: drops those far less likely than the likeliest" in text
