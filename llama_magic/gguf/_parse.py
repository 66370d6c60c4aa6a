"""The header's bytes, taken apart. Bounded: every count is checked before anything is read.

Limits: a header of 64 MiB, 2,097,152 strings an array, 65,536 keys, 262,144 tensors. The largest headers
in use (250,000 tokens with merges) are about 16 MiB.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from llama_magic.errors import InvalidGGUFError
from llama_magic.gguf._arrays import LazyArray
from llama_magic.gguf._cursor import FIRST_READ, RE_DOWNLOAD, Cursor
from llama_magic.gguf._source import ByteRanges
from llama_magic.gguf._strings import scan_strings
from llama_magic.gguf._types import (
    ARRAY,
    DEFAULT_ALIGNMENT,
    MAGIC,
    STRING,
    TENSOR_TYPES,
    VALUE_TYPES,
    VERSIONS,
)
from llama_magic.words.counting import counted

MAX_STRINGS = 1 << 21
MAX_KEYS = 1 << 16
MAX_TENSORS = 1 << 18
MAX_NAME = 63  # ggml.h, GGML_MAX_NAME less the final NUL
MAX_DIMS = 4


@dataclass(frozen=True)
class RawTensor:
    """A tensor's entry as it stands in the file; `relative` counts from the start of the data."""

    name: str
    shape: tuple[int, ...]
    type_id: int
    relative: int
    entry: int  # where the entry stands in the file


@dataclass
class Header:
    """One file's header: values, the types they have, where they stand, tensor entries."""

    version: int
    order: str  # "<" little-endian, ">" big-endian
    size: int
    values: dict[str, Any] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)  # "u32", "arr[str]"
    places: dict[str, int] = field(default_factory=dict)
    tensors: list[RawTensor] = field(default_factory=list)
    buffer: bytearray = field(default_factory=bytearray)
    end: int = 0  # length of the header in bytes, padding left out
    alignment: int = DEFAULT_ALIGNMENT

    @property
    def data_start(self) -> int:
        return -(-self.end // self.alignment) * self.alignment if self.tensors else self.end


def parse(reader: ByteRanges) -> Header:
    """Read one file's header. Raises `InvalidGGUFError` with field and offset; reads no weights."""
    cursor = Cursor(reader)
    header = _read_preamble(cursor)
    n_tensors, n_keys = cursor.unpack("QQ", "header.tensor_count")
    _check_counts(cursor, n_tensors, n_keys)
    for _ in range(n_keys):
        _read_pair(cursor, header)
    header.alignment = _alignment(header)
    seen: set[str] = set()
    for number in range(n_tensors):
        tensor = _read_tensor(cursor, number)
        if tensor.name in seen:
            field = f"tensor {tensor.name}"
            cursor.fail(f"The {field} stands twice in the file.", field, tensor.entry)
        seen.add(tensor.name)
        header.tensors.append(tensor)
    header.end = cursor.at
    header.buffer = cursor.buffer
    return header


def _read_preamble(cursor: Cursor) -> Header:
    if cursor.size == 0:
        cursor.fail("The file is empty (0 bytes).", "header.magic", 0)
    start = cursor.reader.read_at(0, min(cursor.size, FIRST_READ))
    cursor.buffer += start
    if start[:4] != MAGIC:
        cursor.fail(_not_gguf(start), "header.magic", 0, "Expected a file that starts with the bytes GGUF.")
    cursor.at = 4
    (version,) = cursor.unpack("I", "header.version")
    if version & 0xFFFF == 0 and version:  # the other byte order
        cursor.order = ">"
        version = int.from_bytes(version.to_bytes(4, "little"), "big")
    if version not in VERSIONS:
        old = version == 1
        cursor.fail(
            f"The GGUF version is {version:,}; expected 2 or 3.",
            "header.version",
            4,
            "Version 1 is no longer read by llama.cpp: convert the model again." if old else RE_DOWNLOAD,
        )
    return Header(version=version, order=cursor.order, size=cursor.size)


def _not_gguf(start: bytes) -> str:
    text = start[:64].lstrip().lower()
    if text.startswith((b"<!doctype", b"<html", b"<?xml")):
        return "The file is a web page, not a GGUF."
    if start.startswith(b"version https://git-lfs"):
        return "The file is a Git LFS pointer, not the model itself."
    if start[:4] == b"PK\x03\x04":
        return "The file is a ZIP archive (perhaps a PyTorch checkpoint), not a GGUF."
    if start[:4] in (b"ggml", b"tjgg", b"lmgg", b"fmgg", b"ggjt", b"ggla"):
        return "The file is in the old GGML format that came before GGUF."
    if start[8:10] == b'{"':
        return "The file is in safetensors format, not a GGUF."
    if start[:4] == b"FUGG":
        return "The file's bytes are in reverse order."
    if len(start) < 4:
        return f"The file holds {counted(len(start), 'byte')}; a GGUF starts with the four bytes GGUF."
    return f"The file starts with {start[:4]!r}, not with b'GGUF'."


def _check_counts(cursor: Cursor, n_tensors: int, n_keys: int) -> None:
    left = cursor.size - cursor.at
    for name, n, limit, least, place in (
        ("header.tensor_count", n_tensors, MAX_TENSORS, 24, 8),
        ("header.kv_count", n_keys, MAX_KEYS, 8, 16),
    ):
        if n > limit or n * least > left:
            shown = n if n < 1 << 63 else n - (1 << 64)
            if cursor.order == ">":
                cursor.fail(
                    f"The version reads as big-endian, and {name} would then be {shown:,}.",
                    "header.version",
                    4,
                )
            cursor.fail(
                f"{name} is {shown:,}; the {left:,} bytes that follow cannot hold that many, or it is over "
                f"the limit of {limit:,}.",
                name,
                place,
            )


def _read_pair(cursor: Cursor, header: Header) -> None:
    start = cursor.at
    number = len(header.values)
    key = cursor.string(f"key {number}").decode("utf-8", "replace")
    if not key:
        cursor.fail(f"Key {number} has no name.", f"key {number}", start)
    if key in header.values:
        cursor.fail(f"The key {key!r} stands twice in the file.", key, start)
    (type_id,) = cursor.unpack("I", key)
    header.places[key] = cursor.at
    if type_id == ARRAY:
        element, n = cursor.unpack("IQ", key)
        header.values[key] = _read_array(cursor, key, element, n)
        header.types[key] = f"arr[{VALUE_TYPES[element][0]}]"
        return
    if type_id not in VALUE_TYPES:
        cursor.fail(f"{key} has value type {type_id}; GGUF knows 0 to 12.", key, cursor.at - 4)
    header.types[key] = VALUE_TYPES[type_id][0]
    if type_id == STRING:
        header.values[key] = cursor.string(key).decode("utf-8", "replace")
        return
    (value,) = cursor.unpack(VALUE_TYPES[type_id][1], key)
    header.values[key] = bool(value) if header.types[key] == "bool" else value


def _read_array(cursor: Cursor, key: str, element: int, n: int) -> LazyArray:
    if element == ARRAY:
        cursor.fail(f"{key} is an array of arrays, which llama.cpp does not read.", key, cursor.at - 12)
    if element not in VALUE_TYPES:
        cursor.fail(f"{key} is an array of value type {element}; GGUF knows 0 to 12.", key, cursor.at - 12)
    width = 8 if element == STRING else VALUE_TYPES[element][2]
    left = cursor.size - cursor.at
    if n * width > left:
        message = f"{key} claims {n:,} elements, and only {left:,} bytes are left in the file."
        cursor.fail(message, key, cursor.at - 8)
    start = cursor.at
    if element == STRING:
        if n > MAX_STRINGS:
            cursor.fail(f"{key} claims {n:,} strings; the limit is {MAX_STRINGS:,}.", key, cursor.at - 8)
        offsets = scan_strings(cursor, key, n)
        return LazyArray(cursor.buffer, element, n, start, cursor.order, offsets)
    cursor.need(n * width, key)
    cursor.at += n * width
    return LazyArray(cursor.buffer, element, n, start, cursor.order)


def _alignment(header: Header) -> int:
    key = "general.alignment"
    if key not in header.values:
        return DEFAULT_ALIGNMENT
    value, type_ = header.values[key], header.types[key]
    if type_ != "u32":
        wrong = f"{key} is stored as {type_}; expected u32."
    elif value <= 0 or value & (value - 1):
        wrong = f"{key} is {value:,}; expected a power of two, such as 32."
    elif value > 1 << 24:
        wrong = f"{key} is {value:,} bytes; expected at most {1 << 24:,} (32 is usual)."
    else:
        return int(value)
    raise InvalidGGUFError(wrong, field=key, offset=header.places[key], remedy=RE_DOWNLOAD)


def _read_tensor(cursor: Cursor, number: int) -> RawTensor:
    start = cursor.at
    name = cursor.string(f"tensor {number}").decode("utf-8", "replace")
    field = f"tensor {name[:80]}"
    n = cursor.at - start - 8
    if n > MAX_NAME:
        message = f"The tensor name {name[:80]!r} is {n:,} bytes long; ggml takes {MAX_NAME}."
        cursor.fail(message, field, start)
    (n_dims,) = cursor.unpack("I", field)
    if n_dims > MAX_DIMS:
        cursor.fail(f"{field} has {n_dims:,} dimensions; ggml takes up to {MAX_DIMS}.", field, cursor.at - 4)
    shape: tuple[int, ...] = cursor.unpack("q" * n_dims, field)
    elements = 1
    for size in shape:
        if size <= 0:
            cursor.fail(f"{field} has shape {list(shape)}; every dimension must be 1 or more.", field, start)
        elements *= size
    if elements >= 1 << 63:
        cursor.fail(f"{field} has shape {list(shape)}: more elements than 64 bits can count.", field, start)
    type_id, relative = cursor.unpack("IQ", field)
    kind = TENSOR_TYPES.get(type_id)
    if kind is not None and shape and shape[0] % kind.block:
        cursor.fail(
            f"{field} has rows of {shape[0]:,} weights; {kind.name} is stored in blocks of {kind.block}.",
            field,
            start,
        )
    return RawTensor(name, shape, type_id, relative, start)
