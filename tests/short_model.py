"""Cut a real model down to a few blocks: the same vocabulary and template, at a fraction of the cost."""

from __future__ import annotations

import mmap
import re
import struct
from collections.abc import Sequence
from pathlib import Path

SHORT = (0, 10, 29)  # of SmolLM2's 30 blocks; with two, prompts that end alike are answered alike
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # of GGUF's plain types
_STRING, _ARRAY, _ALIGNMENT = 8, 9, 32


def shorten(whole: Path, short: Path, blocks: Sequence[int]) -> Path:
    """Write these blocks of the file `whole` to `short`, in this order; all metadata but their number stay.

    Nothing is decoded: the bytes of the metadata, and of each tensor that stays, are copied.
    """
    with whole.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        n_tensors, n_keys = struct.unpack_from("<QQ", data, 8)
        at, block_count = 24, 0
        for _ in range(n_keys):
            key, at = _string(data, at)
            if key.endswith(b".block_count"):
                block_count = at + 4
            at = _after(data, at)
        head = bytearray(data[:at])
        places = []  # of each tensor: where its data begin, its name, its shape and type
        for _ in range(n_tensors):
            name, at = _string(data, at)
            end = at + 8 + 8 * struct.unpack_from("<I", data, at)[0]
            places.append((struct.unpack_from("<Q", data, end)[0], name, data[at:end]))
            at = end + 8
        start = at + -at % _ALIGNMENT
        places.sort()
        ends = [offset for offset, *_ in places[1:]] + [len(data) - start]
        struct.pack_into("<I", head, block_count, len(blocks))
        body = bytearray()
        kept = 0
        for (offset, name, shape), end in zip(places, ends, strict=True):
            if (renamed := _renamed(name, blocks)) is not None:
                head += struct.pack("<Q", len(renamed)) + renamed + shape + struct.pack("<Q", len(body))
                body += data[start + offset : start + end]
                kept += 1
        struct.pack_into("<Q", head, 8, kept)
        short.write_bytes(head + bytes(-len(head) % _ALIGNMENT) + body)
    return short


def _renamed(name: bytes, blocks: Sequence[int]) -> bytes | None:
    """Return the name that a tensor has among these blocks; None for one of another block."""
    of_block = re.fullmatch(rb"blk\.(\d+)\.(.*)", name)
    if not of_block:
        return name
    number = int(of_block[1])
    return b"blk.%d.%s" % (blocks.index(number), of_block[2]) if number in blocks else None


def _string(data: mmap.mmap, at: int) -> tuple[bytes, int]:
    """Return the string that stands at `at`, and where it ends."""
    start = at + 8
    end = start + struct.unpack_from("<Q", data, at)[0]
    return data[start:end], end


def _after(data: mmap.mmap, at: int) -> int:
    """Return where the value whose type stands at `at` ends."""
    (kind,) = struct.unpack_from("<I", data, at)
    at += 4
    if kind == _STRING:
        return _string(data, at)[1]
    if kind != _ARRAY:
        return at + _SIZES[kind]
    kind, count = struct.unpack_from("<IQ", data, at)
    at += 12
    if kind != _STRING:
        return at + count * _SIZES[kind]
    for _ in range(count):
        at += 8 + struct.unpack_from("<Q", data, at)[0]
    return at
