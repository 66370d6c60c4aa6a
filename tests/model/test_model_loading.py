"""Files that must not harm, options of a load, and a Ctrl-C in the middle of it."""

from __future__ import annotations

import dataclasses
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gguf_build import tiny_llama
from scripted_gguf import Scripted

import llama_magic as lm
from llama_magic import fit
from llama_magic.engine import crash_check

HERE = Path(__file__).parent


BAD = HERE.parents[2] / "shared" / "data" / "bad_gguf.tar.xz"


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


def test_refused_while_the_weights_are_read(
    scripted_file: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A template that cannot be used ends the load, and the weights that were on their way are freed."""
    from llama_magic.loading import weights

    freed = threading.Event()

    class Noted(weights.Weights):
        def __init__(self, *given: Any) -> None:
            try:
                super().__init__(*given)
            except lm.BackendError:  # llama.cpp was told in the middle
                freed.set()
                raise

        def close(self) -> None:
            super().close()
            freed.set()

    monkeypatch.setattr(weights, "Weights", Noted)
    file = shutil.copy(scripted_file.path, tmp_path / "alone.gguf")
    template = tmp_path / "open.jinja"
    template.write_text("{% for m in messages %}{{ m.content }}")
    with pytest.raises(lm.TemplateError, match="compile"):
        lm.load(file, ctx=512, formatter=str(template))
    assert freed.wait(60)


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
