"""Weights, contexts, sequences, sampling, text: one thread decodes every request together.

Knows nothing of messages, schemas or IPython. `native` is the only part that imports `llama_cpp`.
"""

from __future__ import annotations

from typing import Any


def system_report() -> dict[str, Any]:
    """Return versions and build features of llama.cpp; loads it if it is not loaded yet."""
    from llama_magic.engine.native import system_report as report

    return report()


def pools() -> tuple[str, bool]:
    """Return whose OpenMP llama.cpp uses, and whether idle threads of it slow down who computes."""
    from llama_magic.engine.native import backend

    return backend.pools()
