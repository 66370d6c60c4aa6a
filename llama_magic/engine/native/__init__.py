"""The only package that imports `llama_cpp`: every C call passes here.

Return codes become exceptions of `llama_magic.errors`; pointers stay inside the classes
`Weights`, `Context`, `Vocab` and `SamplerChain`, which own them. There is no policy here:
what to decode, keep or drop is decided by `llama_magic.engine`.

- `weights` of a file and their `vocab`, with its `specials`; a `context` on them, whose batches are filled
  by `rows`; a `sampler`.
- `stopping` a decode; files that are `mapped`, and written over; `huge` pages for weights that are not; rows
  that are `alike` whatever is beside them.
- The library: `backend` starts it and keeps its log, `openmp` has its pools of threads, `spinning` says how
  these wait.
"""

# ruff: noqa: E402 - which library to load is settled before the first import of llama_cpp loads one
from llama_magic.engine import prebuilt

prebuilt.choose()

from llama_magic.engine.native.alike import RowByRow, rows_alike
from llama_magic.engine.native.backend import log_tail, system_report
from llama_magic.engine.native.context import Context, ContextOptions, DecodeStatus
from llama_magic.engine.native.openmp import release_pool
from llama_magic.engine.native.sampler import SamplerChain
from llama_magic.engine.native.stopping import StopFlag
from llama_magic.engine.native.vocab import Vocab
from llama_magic.engine.native.weights import Adapter, Weights, WeightsOptions

__all__ = [
    "Adapter",
    "Context",
    "ContextOptions",
    "DecodeStatus",
    "RowByRow",
    "SamplerChain",
    "StopFlag",
    "Vocab",
    "Weights",
    "WeightsOptions",
    "log_tail",
    "release_pool",
    "rows_alike",
    "system_report",
]
