"""A chat's file: whatever stands in it, and whatever the disk does, the error is one of the tree."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

import llama_magic as lm
from llama_magic import formatters
from llama_magic.errors import LlamaMagicError
from llama_magic.session.chat import Chat
from llama_magic.session.turns import Turn


def _chat(text: str) -> Chat:
    return Chat("c", [Turn(({"role": "user", "content": text}, {"role": "assistant", "content": "yes"}))])


@pytest.mark.parametrize("text", ["\ud800", "a\udcffb", "\udfff\ud800", "🦙\ud83e", "\x00\x1b\u2028\x7f"])
def test_any_text_comes_back_from_a_file(tmp_path: Path, text: str) -> None:
    """Lone surrogates, which UTF-8 has not, are written as JSON's escapes and read back as they were."""
    path = _chat(text).save(tmp_path / "c.json")
    json.loads(path.read_bytes().decode("utf-8"))
    assert Chat.load(path).messages == _chat(text).messages
    assert os.listdir(tmp_path) == ["c.json"]


@pytest.mark.parametrize(
    "value", [{1, 2}, object(), b"x", {(1, 2): 3}], ids=["set", "object", "bytes", "key"]
)
def test_what_json_has_not_is_named_and_leaves_nothing(tmp_path: Path, value: Any) -> None:
    """A message with a value that JSON has not is refused; the old file stays as it was."""
    chat = _chat("old")
    path = chat.save(tmp_path / "c.json")
    before = path.read_bytes()
    chat.turns.append(Turn(({"role": "user", "content": "new", "extra": value},)))
    with pytest.raises(LlamaMagicError, match="JSON has not"):
        chat.save(path)
    assert (path.read_bytes(), os.listdir(tmp_path)) == (before, ["c.json"])


_DEEP = "[" * 200_000


@pytest.mark.parametrize(
    "content",
    [
        *(b"", b"\xff\xfe", b"{", b"5", b"null", b'{"messages": 5}', b'[{"role": "user", "content": 5}]'),
        *(_DEEP.encode(), (_DEEP + "]" * 200_000).encode(), b'{"a":' * 100_000),
        b'{"messages": [], "llama_magic": {"turns": 5}}',
        b'{"messages": [], "llama_magic": {"turns": [], "branches": [{"at": 0, "turns": [[]]}]}}',
        b"[" + b"9" * 5000 + b"]",
    ],
    ids=range(13),
)
def test_no_content_of_a_chat_file_raises_anything_foreign(tmp_path: Path, content: bytes) -> None:
    """Empty, cut, deep, wrong in kind: an error of the one tree, each of them."""
    path = tmp_path / "c.json"
    path.write_bytes(content)
    with pytest.raises(LlamaMagicError):
        Chat.load(path)


@pytest.mark.parametrize("path", ["a\0b", "", b"x", None, 5, "/proc/self/mem", "/dev/zero", ".", "x" * 5000])
def test_no_path_raises_anything_foreign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, path: Any) -> None:
    """Names that no file has, devices without an end, folders: refused by name, read and written."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(LlamaMagicError):
        Chat.load(path)
    if path not in ("/proc/self/mem", "/dev/zero"):
        with pytest.raises(LlamaMagicError):
            _chat("a").save(path)
    assert os.listdir(tmp_path) == []


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    """Opening a named pipe would hang the kernel until somebody writes; it is refused unopened."""
    os.mkfifo(tmp_path / "pipe")
    for read in (Chat.load, formatters.from_jinja, lm.verify):
        with pytest.raises(LlamaMagicError, match="no regular file"):
            read(tmp_path / "pipe")
