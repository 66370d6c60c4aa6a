"""Looking at a model at work: tokens, a text read through, a token's road, the KV cache.

Each result is data first (frozen, with `to_pandas()` where it is a table); `llama_magic.display`
shows it. Knows the engine, not IPython.

- A text: `tokens` is the strip, `comparing` sets tokenizers side by side, `reading` says how likely each was.
- A draw: `tracer` traces a step of an answer by `walking` its logits through the chain. `tracing` is that as
  data, `drawing` many draws, `exploring` a move of the live view, `advice` what of a recipe does nothing.
- The cache: its `cells`, and a `savefile` for a sequence of them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from llama_magic.words.lazy import lazily

if TYPE_CHECKING:
    from llama_magic.microscope.advice import advise
    from llama_magic.microscope.cells import KVSequence, KVState, PrefixNode
    from llama_magic.microscope.comparing import TokenComparison, compare_tokens
    from llama_magic.microscope.drawing import DrawnOften, Draws
    from llama_magic.microscope.exploring import Move, describe, move, options_line
    from llama_magic.microscope.reading import ReadThrough, ReadToken
    from llama_magic.microscope.tracing import Drawn, SamplerTrace, TraceStage

__all__ = [
    "Drawn",
    "DrawnOften",
    "Draws",
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

__getattr__ = lazily(
    __name__,
    {
        "Drawn": "llama_magic.microscope.tracing",
        "DrawnOften": "llama_magic.microscope.drawing",
        "Draws": "llama_magic.microscope.drawing",
        "KVSequence": "llama_magic.microscope.cells",
        "KVState": "llama_magic.microscope.cells",
        "Move": "llama_magic.microscope.exploring",
        "PrefixNode": "llama_magic.microscope.cells",
        "ReadThrough": "llama_magic.microscope.reading",
        "ReadToken": "llama_magic.microscope.reading",
        "SamplerTrace": "llama_magic.microscope.tracing",
        "TokenComparison": "llama_magic.microscope.comparing",
        "TraceStage": "llama_magic.microscope.tracing",
        "advise": "llama_magic.microscope.advice",
        "compare_tokens": "llama_magic.microscope.comparing",
        "describe": "llama_magic.microscope.exploring",
        "move": "llama_magic.microscope.exploring",
        "options_line": "llama_magic.microscope.exploring",
    },
)
