"""Many answers as one value.

Users call `map`, `sweep`, `decide` and `bench`; and, of answers that there are, `vote`, `tree`, `rerun`,
`verify` and `diff`. No file has the name of a function, so that `llama_magic.experiments.map` is one thing:

- The calls: `map` is in `each_row`, `sweep` in `combinations`, `decide` in `choice`, `bench` in `throughput`;
  their twins for `await` in `awaited`;
  `vote` in `ballot`, `tree` in `branches`, `diff` in `difference` (of runs: `changes`), `rerun` in `repeat`,
  `verify` in `verification`.
- The arguments: `design` reads them into `rows`, `prompts`, `settings` (every combination of the axes),
  `models` and scores (`scoring`); `caller` knows the line that called.
- At work: an `experiment` carries out its `tasks`; `generation` (of map and sweep) and `deciding` are its
  kinds, `scheduler` keeps the backend busy, `forecast` is the dry run; `protocols` is what all of them ask.
- What comes back: `results`, of which `runs` and `odds` are the kinds; `answers` makes plain data of one.
- Its figures: `comparing` (summaries, pairs), `agreement`, `calibration`, over `statistics`; `axes` finds
  what they are asked for by name.
- Answers in files: `saved_answers` reads them, `finding` says which model made one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llama_magic.words.lazy import lazily

if TYPE_CHECKING:
    from llama_magic.experiments.awaited import adecide, amap, asweep
    from llama_magic.experiments.ballot import Vote, vote
    from llama_magic.experiments.branches import Tree, tree
    from llama_magic.experiments.choice import decide
    from llama_magic.experiments.combinations import sweep
    from llama_magic.experiments.difference import Difference, diff
    from llama_magic.experiments.each_row import map
    from llama_magic.experiments.odds import Decision, Odds
    from llama_magic.experiments.repeat import rerun
    from llama_magic.experiments.runs import Run, Runs
    from llama_magic.experiments.throughput import Bench, bench
    from llama_magic.experiments.verification import Verification, verify

__all__ = [
    "Bench",
    "Decision",
    "Difference",
    "Odds",
    "Run",
    "Runs",
    "Tree",
    "Verification",
    "Vote",
    "adecide",
    "amap",
    "asweep",
    "bench",
    "decide",
    "diff",
    "map",
    "rerun",
    "sweep",
    "tree",
    "verify",
    "vote",
]

__getattr__ = lazily(
    __name__,
    {
        "Bench": "llama_magic.experiments.throughput",
        "Decision": "llama_magic.experiments.odds",
        "Difference": "llama_magic.experiments.difference",
        "Odds": "llama_magic.experiments.odds",
        "Run": "llama_magic.experiments.runs",
        "Runs": "llama_magic.experiments.runs",
        "Tree": "llama_magic.experiments.branches",
        "Verification": "llama_magic.experiments.verification",
        "Vote": "llama_magic.experiments.ballot",
        "adecide": "llama_magic.experiments.awaited",
        "amap": "llama_magic.experiments.awaited",
        "asweep": "llama_magic.experiments.awaited",
        "bench": "llama_magic.experiments.throughput",
        "decide": "llama_magic.experiments.choice",
        "diff": "llama_magic.experiments.difference",
        "map": "llama_magic.experiments.each_row",
        "rerun": "llama_magic.experiments.repeat",
        "sweep": "llama_magic.experiments.combinations",
        "tree": "llama_magic.experiments.branches",
        "verify": "llama_magic.experiments.verification",
        "vote": "llama_magic.experiments.ballot",
    },
)
