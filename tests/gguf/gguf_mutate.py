"""Seeded mutations of headers, and what the reader makes of them."""

from __future__ import annotations

import random
import struct
import time
from collections.abc import Iterator

from llama_magic.errors import InvalidGGUFError
from llama_magic.gguf import findings, inspect, validate

_NUMBERS = (0, 1, 2, 3, 255, 2**16, 2**31 - 1, 2**31, 2**32 - 1, 2**62, 2**63, 2**64 - 1)


class Memory:
    """A file in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def read_at(self, offset: int, n: int) -> bytes:
        return self._data[offset : offset + n]


def mutations(base: bytes, n: int, seed: int, within: int) -> Iterator[bytes]:
    """Yield `n` mutants of the first `within` bytes: bytes and numbers changed, pieces cut or doubled."""
    rng = random.Random(seed)
    for _ in range(n):
        data = bytearray(base)
        for _ in range(rng.choice((1, 1, 2, 5))):
            at = rng.randrange(max(1, min(within, len(data))))
            kind = rng.randrange(6)
            if kind == 0:
                data[at : at + 1] = bytes([rng.randrange(256)])
            elif kind == 1:
                data[at : at + 8] = struct.pack("<Q", rng.choice(_NUMBERS))
            elif kind == 2:
                data[at : at + 4] = struct.pack("<I", rng.choice(_NUMBERS) % 2**32)
            elif kind == 3:
                del data[at : at + rng.choice((1, 8, 1000, len(data)))]
            elif kind == 4:
                data[at:at] = data[at : at + rng.choice((1, 8, 64))]
            else:
                data[at : at + 64] = bytes(64)
        yield bytes(data)


def outcome(data: bytes) -> tuple[str, float]:
    """Return what became of a mutant (`read`, `valid` or the refused field) and the seconds it took."""
    start = time.thread_time()
    try:
        info = inspect(Memory(data))
        result = "read"
        findings(info)
        str(info), repr(info), info.digest, info.to_dict(), info.special_tokens
        validate(info)
        result = "valid"
    except InvalidGGUFError as error:
        result = error.field or "no field named"
    return result, time.thread_time() - start
