"""Looking at a model at work: tokens, a text read through, a token's road, the KV cache.

Each result is data first (frozen, with `to_pandas()` where it is a table); `llama_magic.display`
shows it. Knows the engine, not IPython.
"""

from __future__ import annotations

from llama_magic.microscope.advice import advise
from llama_magic.microscope.cells import KVSequence, KVState, PrefixNode
from llama_magic.microscope.comparing import TokenComparison, compare_tokens
from llama_magic.microscope.exploring import Move, describe, move, options_line
from llama_magic.microscope.reading import ReadThrough, ReadToken
from llama_magic.microscope.tracing import Drawn, SamplerTrace, TraceStage

__all__ = [
    "Drawn",
    "KVSequence",
    "KVState",
    "Move",
    "PrefixNode",
    "ReadThrough",
    "ReadToken",
    "SamplerTrace",
    "TokenComparison",
    "TraceStage",
    "advise",
    "compare_tokens",
    "describe",
    "move",
    "options_line",
]
