"""The tables of the GGUF format: value types, tensor types, file types.

Source: the GGUF specification (`docs/gguf.md` in ggml) and `ggml.h`.
"""

from __future__ import annotations

from typing import NamedTuple

MAGIC = b"GGUF"
VERSIONS = (2, 3)
DEFAULT_ALIGNMENT = 32

STRING = 8
ARRAY = 9
# id -> (name, struct letter, bytes); strings and arrays have no fixed size
VALUE_TYPES: dict[int, tuple[str, str, int]] = {
    0: ("u8", "B", 1),
    1: ("i8", "b", 1),
    2: ("u16", "H", 2),
    3: ("i16", "h", 2),
    4: ("u32", "I", 4),
    5: ("i32", "i", 4),
    6: ("f32", "f", 4),
    7: ("bool", "b", 1),
    8: ("str", "", 0),
    9: ("arr", "", 0),
    10: ("u64", "Q", 8),
    11: ("i64", "q", 8),
    12: ("f64", "d", 8),
}


class TensorType(NamedTuple):
    """A ggml tensor type: `block` weights are stored in `size` bytes."""

    name: str
    block: int
    size: int


TENSOR_TYPES: dict[int, TensorType] = {
    number: TensorType(name, block, size)
    for number, name, block, size in (
        (0, "F32", 1, 4),
        (1, "F16", 1, 2),
        (2, "Q4_0", 32, 18),
        (3, "Q4_1", 32, 20),
        (6, "Q5_0", 32, 22),
        (7, "Q5_1", 32, 24),
        (8, "Q8_0", 32, 34),
        (9, "Q8_1", 32, 36),
        (10, "Q2_K", 256, 84),
        (11, "Q3_K", 256, 110),
        (12, "Q4_K", 256, 144),
        (13, "Q5_K", 256, 176),
        (14, "Q6_K", 256, 210),
        (15, "Q8_K", 256, 292),
        (16, "IQ2_XXS", 256, 66),
        (17, "IQ2_XS", 256, 74),
        (18, "IQ3_XXS", 256, 98),
        (19, "IQ1_S", 256, 50),
        (20, "IQ4_NL", 32, 18),
        (21, "IQ3_S", 256, 110),
        (22, "IQ2_S", 256, 82),
        (23, "IQ4_XS", 256, 136),
        (24, "I8", 1, 1),
        (25, "I16", 1, 2),
        (26, "I32", 1, 4),
        (27, "I64", 1, 8),
        (28, "F64", 1, 8),
        (29, "IQ1_M", 256, 56),
        (30, "BF16", 1, 2),
        (34, "TQ1_0", 256, 54),
        (35, "TQ2_0", 256, 66),
        (39, "MXFP4", 32, 17),
        (40, "NVFP4", 64, 36),
        (41, "Q1_0", 128, 18),
        (42, "Q2_0", 64, 18),
    )
}
TYPE_BY_NAME = {t.name: t for t in TENSOR_TYPES.values()}
REMOVED_TYPES = {
    4: "Q4_2",
    5: "Q4_3",
    31: "Q4_0_4_4",
    32: "Q4_0_4_8",
    33: "Q4_0_8_8",
    36: "IQ4_NL_4_4",
    37: "IQ4_NL_4_8",
    38: "IQ4_NL_8_8",
}
# Weights of these types make llama.cpp's CPU kernels abort or crash at the first decode.
UNUSABLE_WEIGHTS = frozenset({"F64", "I8", "I16", "I32", "I64", "Q8_1", "Q8_K"})

# general.file_type -> what people call it (llama.h, llama_ftype)
FILE_TYPES: dict[int, str] = {
    0: "F32", 1: "F16", 2: "Q4_0", 3: "Q4_1", 7: "Q8_0", 8: "Q5_0", 9: "Q5_1", 10: "Q2_K", 11: "Q3_K_S",
    12: "Q3_K_M", 13: "Q3_K_L", 14: "Q4_K_S", 15: "Q4_K_M", 16: "Q5_K_S", 17: "Q5_K_M", 18: "Q6_K",
    19: "IQ2_XXS", 20: "IQ2_XS", 21: "Q2_K_S", 22: "IQ3_XS", 23: "IQ3_XXS", 24: "IQ1_S", 25: "IQ4_NL",
    26: "IQ3_S", 27: "IQ3_M", 28: "IQ2_S", 29: "IQ2_M", 30: "IQ4_XS", 31: "IQ1_M", 32: "BF16",
    36: "TQ1_0", 37: "TQ2_0", 38: "MXFP4_MOE", 39: "NVFP4", 40: "Q1_0", 41: "Q2_0",
}  # fmt: skip


def type_name(number: int) -> str:
    """Return the name of a tensor type, also of a removed or an unknown one."""
    if number in TENSOR_TYPES:
        return TENSOR_TYPES[number].name
    return REMOVED_TYPES.get(number, f"type {number}")


def row_bytes(type_: str, n: int) -> int:
    """Return the bytes that `n` weights of a type take; `n` is rounded up to whole blocks."""
    kind = TYPE_BY_NAME[type_.upper()]
    return -(-n // kind.block) * kind.size
