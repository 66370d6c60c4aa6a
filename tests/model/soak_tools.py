"""100 calls (or as many as are named) of a named tool on each real model, streamed and not."""

from __future__ import annotations

import sys
from pathlib import Path

import llama_magic as lm

sys.path.insert(0, str(Path(__file__).parents[1]))
from conftest import REAL, real_path
from tool_calls import named_choices

COUNT = int(sys.argv[1]) if len(sys.argv) > 1 else 100

for name in REAL:
    with lm.load(real_path(name), ctx=2048, threads=1) as model:
        wrong = named_choices(model, COUNT)
    print(f"{name}: {COUNT - len(wrong)} of {COUNT} named choices were called, streamed and not")
    assert not wrong, "\n".join(wrong)
