"""Many answers as one value.

Users call `map`, `sweep`, `decide` and `bench`; and, of answers that there are, `vote`, `tree`, `rerun`,
`verify` and `diff` (`difference`).

- The arguments: `plan` reads them into `rows`, `prompts`, `settings` (every combination of the axes),
  `models` and scores (`scoring`); `caller` knows the line that called.
- At work: an `experiment` carries out its `tasks`; `generation` (of map and sweep) and `deciding` are its
  kinds, `scheduler` keeps the backend busy, `standing` says how far it is, `forecast` is the dry run.
- What comes back: `results`, of which `runs` and `odds` are the kinds; `answers` makes plain data of one.
- Its figures: `comparing` (summaries, pairs), `agreement`, `calibration`, over `statistics`.
- Answers in files: `saved_answers` reads them, `finding` says which model made one.
"""

from llama_magic.experiments.bench import Bench, bench
from llama_magic.experiments.decide import decide
from llama_magic.experiments.difference import Difference, diff
from llama_magic.experiments.map import map
from llama_magic.experiments.odds import Decision, Odds
from llama_magic.experiments.rerun import rerun
from llama_magic.experiments.runs import Run, Runs
from llama_magic.experiments.sweep import sweep
from llama_magic.experiments.tree import Tree, tree
from llama_magic.experiments.verify import Verification, verify
from llama_magic.experiments.vote import Vote, vote

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
