"""Digests of texts that grow: what a text before this one began with is not read again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


class GrowingDigest:
    """The digest of the last text that was asked for, to go on from. Any thread asks.

    `hashing` makes an empty hash. Each digest is that of all of a text, whatever was asked before.
    """

    def __init__(self, hashing: Callable[[], Any]) -> None:
        self._hashing = hashing
        self._last: tuple[str, Any] = "", hashing()

    def __reduce__(self) -> Any:
        return type(self), (self._hashing,)  # what a hash has read cannot be copied out of this process

    def digest(self, text: str, end: str = "") -> str:
        """Return the digest, in hexadecimal, of a text and an end that is not to be gone on from."""
        known, read = self._last
        if not text.startswith(known):
            known, read = "", self._hashing()
        read = read.copy()
        read.update(text[len(known) :].encode("utf-8", "replace"))
        self._last = text, read
        if end:
            read = read.copy()
            read.update(end.encode("utf-8", "replace"))
        return str(read.hexdigest())
