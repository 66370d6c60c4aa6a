"""Every operation on disk and network fails once, and from there on: old or new state, a named error.

What is left behind is what is meant to be: nothing, or a `.partial` that the next call goes on from.
"""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from llama_magic import sources
from llama_magic.engine import crash_check
from llama_magic.engine.kv.store import Stretch
from llama_magic.engine.moves import SavedSequence
from llama_magic.errors import LlamaMagicError, SourceError
from llama_magic.experiments.saved_answers import read_answers
from llama_magic.fit import _speed
from llama_magic.microscope import savefile
from llama_magic.record.record import Record
from llama_magic.session.chat import Chat
from llama_magic.session.history import History
from llama_magic.session.turns import Turn
from llama_magic.testing import scripted_model

sys.path.insert(0, str(Path(__file__).parents[1]))
from faults import every_fault

sys.path.pop(0)


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.rglob("*") if path.is_file()}


def test_a_download_survives_every_fault(hub: Any, gguf: Any, machine: Path) -> None:
    """The file is whole or not there; the error is a SourceError; the next call has the whole file."""
    data = gguf(150_000)
    hub.files["/m.gguf"] = data
    cache, struck = machine / "cache", set()

    def fetch() -> None:
        assert sources.resolve(hub.url + "/m.gguf").path.read_bytes() == data

    for fault in every_fault(fetch, machine):
        shutil.rmtree(cache)
        with fault:
            try:
                path = sources.resolve(hub.url + "/m.gguf").path
                assert path.stat().st_size == len(data), fault
            except SourceError:
                pass
        struck.add(fault.struck)
        assert all(p.read_bytes() == data for p in cache.rglob("m.gguf")), fault
        left = {name for name in _names(cache) if name.endswith((".tmp", ".owner"))}
        assert not left, (fault, left)
        fetch()
        assert {n for n in _names(cache) if not n.endswith(".lock")} == {
            *("m.gguf", "m.gguf.entry.json"),
            *(p.name for p in (cache / "verified").glob("*")),
        }, fault
    assert struck - {None} == {"open", "read", "write", "fsync", "rename", "mkdir", "recv"}


def test_a_hub_download_survives_every_fault(
    monkeypatch: pytest.MonkeyPatch, hub: Any, gguf: Any, fake: Any, machine: Path
) -> None:
    """In huggingface-hub's cache, too: whole or not there, a named error, and the next call has it."""
    monkeypatch.setattr("huggingface_hub.utils._http.time.sleep", lambda seconds: None)
    data = gguf(90_000)
    hub.repos["o/r"] = fake.Repo({"m-Q4_0.gguf": data})

    def fetch() -> Path:
        path = sources.resolve("o/r:Q4_0").path
        assert path.read_bytes() == data
        return path

    for fault in every_fault(fetch, machine, only=24):
        for folder in ("cache", "hf"):
            shutil.rmtree(machine / folder, ignore_errors=True)
        with fault:
            try:
                path = sources.resolve("o/r:Q4_0").path
                assert path.stat().st_size == len(data), fault
            except SourceError:
                pass
        assert all(p.read_bytes() == data for p in machine.rglob("m-Q4_0.gguf")), fault
        fetch()
        # huggingface-hub itself leaves a name such as refs/main.54fc9f6c.tmp where its rename fails.
        left = {name for name in _names(machine) if name.endswith((".tmp", ".owner", ".partial"))}
        left = {name for name in left if not name.startswith("main.")}
        assert not left, (fault, left)


def test_a_measure_survives_every_fault(monkeypatch: pytest.MonkeyPatch, machine: Path) -> None:
    """The machine's speed is told though it cannot be kept, and nothing half is ever read."""
    monkeypatch.setattr(_speed, "bandwidth", lambda threads: 5e9)
    monkeypatch.setattr(_speed, "sums", lambda: 2e9)
    rates = _speed.rates.__wrapped__

    for fault in every_fault(lambda: rates(2), machine):
        shutil.rmtree(machine / "cache", ignore_errors=True)
        with fault:
            assert rates(2) == _speed.Rates(5e9, 2e9), fault
        assert _names(machine / "cache") <= {"speed.json"}, fault
        assert rates(2) == _speed.Rates(5e9, 2e9), fault


def test_a_digest_survives_every_fault(gguf: Any, machine: Path) -> None:
    """`sha256` of a local file: the verdict, or a named error; what cannot be remembered is no error."""
    import hashlib

    file = machine / "x.gguf"
    file.write_bytes(gguf(9_000))
    digest = hashlib.sha256(file.read_bytes()).hexdigest()

    def check() -> Path:
        return sources.resolve(file, sha256=digest).path

    for fault in every_fault(check, machine):
        shutil.rmtree(machine / "cache", ignore_errors=True)
        with fault:
            try:
                assert check() == file
            except LlamaMagicError:
                assert fault.lasting or fault.struck in ("open", "read"), fault
        assert not [name for name in _names(machine) if name.endswith(".tmp")], fault
        assert check() == file


def test_the_crash_checks_memory_survives_every_fault(machine: Path) -> None:
    """A verdict that cannot be remembered is given all the same, and no half of a store is ever read."""
    file, store = machine / "x.gguf", machine / "store" / "s.json"
    file.write_bytes(b"GGUF")
    trial = crash_check.Trial((str(file),), 0, True, True, "f16", "f16", "auto")

    def check(header: str = "new") -> bool:
        run = lambda trial, size: crash_check.TrialVerdict(True, True)  # noqa: E731 - one line
        return crash_check.check(trial, size=4, fingerprint=header, store=store, run=run).survived

    for fault in every_fault(check, machine):
        shutil.rmtree(store.parent)
        check("old")
        with fault:
            assert check()
        assert len(crash_check.verdicts(store)) in (1, 2), fault
        assert _names(store.parent) == {"s.json"}, fault


def _chat(text: str) -> Chat:
    return Chat("c", [Turn(({"role": "user", "content": text}, {"role": "assistant", "content": "yes"}))])


_OWNER = savefile.Fingerprint("abc", 100, {"type_k": "f16"})


def _sequence(seed: int) -> SavedSequence:
    state = np.random.default_rng(seed).bytes(5000)
    return SavedSequence((1, 2, 3), 3, (Stretch(0, 3, state),), 3)


def _save_chat(path: Path, number: int) -> None:
    _chat(f"text {number}").save(path)


def _save_sequence(path: Path, number: int) -> None:
    savefile.write(path, _sequence(number), _OWNER)


def _load_chat(path: Path) -> object:
    return Chat.load(path).messages


def _load_sequence(path: Path) -> object:
    return savefile.read(path, _OWNER)


def _answers(number: int) -> list[Any]:
    return scripted_model(lambda _request: f"answer {number}").complete("x", n=3, seed=1, max_tokens=5)


_ANSWERS = {number: _answers(number) for number in (1, 2)}


def _save_history(path: Path, number: int) -> None:
    history = History()
    for answer in _ANSWERS[number]:
        history.add(answer)
    history.save(path)


def _save_export(path: Path, number: int) -> None:
    with Record(path.parent.parent / f"{number}.sqlite") as record:
        record.add(*_ANSWERS[number])
        record.export(path)


def _load_lines(path: Path) -> object:
    return [one.receipt["text"] for one in read_answers(path)[1]]


@pytest.mark.parametrize(
    ("save", "load"),
    [
        (_save_chat, _load_chat),
        (_save_sequence, _load_sequence),
        (_save_history, _load_lines),
        (_save_export, _load_lines),
    ],
    ids=["chat", "kv", "history", "export"],
)
def test_a_saved_file_survives_every_fault(tmp_path: Path, save: Any, load: Any) -> None:
    """Chats and sequences: the old file or the new one, nothing beside it; reading names its fault."""
    folder = tmp_path / "saved"
    folder.mkdir()
    path = folder / "a.file"
    save(path, 2)
    new, new_value = path.read_bytes(), load(path)
    save(path, 1)
    old = path.read_bytes()
    for fault in every_fault(lambda: save(path, 2), tmp_path):
        save(path, 1)
        with fault, pytest.raises(SourceError):
            save(path, 2)
        assert (path.read_bytes(), os.listdir(folder)) == (old, ["a.file"]), fault
    save(path, 2)
    assert path.read_bytes() == new
    for fault in every_fault(lambda: load(path), tmp_path):
        with fault, pytest.raises(SourceError):
            load(path)
        assert load(path) == new_value
