"""Where the strings of an array stand: whole arrays are compared, no string is made."""

from __future__ import annotations

import struct
from array import array

import numpy as np
import numpy.typing as npt

from llama_magic.gguf._cursor import Cursor

_WINDOW = 256 << 10  # of a scan: its temporary arrays stay in the cache, and off fresh pages


def scan_strings(cursor: Cursor, key: str, n: int) -> npt.NDArray[np.int64]:
    """Find where each of `n` strings stands. (n,) int64, absolute offsets of the length fields."""
    parts: list[npt.NDArray[np.int64]] = []
    done = 0
    start = cursor.at
    slow = 4096  # grows with each vain fast scan, so that their cost stays bounded
    while done < n:
        mean = (cursor.at - start) // done + 1 if done else 16
        cursor.prefetch(min((n - done) * mean + (64 << 10), 8 << 20))
        found = _scan_fast(cursor, n - done)
        if len(found) < 64:
            parts.append(found)
            done += len(found)
            found = _scan_slow(cursor, key, min(n - done, slow))
            slow *= 4
        parts.append(found)
        done += len(found)
    return np.concatenate(parts) if parts else np.empty(0, np.int64)


def _scan_fast(cursor: Cursor, n: int) -> npt.NDArray[np.int64]:
    """Find strings of 1 to 255 bytes without NULs among the bytes at hand, all at once.

    Their length fields are the only places with seven zero bytes after (or, big-endian, before)
    one that is not: candidates come from comparing whole arrays, and are then proved by walking
    the chain: each must stand where the one before it ends.
    """
    window = np.frombuffer(cursor.buffer, np.uint8)[cursor.at : cursor.at + min(263 * n + 8, _WINDOW)]
    if len(window) < 64:
        return np.empty(0, np.int64)
    zero = window == 0
    pair = zero[:-1] & zero[1:]
    four = pair[:-2] & pair[2:]
    seven = four[:-3] & four[3:]  # seven[i]: bytes i to i+6 are zero
    if cursor.order == "<":
        places = np.flatnonzero(seven[1:])  # the byte before the zeros holds the length
        lengths = window[places]
    else:
        places = np.flatnonzero(seven)
        places = places[places + 7 < len(window)]
        lengths = window[places + 7]
    places, lengths = places[:n], lengths[:n].astype(np.int64)
    if not len(places) or places[0] != 0:
        return np.empty(0, np.int64)
    ends = places + 8 + lengths
    good = ends[:-1] == places[1:]
    count = int(np.argmin(good)) if not good.all() else len(places) - 1
    if count == len(places) - 1 and ends[-1] <= len(window):  # the last one's text is at hand too
        count += 1
    if count:
        result: npt.NDArray[np.int64] = places[:count] + cursor.at
        cursor.at += int(ends[count - 1])
        return result
    return np.empty(0, np.int64)


def _scan_slow(cursor: Cursor, key: str, n: int) -> npt.NDArray[np.int64]:
    """Find strings one after the other: any length, any bytes."""
    offsets = array("q")
    length_at = struct.Struct(cursor.order + "Q").unpack_from
    for _ in range(n):
        cursor.need(8, key)
        offsets.append(cursor.at)
        (length,) = length_at(cursor.buffer, cursor.at)
        cursor.at += 8
        if length > cursor.size - cursor.at:
            cursor.fail(
                f"{key} holds a string of {length:,} bytes, and only {cursor.size - cursor.at:,} are left "
                "in the file.",
                key,
                cursor.at - 8,
            )
        cursor.need(length, key)
        cursor.at += length
    return np.frombuffer(offsets, np.int64)
