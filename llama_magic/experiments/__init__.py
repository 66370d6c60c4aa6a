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

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llama_magic.experiments.bench import Bench as Bench
    from llama_magic.experiments.bench import bench as bench
    from llama_magic.experiments.decide import decide as decide
    from llama_magic.experiments.difference import Difference as Difference
    from llama_magic.experiments.difference import diff as diff
    from llama_magic.experiments.map import map as map
    from llama_magic.experiments.odds import Decision as Decision
    from llama_magic.experiments.odds import Odds as Odds
    from llama_magic.experiments.rerun import rerun as rerun
    from llama_magic.experiments.runs import Run as Run
    from llama_magic.experiments.runs import Runs as Runs
    from llama_magic.experiments.sweep import sweep as sweep
    from llama_magic.experiments.tree import Tree as Tree
    from llama_magic.experiments.tree import tree as tree
    from llama_magic.experiments.verify import Verification as Verification
    from llama_magic.experiments.verify import verify as verify
    from llama_magic.experiments.vote import Vote as Vote
    from llama_magic.experiments.vote import vote as vote

_FILES = {
    "Bench": "bench",
    "Decision": "odds",
    "Difference": "difference",
    "Odds": "odds",
    "Run": "runs",
    "Runs": "runs",
    "Tree": "tree",
    "Verification": "verify",
    "Vote": "vote",
    "bench": "bench",
    "decide": "decide",
    "diff": "difference",
    "map": "map",
    "rerun": "rerun",
    "sweep": "sweep",
    "tree": "tree",
    "verify": "verify",
    "vote": "vote",
}

__all__ = [*_FILES]  # noqa: PLE0604 - texts, all of them


class _Room(ModuleType):
    """This room: a public name is what its file calls so, also where the file has the same name.

    The file is read when the name is asked for: a view of one experiment is no reason to load all of them.
    """

    def __getattribute__(self, name: str) -> Any:
        if name not in _FILES:
            return super().__getattribute__(name)
        return getattr(importlib.import_module(f"{__name__}.{_FILES[name]}"), name)


sys.modules[__name__].__class__ = _Room
