"""GGUF headers: read, judged, put into plain words. Bounded and lazy; never reads weights.

`inspect` reads, `validate` refuses what llama.cpp could not load or would crash on, `findings` lists
what is merely odd, `validate_adapter` does for LoRA files what `validate` does for models.
"""

from llama_magic.gguf._adapter import validate_adapter
from llama_magic.gguf._arrays import LazyArray
from llama_magic.gguf._findings import findings
from llama_magic.gguf._fingerprint import fingerprint
from llama_magic.gguf._hparams import EMBEDDERS
from llama_magic.gguf._info import Finding, GGUFInfo
from llama_magic.gguf._open import inspect
from llama_magic.gguf._requantise import requantised
from llama_magic.gguf._source import FileReader, RangeReader
from llama_magic.gguf._tensors import TensorInfo, Tensors
from llama_magic.gguf._validate import validate

__all__ = [
    "EMBEDDERS",
    "FileReader",
    "Finding",
    "GGUFInfo",
    "LazyArray",
    "RangeReader",
    "TensorInfo",
    "Tensors",
    "findings",
    "fingerprint",
    "inspect",
    "requantised",
    "validate",
    "validate_adapter",
]
