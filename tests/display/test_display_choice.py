"""Plans, dry runs and comparisons as documents."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

from llama_magic.display import mimebundle, to_html, to_text
from llama_magic.fit import Machine, Speed
from llama_magic.gguf import inspect
from llama_magic.loading.compare import Comparison, Quant
from llama_magic.loading.plan import Plan

SPEED = Speed(123.4, 10**9, 0, "memory bandwidth", 1.2e11, 4)


def test_a_plan_ends_in_the_line_to_paste() -> None:
    """Window, memory, speed; a full window is named where it slows by more than a tenth."""
    plan = Plan("m", 8192, "q8_0", 4_000_000_000, 16384, True, SPEED, Speed(99.0, 1, 1, "arithmetic", 1, 4))
    text = to_text(plan)
    assert re.search(r"fits here +4 GB with a window of 8,192 tokens", text)
    assert re.search(r"longest window +16,384 tokens fit", text)
    assert re.search(r"speed +at most about 120 tokens per second, from memory bandwidth\n", text)
    assert re.search(r"with a full window +about 99 tokens per second", text)
    assert text.endswith("lm.load('m', ctx=8192, kv_type='q8_0')")
    steady = Plan("m", 8192, "f16", 10**9, 8192, True, SPEED, SPEED)
    assert "full window" not in to_text(steady)


def test_a_header_and_its_plan_are_one_table(scripted_file: Any) -> None:
    """Two below each other would have columns of their own; the line to paste and the folds come after."""
    plan = Plan("m", 8192, "q8_0", 4_000_000_000, 16384, True, SPEED, SPEED)
    info = inspect(scripted_file.path)
    info.plan = plan
    html = to_html(info)
    seen, _, folds = html.partition("<details")
    assert seen.count("<table") == 1
    assert seen.index("architecture") < seen.index("fits here") < seen.index("lm.load(")
    assert folds
    info.plan = Plan("m", 256, "q8_0", 10**9, 0, False, why="Does not fit: the model needs more.")
    assert "Does not fit" in to_text(info)


def test_a_plan_that_does_not_fit_is_its_reason() -> None:
    """No line to paste is offered."""
    plan = Plan("m", 256, "q8_0", 10**9, 0, False, why="Does not fit: the model needs more.")
    assert to_text(plan) == "Does not fit: the model needs more."
    assert "lm-warn" in to_html(plan)


def test_a_comparison_is_one_row_a_quant() -> None:
    """What is unknown is a dash or said so; a line that would fail is not offered. The window that memory is
    foretold for is said once, or beside each where there are several, on one line."""
    rows = (
        Quant("Q4_0", ("a.gguf",), 10**9, 4.5, 2 * 10**9, 8192, 8192, True, 12.34, "%llama load A"),
        Quant(
            "Q8_0", ("b-1.gguf", "b-2.gguf"), 2 * 10**9, 8.5, None, None, None, False, 1.0, "%llama load B"
        ),
        Quant("F16", ("c.gguf",), None, None, None, None, None, None, None, "%llama load C", True),
    )
    machine = Machine(2, 4, 8 * 10**9, 4 * 10**9)
    found = Comparison("o/r", rows, "Take Q4_0.", machine, rows[0], ("a <note>",))
    text = to_text(found)
    assert "quants: hf:o/r · 2 cores (4 threads), 4 GB of 8 GB RAM free" in text
    assert re.search(r"Q4_0 +a.gguf +1 GB +4.50 +2 GB +8,192 +yes +12\n", text)
    assert "  memory at 8,192  " in text
    two = replace(found, rows=(rows[0], replace(rows[1], memory=3 * 10**9, window=4096)))
    assert re.search(r"4.50 +2 GB at 8,192 .*\n.* 3 GB at 4,096 ", to_text(two))
    assert "2\u00a0GB\u00a0at\u00a08,192" in to_html(two)
    assert re.search(r"Q8_0 +b-1.gguf \(2 parts\) +2 GB +8.50 +– +– +no +1\n", text)
    assert re.search(r"F16 +c.gguf, here +unknown +– +– +– +– +–\n", text)
    assert "Take Q4_0.\n%llama load A\n" in text
    assert "%llama load C" in text
    assert "%llama load B" not in text
    assert "a &lt;note&gt;" in to_html(found)
    assert set(mimebundle(found)) == {"text/plain", "text/html"}
