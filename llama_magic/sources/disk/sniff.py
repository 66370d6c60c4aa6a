"""Say what a file is by its first bytes, when it is not a GGUF."""

from __future__ import annotations

import re

GGUF_MAGIC = b"GGUF"
GGUF_HEADER_BYTES = 24  # magic, version, tensor count, metadata count (ggml/docs/gguf.md)
SNIFF_BYTES = 1024

_PREFIXES = (
    (b"version https://git-lfs", "a Git LFS pointer, not the file it points to"),
    (b"# xet version", "a Xet pointer, not the file it points to"),
    (b"PK\x03\x04", "a zip archive (PyTorch checkpoints are such)"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"7z\xbc\xaf", "a 7z archive"),
    (b"\xfd7zXZ", "an xz archive"),
    (b"(\xb5/\xfd", "a Zstandard archive"),
    (b"%PDF", "a PDF document"),
    (b"\x89PNG", "a PNG image"),
    (b"FUGG", "a GGUF magic number with its bytes reversed"),
    (b"lmgg", "an old GGML model (before GGUF)"),
    (b"fmgg", "an old GGMF model (before GGUF)"),
    (b"tjgg", "an old GGJT model (before GGUF)"),
    (b"algg", "an old GGLA adapter (before GGUF)"),
    (b"\x80\x02", "a Python pickle"),
    (b"\x80\x04", "a Python pickle"),
    (b"\x7fELF", "a program"),
)
_TITLE = re.compile(rb"<title[^>]*>\s*([^<]{1,80})", re.IGNORECASE)


def not_gguf(head: bytes, size: int | None = None) -> str | None:
    """Return what the file is in a few words, or None where it begins as a GGUF does.

    `head` is its first bytes (up to `SNIFF_BYTES`), `size` its length where that is known.
    """
    if not head:
        return "empty (0 bytes)"
    if head.startswith(GGUF_MAGIC):
        if size is not None and size < GGUF_HEADER_BYTES:
            return f"only {size} bytes long; a GGUF header alone has {GGUF_HEADER_BYTES}"
        return None
    for prefix, meaning in _PREFIXES:
        if head.startswith(prefix):
            return meaning
    if head[8:9] == b"{" and head[4:8] == b"\0\0\0\0":
        return "a safetensors file"
    return _text_kind(head) or f"not a GGUF: it begins with {head[:4]!r}, a GGUF with {GGUF_MAGIC!r}"


def _text_kind(head: bytes) -> str | None:
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    if start.startswith((b"<!doctype html", b"<html", b"<head", b"<body")) or b"<html" in start[:512]:
        title = _TITLE.search(head)
        named = f" titled {title[1].decode('utf-8', 'replace').strip()!r}" if title else ""
        return f"an HTML page{named}"
    if start.startswith((b"<?xml", b"<error")):
        return "an XML document"
    text = head.decode("utf-8", "ignore")
    if not text or any(ord(char) < 32 and char not in "\t\r\n\f" for char in text):
        return None
    if len(text.encode()) < len(head) - 3:  # up to 3 bytes may be a character cut in two
        return None
    shown = " ".join(text.split())[:40]
    return f"{'a JSON document' if start[:1] in (b'{', b'[') else 'a text file'} that begins {shown!r}"
