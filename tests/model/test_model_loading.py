"""What `load` proves, refuses, remembers and gives back."""

from __future__ import annotations

import ctypes
import dataclasses
import gc
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted_gguf import Scripted

import llama_magic as lm
from llama_magic import fit
from llama_magic.engine import crash_check
from llama_magic.sources import cache_dir

sys.path.insert(0, str(Path(__file__).parents[1] / "gguf"))
from gguf_build import tiny_llama

HERE = Path(__file__).parent
BAD = HERE.parents[2] / "shared" / "data" / "bad_gguf.tar.xz"

# --- the crash check ----------------------------------------------------------------------------

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


# --- files that must not harm -------------------------------------------------------------------

_TRY_ALL = """
import json, sys
from pathlib import Path
import llama_magic as lm
found = {}
for path in map(Path, sys.argv[1:]):
    try:
        with lm.load(path, ctx=512, threads=1) as model:
            answer = model.complete("ab", max_tokens=2, ignore_eos=True)
            found[path.name] = ["ran", len(answer.token_ids), ""]
    except lm.LlamaMagicError as error:
        found[path.name] = [type(error).__name__, getattr(error, "field", None), str(error)]
    print(path, file=sys.stderr)  # the last one is that before the one at which the process ended
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def tried(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    """What became of our own bad files, as `own-NAME`, and of the shared ones, in one process."""
    folder = tmp_path_factory.mktemp("bad")
    (folder / "own").mkdir()
    _write_bad_files(folder / "own")
    if BAD.exists():
        with tarfile.open(BAD) as tar:
            tar.extractall(folder / "shared", filter="data")
    files = sorted(folder.rglob("*.gguf"))
    command = [sys.executable, "-c", _TRY_ALL, *map(str, files)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout)
    assert len(found) == len(files)
    return found  # type: ignore[no-any-return]


def _write_bad_files(folder: Path) -> None:
    """Write damaged copies of a working file, and the whole one."""
    good = tiny_llama()
    files = {
        "good": good,
        "cut": good.with_kv("general.name", "str", "cut"),
        "no_norm": good.without_tensor("output_norm.weight"),
        "wide": good.with_tensor("output.weight", shape=(63, 260)),
        "heads": good.with_kv("llama.attention.head_count", "u32", 0),
        "layers": good.with_kv("llama.block_count", "u32", 1 << 20),
        "arch": good.with_kv("general.architecture", "str", "no-such-thing"),
        "scores": good.with_kv("tokenizer.ggml.scores", "arr[f32]", [0.0] * 7),
        "bos": good.with_kv("tokenizer.ggml.bos_token_id", "u32", 70_000),
    }
    for name, file in files.items():
        file.write(folder / f"own-{name}.gguf")
    (folder / "own-cut.gguf").write_bytes((folder / "own-good.gguf").read_bytes()[:-50_000])
    (folder / "own-page.gguf").write_bytes(b"<!DOCTYPE html><html></html>")
    (folder / "own-nothing.gguf").write_bytes(b"")


def test_own_bad_files(tried: dict[str, list[Any]]) -> None:
    """Damaged copies of a working file are refused by field in one process, which lives on; the whole
    one runs.
    """
    found = {name: told for name, told in tried.items() if name.startswith("own-")}
    assert len(found) == 11
    assert found.pop("own-good.gguf")[0] == "ran"
    for name, (kind, field, text) in found.items():
        if name == "own-bos.gguf" and kind == "ran":
            continue  # llama.cpp itself ignores it
        assert kind in ("InvalidGGUFError", "SourceError"), (name, kind, text)
        assert field or kind == "SourceError", (name, text)


@pytest.mark.parametrize("_archive", [BAD] if BAD.exists() else [])
def test_shared_bad_files(_archive: Path, tried: dict[str, list[Any]]) -> None:
    """Every file of the collection is refused by an error that names a field, or is harmless and runs."""
    found = {name: told for name, told in tried.items() if not name.startswith("own-")}
    assert len(found) >= 76
    for name, (kind, field, text) in found.items():
        if kind == "ran":
            assert name[0] in "vwp", name
            assert field >= 1
        else:
            assert kind in ("InvalidGGUFError", "SourceError", "BackendError", "FitError"), (name, kind)
            assert field or len(text) > 40, (name, text)


# --- options ------------------------------------------------------------------------------------


def test_window_is_one_number_everywhere(scripted_file: Scripted) -> None:
    """ctx=1000 becomes 1,024 in the window, the cache, the budget and the error, and a note says so."""
    with lm.load(scripted_file.path, ctx=1000, threads=1) as model:
        assert model.window == 1024
        assert model.backend.call(lambda core: core.lane(exact=False).context.n_ctx) == 1024
        assert model.complete("a", max_tokens=3).budget.window == 1024
        assert any("1,000" in note and "1,024" in note for note in model.notes)
        with pytest.raises(lm.ContextOverflowError) as caught:
            model.complete("a" * 1020, max_tokens=10)
        assert caught.value.window == 1024


@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({"lora": "no/such/adapter.gguf"}, lm.SourceError, "adapter"),
        ({"ctxx": 5}, lm.OptionError, "Did you mean ctx"),
        ({"type_k": "f16"}, lm.OptionError, "Did you mean kv_type"),
        ({"revison": "main"}, lm.OptionError, "Did you mean revision"),
        ({"ctx": "5"}, lm.InputTypeError, "whole number"),
        ({"ctx": -1}, lm.OptionError, "ctx"),
        ({"kv_type": "q3"}, lm.OptionError, "q8_0"),
        ({"profile": "slow"}, lm.OptionError, "fast"),
        ({"kv_type": "q8_0", "flash_attn": "off"}, lm.OptionError, "flash"),
        ({"gpu_layers": "some"}, lm.OptionError, "all"),
        ({"formatter": "llama99"}, lm.LlamaMagicError, "llama"),
    ],
)
def test_options_that_cannot_be_meant(
    scripted_file: Scripted, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    """A wrong option is refused by name before anything is loaded."""
    with pytest.raises(error, match=words):
        lm.load(scripted_file.path, **options)


def test_gpu_layers_on_a_cpu_build_are_refused(
    scripted_file: Scripted, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the build has no GPU support, `gpu_layers` says how to rebuild; 0 is taken."""
    from llama_magic.loading import checks

    monkeypatch.setattr(checks, "supports_gpu", lambda: False)
    with pytest.raises(lm.OptionError, match="GGML_CUDA"):
        lm.load(scripted_file.path, gpu_layers=4)
    with pytest.raises(lm.OptionError, match="gpu_layers='all' was asked for"):
        lm.load(scripted_file.path, gpu_layers="all")
    lm.load(scripted_file.path, ctx=512, gpu_layers=0, threads=1).close()


def test_model_is_no_lora_adapter(scripted_file: Scripted) -> None:
    """A GGUF that is not an adapter is refused as one, by field."""
    with pytest.raises(lm.InvalidGGUFError, match="adapter"):
        lm.load(scripted_file.path, lora=str(scripted_file.path), ctx=512)


def test_dry_run_loads_nothing(scripted_file: Scripted) -> None:
    """`dry_run` names size, window and memory, and no model is in memory after it."""
    from llama_magic.loading import hooks

    before = hooks.loaded()
    report = lm.load(scripted_file.path, ctx=1000, dry_run=True)
    assert (report.window, report.size) == (1024, scripted_file.path.stat().st_size)
    assert "nothing was loaded" in str(report)
    assert f"at most about {fit.rounded(report.speed.tokens_per_second)} tokens per second" in str(report)
    assert hooks.loaded() == before


def test_a_model_says_how_fast_it_can_be(scripted: Any) -> None:
    """The limit is that of its own threads and KV type: what a dry run with the same options says."""
    report = lm.load(scripted.path, ctx=1024, threads=1, dry_run=True)
    assert scripted.speed == report.speed
    assert scripted.speed.threads == 1


def test_every_kv_type_and_window_answers(
    scripted_file: Scripted, answers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each KV type, flash attention mode and profile gives the scripted answer."""
    in_child = crash_check.run_child

    def tried(trial: crash_check.Trial, size: int) -> crash_check.TrialVerdict:
        """Try one of the types in a child: for all thirteen it is 2 s."""
        survived = crash_check.TrialVerdict(True, trial.use_extra_bufts)
        return in_child(trial, size) if trial.type_k == "q4_0" else survived

    monkeypatch.setattr(crash_check, "run_child", tried)
    question, answer = next(iter(answers.items()))
    cases: list[dict[str, Any]] = [{"kv_type": k} for k in ("f16", "q8_0", "q4_0")]
    cases += [{"flash_attn": f} for f in ("on", "off")]
    cases += [{"profile": p} for p in ("fast", "balanced", "quality", "memory", "batch")]
    cases += [{"mmap": False}, {"batch": 1}, {"ctx": 0}]
    for case in cases:
        with lm.load(scripted_file.path, **{"ctx": 512, "threads": 1, **case}) as model:
            assert model.complete(question, max_tokens=12).text == answer, case
            assert model.complete(question, max_tokens=12, seed=1).text == answer, case


# --- memory -------------------------------------------------------------------------------------


class _Mallinfo2(ctypes.Structure):
    """glibc's `struct mallinfo2`, summed over all arenas."""

    _fields_ = [
        (name, ctypes.c_size_t)
        for name in [
            "arena",
            "ordblks",
            "smblks",
            "hblks",
            "hblkhd",
            "usmblks",
            "fsmblks",
            "uordblks",
            "fordblks",
            "keepcost",
        ]
    ]


def allocated() -> int:
    """Return the bytes that C code holds now. Resident memory would also count what glibc keeps for later."""
    gc.collect()
    mallinfo2 = ctypes.CDLL(None).mallinfo2
    mallinfo2.restype = _Mallinfo2
    info = mallinfo2()
    return int(info.uordblks + info.hblkhd)


def cycles(paths: list[Path], n: int) -> Iterator[int]:
    """Load, use and close each file in turn; yield what is allocated after each round."""
    for _ in range(n):
        for path in paths:
            with lm.load(path, ctx=1024, threads=1) as model:
                model.complete("Hello", max_tokens=4, seed=1)
                model.complete("Hello there", max_tokens=4, n=2)
        yield allocated()


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="counted by glibc's mallinfo2")
def test_memory_is_given_back(scripted_file: Scripted, path_of: Callable[[str], Path]) -> None:
    """Load and close two in turn: from the third round on C code holds no more than before, within 1 MB."""
    # In a process of its own: what other tests hold, and give back, would be counted here.
    script = "import sys; from pathlib import Path; from test_model_loading import cycles\n"
    script += "print(*cycles([*map(Path, sys.argv[1:])], 6))"
    places = [str(Path(__file__).parent), str(Path(__file__).parents[1])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(places)}
    done = subprocess.run(
        [sys.executable, "-c", script, str(scripted_file.path), str(path_of("short"))],
        capture_output=True,
        text=True,
        check=True,
        timeout=600,
        env=environment,
    )
    sizes = [int(size) for size in done.stdout.split()]
    assert sizes[-1] - sizes[2] < 1e6, [round(s / 1e6, 2) for s in sizes]


@pytest.mark.parametrize("raised", [ValueError("mine"), OSError(5, "mine"), RecursionError("mine")])
def test_an_error_of_the_progress_callback_is_the_callers(raised: Exception, scripted_file: Scripted) -> None:
    """It leaves as it is, at whatever stage: no error of the source, of the disk or the network."""
    for stage in ("resolve", "load"):

        def progress(state: Any, stage: str = stage) -> None:
            if state.stage == stage:
                raise raised

        with pytest.raises(type(raised)) as caught:
            lm.load(scripted_file.path, ctx=256, threads=2, progress=progress)
        assert caught.value is raised


# --- interrupts while loading -------------------------------------------------------------------

_INTERRUPTED_LOAD = """
import json, os, signal, sys, threading, time
import llama_magic as lm
from llama_magic.engine import crash_check
from llama_magic.loading import hooks
from llama_magic.loading import weights
path = sys.argv[1]
command = crash_check.command
for stage in ("check", "load"):
    if stage == "check":  # which does not end before it is interrupted
        crash_check.command = lambda: [sys.executable, "-c", "import time; time.sleep(600)"]
    sent = []
    def progress(p):
        if p.stage == stage and not sent:
            sent.append(p)
            threading.Timer(0.02, os.kill, (os.getpid(), signal.SIGINT)).start()
    model = None
    try:
        model = lm.load(path, ctx=1024, threads=1, progress=progress)
        print("loaded")
        time.sleep(600)
    except KeyboardInterrupt:
        print("interrupted")
    del model
    crash_check.command = command
    with lm.load(path, ctx=1024, threads=1) as model:
        print(model.complete("Hello", max_tokens=3, seed=1).finish_reason)
    del model
    for _ in range(12_000):  # what was left behind ends soon
        if not hooks.loaded() and not weights.in_memory():
            break
        time.sleep(0.01)
    print(len(hooks.loaded()), len(weights.in_memory()))
"""


def test_interrupt_while_loading(path_of: Callable[[str], Path], tmp_path: Path) -> None:
    """Ctrl-C in the crash check or the mapping ends the load; nothing stays in memory, and a second
    load works.
    """
    env = {**os.environ, "LLAMA_MAGIC_CACHE": str(tmp_path)}  # the check is there where nothing is remembered
    command = [sys.executable, "-c", _INTERRUPTED_LOAD, str(path_of("short"))]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    after = "interrupted\nlength\n0 0\n"
    assert done.stdout in (
        after + after,
        f"{after}loaded\n{after}",
    )  # the mapping may be done before it comes


def test_memory_of_seeded_answers(real_name: str, path_of: Any) -> None:
    """The context for seeded answers is foretold, counted once it is there, and refused without room."""
    with lm.load(path_of(real_name), ctx=1024, threads=1, kv_type="q8_0") as model:
        before = model.memory
        assert "actual_seeded" not in before
        poor = dataclasses.replace(fit.machine(), ram_available=before["predicted_seeded"] - 1)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(fit, "machine", lambda: poor)
            with pytest.raises(lm.FitError, match="context of their own"):
                model.complete("a", seed=1, max_tokens=1)
            assert model.complete("a", max_tokens=1).usage.completion_tokens == 1
        model.complete("a", seed=1, max_tokens=1)
        after = model.memory
        seeded = after["actual_seeded"]
        assert after["predicted_seeded"] == pytest.approx(seeded, rel=0.1)
        assert after["actual_total"] == before["actual_total"] + seeded
        assert after["predicted_total"] == before["predicted_total"] + before["predicted_seeded"]
