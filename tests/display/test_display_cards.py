"""Model cards, headers, the history and answers as tables."""

from __future__ import annotations

import dataclasses
import re
from dataclasses import replace
from pathlib import Path

import gguf
import numpy as np
from display_answers import bare, completion

from llama_magic import display
from llama_magic.display import to_html, to_text
from llama_magic.display.live.progress import progress_nodes
from llama_magic.display.views.data import leaves
from llama_magic.display.views.model.model import ModelCard
from llama_magic.gguf import inspect
from llama_magic.microscope.reading import ReadThrough, ReadToken
from llama_magic.request.sampling import Sampling
from llama_magic.session import history
from llama_magic.session.history import HistoryEntry
from llama_magic.words.progress import Progress
from llama_magic.words.tables import Table


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
    """A step that was asked for has no ending, one token no speed, temperature 0 no seed that nobody gave."""
    answer = completion("Yes.", mode="xray", finish_reason="length", n=1)
    table = history.table([HistoryEntry(answer, 1)])
    row = dict(zip(table.headers, table.rows[0], strict=True))
    assert (row["mode"], row["ended"], row["tok/s"]) == ("xray", "", None)
    stopped = history.table([HistoryEntry(dataclasses.replace(answer, finish_reason="interrupted"), 1)])
    assert "interrupted" in stopped.rows[0]
    for temperature, seeded, seed in ((0, False, ""), (0, True, "5"), (0.5, False, "5")):
        sampling = Sampling(temperature=temperature)
        made = dataclasses.replace(answer, seed=5, seeded=seeded, sampling=sampling)
        assert history.table([HistoryEntry(made, 1)]).rows[0][table.headers.index("seed")] == seed


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
