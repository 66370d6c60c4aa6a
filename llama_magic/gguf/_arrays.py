"""Arrays of a header, read when asked for: 262,144 token texts cost nothing until then."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, overload

import numpy as np
import numpy.typing as npt

from llama_magic.gguf._types import STRING, VALUE_TYPES


class LazyArray(Sequence[Any]):
    """An array of the header: `len()`, `[i]`, slices and iteration, without a copy.

    Strings that are not UTF-8 come with U+FFFD in place of the bad bytes; `bytes_at(i)` gives
    them as they are. `to_list()` reads all elements, `to_numpy()` all numbers.
    """

    __slots__ = ("_buffer", "_length", "_offsets", "_order", "_start", "_type")

    def __init__(
        self,
        buffer: bytearray,
        type_id: int,
        length: int,
        start: int,
        order: str,
        offsets: npt.NDArray[np.int64] | None = None,
    ) -> None:
        self._buffer = buffer
        self._type = type_id
        self._length = length
        self._start = start
        self._order = order
        self._offsets = offsets  # (length,) where each string's length field stands; None for numbers

    @property
    def type(self) -> str:
        """Return the element type: `str`, `f32`, `i32`, …"""
        return VALUE_TYPES[self._type][0]

    def __len__(self) -> int:
        return self._length

    def bytes_at(self, index: int) -> bytes:
        """Return string `index` as raw bytes."""
        if self._offsets is None:
            raise TypeError(f"bytes_at is for arrays of strings; this one holds {self.type}.")
        at = int(self._offsets[index])
        n = int.from_bytes(self._buffer[at : at + 8], "little" if self._order == "<" else "big")
        return bytes(self._buffer[at + 8 : at + 8 + n])

    def all_bytes(self) -> list[bytes]:
        """Return all strings as raw bytes (about 0.1 µs each)."""
        if self._offsets is None or not self._length:
            return []
        starts = self._offsets + 8
        ends = np.append(self._offsets[1:], self._end())
        whole = bytes(self._buffer[self._start : int(ends[-1])])
        base = self._start
        return [whole[a:b] for a, b in zip((starts - base).tolist(), (ends - base).tolist(), strict=True)]

    def lengths(self) -> npt.NDArray[np.int64]:
        """Return the strings' lengths in bytes. (len,) int64"""
        if self._offsets is None or not self._length:
            return np.empty(0, np.int64)
        return np.diff(np.append(self._offsets, self._end())) - 8

    def find(self, raw: bytes) -> int | None:
        """Return the index of the first string with exactly these bytes, or None."""
        if self._offsets is None or not self._length:
            return None
        needle = len(raw).to_bytes(8, "little" if self._order == "<" else "big") + raw
        end = self._end()
        at = self._buffer.find(needle, self._start, end)
        while at >= 0:
            index = int(np.searchsorted(self._offsets, at))
            if index < self._length and self._offsets[index] == at:
                return index
            at = self._buffer.find(needle, at + 1, end)
        return None

    def _end(self) -> int:
        last = self._length - 1
        return int(self._offsets[last]) + 8 + len(self.bytes_at(last)) if self._offsets is not None else 0

    @overload
    def __getitem__(self, index: int) -> Any: ...
    @overload
    def __getitem__(self, index: slice) -> list[Any]: ...
    def __getitem__(self, index: int | slice) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._length))]
        i = index + self._length if index < 0 else index
        if not 0 <= i < self._length:
            raise IndexError(f"index {index} is out of range for an array of {self._length}")
        if self._type == STRING:
            return self.bytes_at(i).decode("utf-8", "replace")
        return self.to_numpy()[i].item()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.to_list())

    def to_list(self) -> list[Any]:
        """Return all elements as Python values."""
        if self._type == STRING:
            return [raw.decode("utf-8", "replace") for raw in self.all_bytes()]
        values: list[Any] = self.to_numpy().tolist()
        return values

    def to_numpy(self) -> npt.NDArray[Any]:
        """Return the numbers as an array of the file's own type, in this machine's byte order."""
        if self._type == STRING:
            return np.array(self.to_list(), dtype=object)
        name, letter, size = VALUE_TYPES[self._type]
        code = f"{self._order}{np.dtype(letter).kind}{size}"
        view = np.frombuffer(self._buffer, dtype=code, count=self._length, offset=self._start)
        if name == "bool":
            flags: npt.NDArray[Any] = view.astype(bool)
            return flags
        native: npt.NDArray[Any] = view.astype(view.dtype.newbyteorder("="))  # always a copy
        return native

    def __eq__(self, other: object) -> bool:
        if isinstance(other, (LazyArray, list, tuple)):
            return len(other) == self._length and self.to_list() == list(other)
        return NotImplemented

    __hash__ = None  # type: ignore[assignment]  # as Python says that there is none

    def __repr__(self) -> str:
        head = ", ".join(repr(v)[:40] for v in self[:3])
        more = ", …" if self._length > 3 else ""
        return f"<{self._length:,} × {self.type}: [{head}{more}]>"
