"""A place in the bytes of a header, and what is read from there, never past what the file can hold."""

from __future__ import annotations

import struct
from typing import Any, NoReturn

from llama_magic.errors import InvalidGGUFError
from llama_magic.gguf._source import ByteRanges

MAX_HEADER = 64 << 20
FIRST_READ = 128 << 10
RE_DOWNLOAD = "The file is damaged or was not copied in full: download it again."


class Cursor:
    """A growing window on the start of a file, and a place in it."""

    def __init__(self, reader: ByteRanges) -> None:
        self.reader = reader
        self.size = reader.size
        self.buffer = bytearray()
        self.at = 0
        self.order = "<"

    def fail(
        self, message: str, field: str, offset: int | None = None, remedy: str = RE_DOWNLOAD
    ) -> NoReturn:
        place = self.at if offset is None else offset
        raise InvalidGGUFError(message, field=field, offset=place, remedy=remedy)

    def prefetch(self, n: int) -> None:
        """Read on by about `n` bytes if little is at hand; no error where the file is shorter."""
        have = len(self.buffer)
        if have - self.at < 4096:
            end = min(self.at + max(n, FIRST_READ), self.size, MAX_HEADER)
            self.buffer += self.reader.read_at(have, max(0, end - have))

    def need(self, n: int, field: str) -> None:
        """Have `n` bytes from here, or say that the file is too short."""
        end = self.at + n
        if end <= len(self.buffer):
            return
        if end > self.size:
            left = max(0, self.size - self.at)
            self.fail(
                f"The file ends inside its header: {field} needs {n:,} bytes at offset {self.at:,}, "
                f"and only {left:,} are left of {self.size:,}.",
                field,
            )
        if end > MAX_HEADER:
            limit = MAX_HEADER // 10**6
            self.fail(f"{field} would make the header longer than {limit} MB; no model needs that.", field)
        have = len(self.buffer)
        want = max(end, have + max(FIRST_READ, have // 8))
        part = self.reader.read_at(have, min(want, self.size, MAX_HEADER) - have)
        self.buffer += part
        if len(self.buffer) < end:
            self.fail(f"Only {len(self.buffer):,} bytes of the header could be read.", field)

    def unpack(self, letters: str, field: str) -> tuple[Any, ...]:
        layout = struct.Struct(self.order + letters)
        self.need(layout.size, field)
        values = layout.unpack_from(self.buffer, self.at)
        self.at += layout.size
        return values

    def string(self, field: str) -> bytes:
        (n,) = self.unpack("Q", field)
        if n > self.size - self.at:
            self.fail(
                f"{field} is a string of {n:,} bytes, and only {self.size - self.at:,} are left in the file.",
                field,
                self.at - 8,
            )
        self.need(n, field)
        raw = bytes(self.buffer[self.at : self.at + n])
        self.at += n
        return raw
