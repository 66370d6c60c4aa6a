"""Weights, contexts, sequences, sampling, text: one thread decodes every request together.

Knows nothing of messages, schemas or IPython. `native` is the only part that imports `llama_cpp`.

- The Backend is `engine`; behind it `compute` is the one thread, `core` what it works on, a `job` a request
  on its way. `lanes/` decode, `kv/` keeps prefixes, `contexts` says which contexts there are.
- Beside it: `side` contexts, for `embedding` and `scoring/`; `moves` of whole sequences, a `snapshot` of
  the caches.
- Kept or done ahead: `steps` (logits), `segments` (tokens of texts that come again), `ahead` (masks).
- Text: `vocabulary`. The library: `build`, `prebuilt`. A file is tried first: `crash_check`, in a
  `trial_child`, whose `trial_ends` say what became of it; `row_trials` remember whether rows are alike.
"""

from __future__ import annotations

from typing import Any


def system_report() -> dict[str, Any]:
    """Return versions and build features of llama.cpp; loads it if it is not loaded yet."""
    from llama_magic.engine.native import system_report as report

    return report()


def pools() -> tuple[str, bool]:
    """Return whose OpenMP llama.cpp uses, and whether idle threads of it slow down who computes."""
    from llama_magic.engine.native import openmp

    return openmp.pools()
