"""GGUF headers: read, judged, put into plain words. Bounded and lazy; never reads weights.

`inspect` reads, `validate` refuses what llama.cpp could not load or would crash on, `findings` lists
what is merely odd, `validate_adapter` does for LoRA files what `validate` does for models.

- Read: `_open` goes from a path to a `GGUFInfo`. `_source` has the bytes, `_cursor` a place in them,
  `_parse` takes them apart by the tables of `_types`; `_arrays` and their `_strings` are read when asked
  for.
- Understood: `_info` is the header in plain words, of `_hparams`, `_tensors` and `_tokenizer`.
- Judged: `_validate`, `_validate_hparams`, `_validate_vocab` and `_adapter` by what llama.cpp knows
  (`_archs`), and one way to refuse (`_judge`); `_findings`.
- Told apart: `_fingerprint`; `_requantise` has one header stand for all quants of a model.
"""

from llama_magic.gguf._adapter import validate_adapter
from llama_magic.gguf._arrays import LazyArray
from llama_magic.gguf._findings import findings, special_ids
from llama_magic.gguf._fingerprint import fingerprint
from llama_magic.gguf._hparams import EMBEDDERS
from llama_magic.gguf._info import Finding, GGUFInfo
from llama_magic.gguf._open import inspect
from llama_magic.gguf._requantise import requantised
from llama_magic.gguf._source import ByteRanges, FileReader
from llama_magic.gguf._tensors import TensorInfo, Tensors
from llama_magic.gguf._types import row_bytes
from llama_magic.gguf._validate import validate

__all__ = [
    "EMBEDDERS",
    "ByteRanges",
    "FileReader",
    "Finding",
    "GGUFInfo",
    "LazyArray",
    "TensorInfo",
    "Tensors",
    "findings",
    "fingerprint",
    "inspect",
    "requantised",
    "row_bytes",
    "special_ids",
    "validate",
    "validate_adapter",
]
