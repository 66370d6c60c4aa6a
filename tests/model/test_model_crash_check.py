"""The crash check: a file is tried in a process of its own, and what is remembered of it."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_gguf import Scripted

import llama_magic as lm
from llama_magic import gguf
from llama_magic.engine import crash_check
from llama_magic.sources import cache_dir

_CHILD = """
import json, os, signal, sys
trial = json.load(sys.stdin)
print("stage load", flush=True)
open({log!r}, "a").write("run\\n")
if {mode!r} == "always" or ({mode!r} == "repacked" and trial["use_extra_bufts"]):
    print("stage decode", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
if {mode!r} == "killed":
    os.kill(os.getpid(), signal.SIGKILL)
if {mode!r} == "refuse":
    print("refused the tensor has an odd shape", flush=True)
    sys.exit(3)
print("survived", flush=True)
"""


@pytest.fixture
def child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Callable[[], int]]:
    """Put a script of a given fate in place of the child process; returns a count of its runs."""
    monkeypatch.setenv("LLAMA_MAGIC_CACHE", str(tmp_path / "cache"))

    def use(mode: str) -> Callable[[], int]:
        log = tmp_path / "runs"
        script = _CHILD.format(log=str(log), mode=mode)
        monkeypatch.setattr(crash_check, "command", lambda: [sys.executable, "-c", script])
        return lambda: len(log.read_text().splitlines()) if log.exists() else 0

    return use


def test_crash_with_repacked_weights_is_avoided(child: Any, scripted_file: Scripted) -> None:
    """A child killed with repacked weights: the load goes on without them, says so, and remembers it."""
    runs = child("repacked")
    for _ in range(2):
        with lm.load(scripted_file.path, ctx=512, threads=1) as model:
            assert any("repacked" in note and "GGML_NATIVE=OFF" in note for note in model.notes)
            assert model.backend.weights.options.use_extra_bufts is False
            assert model.complete("a", max_tokens=2).finish_reason == "stop"
        assert runs() == 3  # twice with and once without; the second load asked no child
    assert [v.fell_back for v in crash_check.verdicts(cache_dir() / "crash_checks.json")] == [True]


def test_file_that_always_kills_is_refused(child: Any, scripted_file: Scripted) -> None:
    """A child that dies both ways is an InvalidGGUFError that names stage and signal; nothing is
    loaded here.
    """
    child("always")
    with pytest.raises(lm.InvalidGGUFError, match=r"decode.*SIGSEGV") as caught:
        lm.load(scripted_file.path, ctx=512, threads=1)
    assert caught.value.field == "decode"


def test_refusal_of_llama_cpp_is_passed_on(child: Any, scripted_file: Scripted) -> None:
    """A child that refuses the file gives a BackendError with its words."""
    child("refuse")
    with pytest.raises(lm.BackendError, match="odd shape"):
        lm.load(scripted_file.path, ctx=512, threads=1)


@pytest.mark.parametrize(
    "content",
    [b"", b"{", b"[1]", b"\xff\xfe", b'{"K": 5}', b'{"K": {"survived": true, "new": 1}}', b'{"K": {}}'],
)
def test_damaged_store_of_verdicts_is_written_anew(
    child: Any, scripted_file: Scripted, content: bytes
) -> None:
    """A store that cannot be read, or holds an unknown form of this very verdict, costs one more child."""
    runs = child("never")
    store = cache_dir() / "crash_checks.json"
    lm.load(scripted_file.path, ctx=512, threads=1).close()
    key = next(iter(json.loads(store.read_text())))
    store.write_bytes(content.replace(b"K", key.encode()))
    crash_check.verdicts(store)
    lm.load(scripted_file.path, ctx=512, threads=1).close()
    assert runs() == 2
    assert len(crash_check.verdicts(store)) == 1


def test_store_that_cannot_be_written_is_no_error(child: Any, scripted_file: Scripted) -> None:
    """Where the verdict cannot be remembered the load works all the same."""
    child("never")
    (cache_dir() / "crash_checks.json").mkdir()
    lm.load(scripted_file.path, ctx=512, threads=1).close()


def test_a_file_that_has_survived_is_not_validated_again_until_it_changes(
    child: Any, scripted_file: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second load of a file reads no vocabulary; cut short, with the very same header, it is refused."""
    child("never")
    file = Path(shutil.copy(scripted_file.path, tmp_path / "model.gguf"))
    validated: list[Any] = []
    validate = gguf.validate
    monkeypatch.setattr(gguf, "validate", lambda info: (validated.append(info), validate(info)))
    for _ in range(2):
        lm.load(file, ctx=512, threads=1).close()
        assert len(validated) == 1
    times = file.stat()
    os.truncate(file, times.st_size - 32)
    os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    with pytest.raises(lm.InvalidGGUFError, match="ends"):
        lm.load(file, ctx=512, threads=1)
    assert len(validated) == 2


def test_child_gets_the_whole_trial(scripted_file: Scripted, tmp_path: Path) -> None:
    """The verdict is asked for again when KV type or flash attention differ, and only then."""
    seen = []

    def run(trial: crash_check.Trial, size: int) -> crash_check.TrialVerdict:
        seen.append((trial.type_k, trial.flash_attn))
        return crash_check.TrialVerdict(True, trial.use_extra_bufts)

    for kv, flash in [("f16", "auto"), ("q8_0", "auto"), ("f16", "auto"), ("f16", "off")]:
        trial = crash_check.Trial((str(scripted_file.path),), 0, True, True, kv, kv, flash)
        crash_check.check(trial, size=1, fingerprint="f", store=tmp_path / "s.json", run=run)
    assert seen == [("f16", "auto"), ("q8_0", "auto"), ("f16", "off")]


def test_a_refused_file_that_has_changed_is_tried_again(tmp_path: Path) -> None:
    """A file refused for its weights and downloaded again has the same header; its verdict is a new one."""
    file = tmp_path / "x.gguf"
    file.write_bytes(b"GGUF bad")
    trial = crash_check.Trial((str(file),), 0, True, False, "f16", "f16", "auto")
    bad = crash_check.TrialVerdict(False, False, "weights", "NaN")
    fates = [bad, bad, crash_check.TrialVerdict(True, False)]

    def check() -> crash_check.TrialVerdict:
        store = tmp_path / "s.json"
        return crash_check.check(trial, size=8, fingerprint="f", store=store, run=lambda t, s: fates.pop(0))

    assert [check().survived, check().survived] == [False, False]
    file.write_bytes(b"GGUF whole")
    assert [check().survived, check().survived] == [True, True]
    assert not fates


@pytest.mark.parametrize(
    "cause",
    [
        *(
            "killed by SIGKILL",
            "killed by SIGTERM",
            "killed by SIGINT",
            "killed by SIGXCPU",
            "killed by signal 42",
        ),
        *(
            "no answer after 60 s",
            "exit code 1: MemoryError",
            "exit code 1: OSError: No space left on device",
        ),
        "killed by SIGABRT: ggml_aligned_malloc: insufficient memory (attempted to allocate 9.00 MB)",
        "killed by SIGABRT: terminate called after throwing an instance of 'std::bad_alloc'",
        "llama.cpp could not load x.gguf. llama.cpp said: unable to allocate CPU buffer",
    ],
)
def test_what_the_machine_may_have_done_is_not_remembered(tmp_path: Path, cause: str) -> None:
    """A child that was killed from outside, or lacked memory, disk or time, gives a verdict for this once."""
    file, store = tmp_path / "x.gguf", tmp_path / "s.json"
    file.write_bytes(b"GGUF")
    fates = [crash_check.TrialVerdict(False, True, "decode", cause), crash_check.TrialVerdict(True, True)]
    trial = crash_check.Trial((str(file),), 0, True, True, "f16", "f16", "auto")

    def check() -> crash_check.TrialVerdict:
        return crash_check.check(trial, size=8, fingerprint="f", store=store, run=lambda t, s: fates.pop(0))

    first = check()
    assert (first.survived, first.of_the_file, crash_check.verdicts(store)) == (False, False, [])
    assert check().survived
    assert [v.fell_back for v in crash_check.verdicts(store)] == [False]


def test_a_crash_that_does_not_come_again_refuses_nothing(tmp_path: Path) -> None:
    """One SIGSEGV and then a child that lives: the file is sound, with repacked weights, and that is kept."""
    file, store = tmp_path / "x.gguf", tmp_path / "s.json"
    file.write_bytes(b"GGUF")
    fates = [
        crash_check.TrialVerdict(False, True, "decode", "killed by SIGSEGV"),
        crash_check.TrialVerdict(True, True),
    ]
    trial = crash_check.Trial((str(file),), 0, True, True, "f16", "f16", "auto")
    found = crash_check.check(trial, size=8, fingerprint="f", store=store, run=lambda t, s: fates.pop(0))
    assert (found.survived, found.fell_back, len(crash_check.verdicts(store))) == (True, False, 1)


def test_weights_that_nobody_wanted_repacked_are_no_fall_back(tmp_path: Path) -> None:
    """`profile="memory"` asks for no repacking: the verdict on it does not say that the build crashes."""
    file, store = tmp_path / "x.gguf", tmp_path / "s.json"
    file.write_bytes(b"GGUF")
    trial = crash_check.Trial((str(file),), 0, True, False, "f16", "f16", "auto")
    for _ in range(2):
        found = crash_check.check(
            trial,
            size=8,
            fingerprint="f",
            store=store,
            run=lambda t, s: crash_check.TrialVerdict(True, False),
        )
        assert (found.survived, found.fell_back) == (True, False)
    assert [v.fell_back for v in crash_check.verdicts(store)] == [False]


def test_a_child_killed_from_outside_costs_one_load(child: Any, scripted_file: Scripted) -> None:
    """SIGKILL of the child, as the out-of-memory killer does: the error does not blame the file, the next
    load works.
    """
    child("killed")
    with pytest.raises(lm.BackendError, match=r"SIGKILL") as caught:
        lm.load(scripted_file.path, ctx=512, threads=1)
    assert "says nothing about the file" in str(caught.value)
    assert "damaged" not in str(caught.value)
    child("never")
    lm.load(scripted_file.path, ctx=512, threads=1).close()


@pytest.mark.parametrize(
    ("program", "why"),
    [
        ("/nowhere/python", "No such file or directory"),
        ("", "denied|No such file"),  # a program that embeds Python and does not know of one
        ("/dev/null", "denied"),
        ("/bin/false", "exit code 1"),  # another program than Python, as of an application
        ("/bin/true", "exit code 0"),
        ("/bin/ls", "exit code 2: .*"),
    ],
)
def test_a_process_that_runs_no_python_is_named(
    child: Any, scripted_file: Scripted, monkeypatch: pytest.MonkeyPatch, program: str, why: str
) -> None:
    """Where `sys.executable` is no Python with this package, that is said, and neither memory nor the file is
    blamed; nothing is remembered.
    """
    child("never")  # and in its place:
    monkeypatch.setattr(crash_check, "command", lambda: [program, "-m", "llama_magic.engine.trial_child"])
    with pytest.raises(lm.BackendError, match=why) as caught:
        lm.load(scripted_file.path, ctx=512, threads=1)
    assert repr(program) in str(caught.value)
    assert "Set sys.executable" in str(caught.value)
    assert "memory" not in str(caught.value)
    child("never")
    lm.load(scripted_file.path, ctx=512, threads=1).close()


def test_a_remembered_crash_says_how_to_ask_again(child: Any, scripted_file: Scripted) -> None:
    """Two crashes alike are remembered; the refusal names the store, without it the file is tried anew."""
    runs = child("always")
    for _ in range(2):
        with pytest.raises(lm.InvalidGGUFError, match="2 times in a row") as caught:
            lm.load(scripted_file.path, ctx=512, threads=1)
    assert runs() == 4  # twice each, with repacked weights and without; nothing at the second load
    store = cache_dir() / "crash_checks.json"
    assert f"to have it tried again, remove {store}" in str(caught.value)
    store.unlink()
    child("never")
    lm.load(scripted_file.path, ctx=512, threads=1).close()


@pytest.mark.parametrize("place", ["/dev/null/cache", "/proc/none/cache"])
def test_a_cache_folder_that_cannot_be_made_refuses_no_local_file(
    child: Any, scripted_file: Scripted, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    """Where the cache folder cannot be made a local file loads, and one line says what is not remembered."""
    child("never")
    monkeypatch.setenv("LLAMA_MAGIC_CACHE", place)
    with lm.load(scripted_file.path, ctx=512, threads=1) as model:
        notes = [note for note in model.notes if place in note]
        assert len(notes) == 1
        assert "not remembered" in notes[0]
        assert model.complete("a", max_tokens=2).finish_reason == "stop"
