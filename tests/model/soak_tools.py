"""100 calls of a named tool on each real model, streamed and not: none is anything else."""

from __future__ import annotations

import sys
from pathlib import Path

import llama_magic as lm

sys.path.insert(0, str(Path(__file__).parents[1]))
from conftest import REAL, real_path
from tool_calls import named_choices

for name in REAL:
    with lm.load(real_path(name), ctx=2048, threads=1) as model:
        wrong = named_choices(model, 100)
    print(f"{name}: {100 - len(wrong)} of 100 named choices were called, streamed and not")
    assert not wrong, "\n".join(wrong)
