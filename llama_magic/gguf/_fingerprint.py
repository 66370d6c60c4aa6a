"""Tell two files apart without reading gigabytes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

_SAMPLES, _SAMPLE_BYTES = 16, 1 << 16


def fingerprint(digest: str, parts: Iterable[Path]) -> str:
    """Return the SHA-256 of a file's header `digest`, its size and 1 MB of its weights, hexadecimal.

    16 stretches of 64 kB of each part are read, which takes a few milliseconds.
    """
    total = hashlib.sha256(digest.encode())
    for path in parts:
        size = path.stat().st_size
        total.update(size.to_bytes(8, "little"))
        with path.open("rb") as file:
            # A fine-tune can have the very header of its base; its weights differ everywhere.
            for i in range(_SAMPLES):
                file.seek(max(0, size - _SAMPLE_BYTES) * i // (_SAMPLES - 1))
                total.update(file.read(_SAMPLE_BYTES))
    return total.hexdigest()
