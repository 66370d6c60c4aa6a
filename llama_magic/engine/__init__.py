"""Weights, contexts, sequences, sampling, text: one thread decodes every request together.

Knows nothing of messages, schemas or IPython. `native` is the only part that imports `llama_cpp`.
"""

from __future__ import annotations

from typing import Any


def system_report() -> dict[str, Any]:
    """Return versions and build features of llama.cpp; loads it if it is not loaded yet."""
    from llama_magic.engine.native import system_report as report

    return report()
