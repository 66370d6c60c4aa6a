"""A model and its file on the disk: written over, removed, oddly named; and what cannot be copied."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from as_ipython import traceback_of
from scripted_gguf import Scripted

import llama_magic as lm

_PLACES = [str(Path(__file__).parent), str(Path(__file__).parents[1]), str(Path(__file__).parents[2])]


def _truncate(path: Path) -> None:
    os.truncate(path, 4096)


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _grow(path: Path) -> None:
    with path.open("ab") as file:
        file.write(b"x")


def _zeros(path: Path) -> None:
    with path.open("r+b") as file:
        file.write(bytes(path.stat().st_size))
    os.utime(path, ns=(1, 1))  # a later time, on any clock's grain


def _copied_over(path: Path) -> None:
    other = bytes(reversed(path.read_bytes()))
    with path.open("wb") as file:  # as cp does: cut, then written
        file.write(other)
    os.utime(path, ns=(1, 1))


_CHANGED = """
import os, shutil, sys
from pathlib import Path
import llama_magic as lm
import test_model_files as here
calls = {
    "complete": lambda: model.complete("a", max_tokens=4),
    "seeded": lambda: model.complete("a", max_tokens=4, seed=1),
    "stream": lambda: list(model.complete("a", max_tokens=4, stream=True)),
    "read": lambda: model.read("a b"),
    "embed": lambda: model.embed("a"),
}
for how in sys.argv[2:]:
    path = shutil.copy(sys.argv[1], Path(how))
    model = lm.load(path, ctx=512, threads=1)
    before = model.complete("ab", max_tokens=4, ignore_eos=True).token_ids
    getattr(here, how)(path)
    for name, call in calls.items():
        try:
            call()
            print(how, name, "answered", flush=True)
        except lm.BackendError as error:
            print(how, name, "written over" in str(error), "mmap=False" in str(error), flush=True)
    model.close()
print("alive")
"""


def test_a_mapped_file_written_over_is_noticed_before_a_call(scripted_file: Scripted, tmp_path: Path) -> None:
    """Cut, emptied, grown, zeroed or copied over in place: every call is refused, the kernel lives."""
    changes = ["_truncate", "_empty", "_grow", "_zeros", "_copied_over"]
    command = [sys.executable, "-c", _CHANGED, str(scripted_file.path), *changes]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(_PLACES)}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path)
    calls = ("complete", "seeded", "stream", "read", "embed")
    want = [f"{how} {name} True True" for how in changes for name in calls]
    assert (done.returncode, done.stdout.splitlines()) == (0, [*want, "alive"]), done.stderr[-2000:]


def _touch(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def _replace(path: Path) -> None:
    path.with_name("new").write_bytes(b"another")
    path.with_name("new").replace(path)


def _rewrite(path: Path) -> None:
    data = path.read_bytes()
    with path.open("r+b") as file:
        file.write(data)


@pytest.mark.parametrize("how", [_touch, _replace, Path.unlink, _rewrite])
def test_what_does_no_harm_to_a_mapped_file_stops_nothing(
    scripted_file: Scripted, tmp_path: Path, how: Callable[[Path], None]
) -> None:
    """Touched, renamed over, removed, written anew alike: answers go on, the cache can be saved."""
    path = tmp_path / "m.gguf"
    shutil.copy(scripted_file.path, path)
    with lm.load(path, ctx=512, threads=1) as model:
        before = model.complete("ab", max_tokens=4, ignore_eos=True).token_ids
        assert len(before) == 4
        how(path)
        for _ in range(2):
            assert model.complete("ab", max_tokens=4, ignore_eos=True).token_ids == before
        saved = model.kv_save(tmp_path / "a.kv")
        model.kv_restore(saved)
        assert model.complete("ab", max_tokens=4, ignore_eos=True).token_ids == before


def test_without_mmap_the_file_may_go(scripted_file: Scripted, tmp_path: Path) -> None:
    """Loaded with `mmap=False` a model needs its file no more, cut in place or not."""
    path = tmp_path / "m.gguf"
    shutil.copy(scripted_file.path, path)
    with lm.load(path, ctx=512, threads=1, mmap=False) as model:
        before = model.complete("ab", max_tokens=4, ignore_eos=True).token_ids
        assert len(before) == 4
        _empty(path)
        assert model.complete("ab", max_tokens=4, ignore_eos=True).token_ids == before


@pytest.mark.parametrize(
    "name", [b"\xff\xfe.gguf", b"caf\xe9.gguf", b"\x1b[2J\x07.gguf", b"a\nb.gguf", b"\xe2\x80\xae.gguf"]
)
def test_any_file_name_loads(scripted_file: Scripted, tmp_path: Path, name: bytes) -> None:
    """A name that is not UTF-8 or holds controls loads; model, origin and receipt show it escaped."""
    path = os.path.join(os.fsencode(tmp_path), name)
    shutil.copy(os.fsencode(scripted_file.path), path)
    with lm.load(Path(os.fsdecode(path)), ctx=512, threads=1) as model:
        answer = model.complete("a", max_tokens=2)
        shown = f"{model.name} {model.source.origin} {answer.made_with['file']['name']} {model!r}"
        assert shown.encode("utf-8")
        assert not {"\x1b", "\x07", "\u202e"} & set(shown)


@pytest.mark.parametrize(
    "name", [b"\xff.gguf", b"\x1b]0;x\x07.gguf", b"\xc2\x9b2J.gguf", b"\xe2\x80\xae.gguf", b"\x7f\r.gguf"]
)
def test_no_error_carries_a_control_from_a_file_name(tmp_path: Path, name: bytes) -> None:
    """Damaged and missing files with such names: the message shows each control as its escape."""
    path = os.path.join(os.fsencode(tmp_path), name)
    for content in (None, b"not a model", b"GGUF" + bytes(40)):
        if content is not None:
            Path(os.fsdecode(path)).write_bytes(content)
        with pytest.raises(lm.LlamaMagicError) as caught:
            lm.load(os.fsdecode(path))
        text = "\n".join(traceback_of(caught.value))
        assert text.encode("utf-8")
        assert not [c for c in text if (ord(c) < 32 and c != "\n") or 127 <= ord(c) < 160 or c == "\u202e"]


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, pickle.dumps, lambda m: copy.deepcopy({"m": [m]})])
def test_a_model_says_that_it_cannot_be_copied(scripted: Any, how: Callable[[Any], Any]) -> None:
    """Copies and pickles are refused with what to do in their place; the model works on."""
    with pytest.raises(lm.InputTypeError, match=r"cannot be copied or pickled.*\n.*load the file again"):
        how(scripted)
    assert len(scripted.complete("ab", max_tokens=3, ignore_eos=True).token_ids) == 3
