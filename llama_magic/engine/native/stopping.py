"""Stopping a decode that is under way: what llama.cpp asks, and what sets the answer."""

from __future__ import annotations

import ctypes
import sys

import llama_cpp


class StopFlag:
    """What llama.cpp looks at between two nodes of a graph. Any thread may set it; no lock is taken."""

    def __init__(self) -> None:
        self.bytes = ctypes.create_string_buffer(2)  # a C string: b"\0" goes on, b"\1\0" stops

    @property
    def is_set(self) -> bool:
        return self.bytes.value != b""

    def set(self) -> None:
        self.bytes[0] = b"\x01"

    def clear(self) -> None:
        self.bytes[0] = b"\x00"


def _native_abort_callback() -> object:
    """Return a C function that says "stop" when the flag's first byte is set.

    llama.cpp asks it once a graph node, about a thousand times a decode. A Python callback
    would take the GIL each time, and swallow a KeyboardInterrupt that is raised inside it.
    `strlen` does the same without Python: the flag is a C string, "" means go on and
    "\\x01" means stop, and a `bool` result is read from the low byte of its length.
    """
    library = ctypes.cdll.msvcrt if sys.platform == "win32" else ctypes.CDLL(None)
    return ctypes.cast(library.strlen, llama_cpp.ggml_abort_callback)


ABORT = _native_abort_callback()
