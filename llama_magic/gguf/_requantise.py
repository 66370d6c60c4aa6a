"""One header for all quantisations of a model: they differ in the bytes of their tensors, not in shape."""

from __future__ import annotations

import copy
import re
from dataclasses import replace
from types import MappingProxyType

from llama_magic.gguf._info import GGUFInfo
from llama_magic.gguf._tensors import Tensors
from llama_magic.gguf._types import FILE_TYPES, TYPE_BY_NAME

_OTHER_NAMES = {"FP16": "F16", "FP32": "F32", "MXFP4_MOE": "MXFP4", "Q2_K_S": "Q2_K", "IQ3_XS": "IQ3_S"}


def requantised(info: GGUFInfo, quant: str, file_size: int) -> GGUFInfo:
    """Return the header as it would be in another quantisation of the same model, `file_size` bytes long.

    The weights' bytes are shared out as in `info`, and all of them get the type that `quant` (`Q4_K_M`) is
    named for: good for sums over the file, not for single tensors.
    """
    made = copy.copy(info)
    made.__dict__.pop("quantisation_mix", None)
    kind = _main_type(quant)
    fixed = sum(t.n_bytes for t in info.tensors.values() if len(t.shape) < 2)
    total = max(0, file_size - info.header_bytes)
    factor = max(0, total - fixed) / max(1, info.tensor_bytes - fixed)
    made.tensors = Tensors([
        t if len(t.shape) < 2 else replace(t, type=kind, n_bytes=round(t.n_bytes * factor))
        for t in info.tensors.values()
    ])  # fmt: skip
    made.file_size = file_size
    number = next((n for n, name in FILE_TYPES.items() if name == quant.removeprefix("UD-")), None)
    made.metadata = MappingProxyType({**info.metadata, "general.file_type": number})
    return made


def _main_type(quant: str) -> str:
    """Return the tensor type that most weights of a file of this name have."""
    name = quant.upper().removeprefix("UD-")
    name = _OTHER_NAMES.get(name, name)
    while name not in TYPE_BY_NAME and "_" in name:
        name = name.rpartition("_")[0]  # Q4_K_M -> Q4_K
    if name in TYPE_BY_NAME:
        return name
    return re.sub(r"^(I?Q\d).*", r"\1_K", name) if re.match(r"Q\d", name) else "Q4_K"
