"""The verbs of %llama over a scripted model."""

from __future__ import annotations

import datetime
import gc
import re
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from llama_magic.errors import InputTypeError, ModelClosedError, OptionError
from llama_magic.session.session import current
from llama_magic.testing import Script
from llama_magic.words.amounts import size

QUESTION = "\u4e00"  # of the scripted file, which answers it


def test_load_gives_the_model_and_makes_it_current(ip: Any, run: Any, session: Any) -> None:
    """The same source is the same object; --as names it; options reach the loader."""
    first = run("%llama load a --ctx 128 --mlock --lora x.gguf:0.5").result
    assert session.loader.calls[-1] == ("a", {"ctx": 128, "mlock": True, "lora": ("x.gguf:0.5",)})
    assert run("%llama load a").result is first
    assert list(session.models) == ["a"]
    run("%llama load b --as bee")
    assert session.current_name == "bee"
    assert run("%llama use a").result is first
    assert session.current_name == "a"
    assert "Did you mean bee?" in str(run("%llama use be").error_in_exec)


def test_dry_run_loads_nothing(ip: Any, run: Any, scripted_file: Any) -> None:
    """--dry-run gives back the report and leaves the session alone."""
    report = run(f'%llama load "{scripted_file.path}" --dry-run').result
    assert "scripted" in str(report)
    assert current(ip).models == {}


def test_unload_drops_what_ipython_keeps(ip: Any, run: Any, session: Any) -> None:
    """After unload neither `Out`, `_`, `_1` nor the session holds the model: it can be collected."""
    run("%llama load a")
    reference = weakref.ref(session.models["a"])
    run("1 + 1")
    run("_1")
    session.loader.models.clear()
    assert run("%llama unload").result is None
    gc.collect()
    assert reference() is None
    assert session.models == {}
    assert session.current_name is None
    assert isinstance(run("%llama unload").error_in_exec, OptionError)


def test_a_variable_of_the_user_keeps_a_closed_model(ip: Any, run: Any, session: Any) -> None:
    """The user's own name still holds the object, which says that it is closed."""
    run("m = get_ipython().run_line_magic('llama', 'load a')")
    run("%llama unload --all")
    assert isinstance(run("m.kv").error_in_exec, ModelClosedError)


def test_unload_by_name_leaves_the_others(run: Any, session: Any) -> None:
    """Another model becomes current again."""
    run("%llama load a")
    run("%llama load b")
    run("%llama unload b")
    assert session.current_name == "a"
    assert isinstance(run("%llama unload a --all").error_in_exec, OptionError)


def test_models_lists_loaded_and_on_disk(
    run: Any, session: Any, engine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each loaded model and each file on disk is a row with its size; no file is listed twice."""
    from llama_magic import sources

    found = [
        SimpleNamespace(name="a", path=engine.path, size=3_000_000, kind="path", helps_as=""),
        SimpleNamespace(name="z", path=Path("/disk/z.gguf"), size=2_000_000_000, kind="hub", helps_as=""),
        SimpleNamespace(name="m", path=Path("/disk/m.gguf"), size=900, kind="hub", helps_as="projector"),
    ]
    monkeypatch.setattr(sources, "on_disk", lambda: found)
    run("%llama load b --ctx 99")
    rows = run("%llama models").result.rows
    assert rows == (
        (engine.name, "loaded", size(engine.path.stat().st_size), 1024, str(engine.path)),
        ("b", "current", None, 99, None),
        ("z", "on disk", "2 GB", None, "/disk/z.gguf"),
        ("m", "on disk, projector", "900 B", None, "/disk/m.gguf"),
    )


def test_tokens(ip: Any, run: Any, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The text arrives as written, and -o binds the strip."""
    assert run("%llama tokens don't {x} $y").result.text == "don't {x} $y"
    assert run("%llama tokens -o strip it's").result is None
    assert ip.user_ns["strip"].text == "it's"
    assert "it's" in capsys.readouterr().out


def test_sampler_sets_over_config_and_resets(run: Any, model: Any) -> None:
    """`%llama sampler` sets what cells use, over %config until that is set again; reset goes back."""
    run("%config LlamaMagics.temperature = 0.5")
    assert run("%llama sampler").result.temperature == 0.5
    chain = run('%llama sampler temperature=0.2 top-k=5 samplers="top_k;temperature"').result
    assert (chain.temperature, chain.top_k, chain.samplers) == (0.2, 5, ("top_k", "temperature"))
    assert run("%%llama complete\nx").result.sampling.top_k == 5
    run("%config LlamaMagics.temperature = 0.9")
    assert run("%llama sampler").result.temperature == 0.9
    assert run("%llama sampler reset").result.top_k == 40
    assert "temperature" in str(run("%llama sampler temprature=1").error_in_exec)
    assert isinstance(run("%llama sampler top_k=many").error_in_exec, InputTypeError)
    assert isinstance(run("%llama sampler top_k").error_in_exec, OptionError)
    for line, near in (
        ("sampler reste", "reset"),
        ("sampler temperature 1", "temperature=…"),
        ("stats rset", "reset"),
    ):
        assert f"Did you mean {near}?" in str(run(f"%llama {line}").error_in_exec)
    error = run("%llama sampler top_k=9 top_p=7").error_in_exec
    assert isinstance(error, OptionError)
    assert run("%llama sampler").result.top_k == 40  # all or nothing


def test_kv(run: Any, engine: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """`kv` shows the state; its actions act on it, with their paths and names; save says what it saved."""
    assert run("%llama kv").result.total == 1024
    run(f"%%llama complete\n{QUESTION}")
    used = run("%llama kv").result.used
    assert used > 2
    run("%llama kv save 'my state.bin'")
    assert re.search(rf"Saved main-0, {used} tokens, [\d.]+ \w+, to my state.bin\.", capsys.readouterr().out)
    forks = run("%llama kv fork main-0 draft").result.forks
    assert forks == (("draft", used),)
    run("%llama kv save other.bin draft")
    assert f"Saved draft, {used} tokens" in capsys.readouterr().out
    assert run("%llama kv clear").result.used == 0
    run("%llama kv restore 'my state.bin'")
    assert run(f"%%llama complete\n{QUESTION}").result.usage.cached_tokens > 0
    assert "clear" in str(run("%llama kv claer").error_in_exec)
    assert isinstance(run("%llama kv save a b c").error_in_exec, OptionError)
    assert isinstance(run("%llama kv save").error_in_exec, OptionError)


def test_kv_without_an_engine_says_so(run: Any, model: Any) -> None:
    """A model whose tokens come from elsewhere has no cache here, in one sentence."""
    assert "needs an engine in it" in str(run("%llama kv").error_in_exec)


def test_a_source_can_be_a_variable(ip: Any, run: Any, session: Any) -> None:
    """`{name}` and `$name` are variables where a source is meant; a `$NAME` that is none is left alone."""
    ip.user_ns.update(p="some model.gguf", where=Path("other.gguf"), number=[3])
    for word, source in (("{p}", "some model.gguf"), ("$where", "other.gguf"), ("$NOWHERE", "$NOWHERE")):
        run(f"%llama load {word}")
        assert session.loader.calls[-1][0] == source
    assert "no variable 'q'" in str(run("%llama load {q}").error_in_exec)
    assert isinstance(run("%llama inspect {number}").error_in_exec, InputTypeError)
    assert "'some model.gguf' has no file here" in str(run("%llama inspect {p}").error_in_exec)


def test_history_is_a_table_with_pandas(run: Any, session: Any, model: Any) -> None:
    """Every generation is a row with prompt, seed, options and timings."""
    run("%%llama complete --seed 4 -t 0.1\nfirst prompt")
    run("%%llama complete\nsecond prompt")
    history = run("%llama history").result
    frame = history.to_pandas()
    assert list(frame["prompt"]) == ["first prompt", "second prompt"]
    assert list(frame["temperature"]) == [0.1, 0.8]
    assert list(frame["seed"]) == [4, session.history[1].completion.seed]
    assert list(frame["seeded"]) == [True, False]
    assert {"total_s", "tokens_per_second", "text", "completion_tokens"} <= set(frame.columns)
    assert "second prompt" in str(history)


def test_doctor_reports_versions_and_problems(run: Any, model: Any) -> None:
    """The report names versions, caches and loaded models; advice stands beside each problem only."""
    report = run("%llama doctor").result
    values = {check.name: check.value for check in report.checks}
    assert values["llama-cpp-python"].startswith("0.3.")
    assert values["loaded models"] == "fake (current)"
    assert "free" in values["download cache"]
    assert all(check.advice for check in report.problems)
    assert all(check.ok for check in report.checks if check not in report.problems)
    assert values["Python"] in str(report)


def test_doctor_advises_fewer_threads_on_busy_cores(ip: Any, session: Any, model: Any) -> None:
    """Where the load fills the cores and a model has several threads, `--threads` is advised, else not."""
    from llama_magic.fit import Machine
    from llama_magic.magics import _known, doctor

    def load_line(cores: int, load: float | None, threads: int = 4) -> Any:
        session.unload(every=True)
        session.load("fake", threads=threads)
        machine = Machine(cores, cores, 1 << 34, 1 << 33, load_average=load, all_cores=cores)
        report = doctor.examine(_known.get(ip).kernel, machine)
        return next((check for check in report.checks if check.name == "load average"), None)

    busy = load_line(4, 6.25)
    assert busy.value == "6.2 on 4 cores"
    assert "fake has 4 threads; load with --threads 2" in busy.advice
    assert load_line(4, 3.9).ok
    assert load_line(4, 6.0, threads=1).ok
    assert load_line(1, 0.5, threads=1).value == "0.5 on 1 core"
    assert load_line(4, None) is None
    ip.run_cell("%llama unload --all")
    report = doctor.examine(
        _known.get(ip).kernel, Machine(4, 4, 1 << 34, 1 << 33, load_average=6.0, all_cores=4)
    )
    [line] = [check for check in report.checks if check.name == "load average"]
    assert "A load takes 4 threads; load with --threads 2" in line.advice


def test_doctor_says_where_nobody_has_huge_pages(
    ip: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the line that mends it; a system that knows no huge pages has no such line."""
    from llama_magic import fit
    from llama_magic.magics import _known, doctor

    setting = tmp_path / "enabled"
    for module in (fit, fit._machine):
        monkeypatch.setattr(module, "HUGE_PAGES", setting)

    def line() -> Any:
        checks = doctor.examine(_known.get(ip).kernel).checks
        return next((check for check in checks if check.name == "huge pages"), None)

    assert line() is None
    for words, well in (
        ("always [madvise] never", True),
        ("[always] madvise never", True),
        ("[never]", False),
    ):
        setting.write_text(words)
        assert line().ok is well
    assert line().command == f"echo madvise | sudo tee {setting}"


def test_doctor_says_what_an_old_openmp_costs(run: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where idle OpenMP threads cannot be given back, doctor says what that costs and what to do; a newer
    one, LLVM's and none are fine.
    """
    from types import SimpleNamespace

    from llama_magic.engine.native import openmp

    def line(pause: Any, *symbols: str) -> Any:
        monkeypatch.setattr(openmp, "_pause", pause)
        monkeypatch.setattr(openmp, "LIBRARY", SimpleNamespace(**dict.fromkeys(symbols)))
        return next(c for c in run("%llama doctor").result.checks if c.name == "OpenMP")

    old = line(None, "GOMP_parallel")
    assert old.value.startswith("GCC's")
    assert "0.6 of its speed" in old.advice
    assert "GCC 9" in old.advice
    assert line(print, "GOMP_parallel").ok
    llvm = line(None, "GOMP_parallel", "__kmpc_fork_call")
    assert (llvm.ok, llvm.value.split(";")[0]) == (True, "LLVM's")
    assert line(None).value.startswith("none")


def test_doctor_names_refused_files(ip: Any, run: Any, tmp_path: Path) -> None:
    """A refused file stands with path, day and cause; advice goes when the file has changed or is gone."""
    from llama_magic import sources
    from llama_magic.engine import crash_check

    file = tmp_path / "bad.gguf"
    file.write_bytes(b"GGUF")
    verdict = crash_check.TrialVerdict(False, True, "decode", "killed by SIGSEGV")
    trial = crash_check.Trial((str(file),), 0, True, False, "f16", "f16", "auto")
    store = sources.cache_dir() / "crash_checks.json"
    crash_check.check(trial, size=4, fingerprint="f", store=store, run=lambda trial, size: verdict)

    def line() -> Any:
        return next(c for c in run("%llama doctor").result.checks if c.name == "refused file")

    today = datetime.date.today().isoformat()
    assert line().value == f"{file} on {today}: killed by SIGSEGV at the stage decode"
    assert line().advice.startswith("Download it again")
    file.write_bytes(b"GGUF, whole")
    assert line().value.endswith("; changed since, tried anew when loaded")
    assert line().ok
    file.unlink()
    assert line().value.endswith("; gone")


def test_what_a_verb_gives_back_can_be_bound(
    ip: Any, run: Any, session: Any, scripted_file: Any, engine: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    """`-o NAME` holds it, the line still shows it, once, and leaves `Out` alone."""
    lines = {
        f'inspect "{scripted_file.path}" --tensors': "output_norm.weight",
        f'inspect "{scripted_file.path}"': "architecture",
        "models": "current",
        "history": "No generation yet",
        "sampler": "temperature",
        "kv": "cells",
        "tokens a b": "a",
        "use": "",
        "doctor": "llama-cpp-python",
        "chats": "No chat yet",
    }
    for line, shown in lines.items():
        words = f"use {session.current_name}" if line == "use" else line
        capsys.readouterr()
        verb, _, rest = words.partition(" ")
        done = run(f"%llama {verb} -o held {rest}")
        done.raise_error()
        assert done.result is None
        out = capsys.readouterr().out
        assert shown in out, words
        assert "Out[" not in out
        assert ip.user_ns.pop("held") is not None
    assert run("%llama history -o h; ").success


def test_an_empty_history_has_its_columns(run: Any, session: Any, model: Any) -> None:
    """Code that filters by column works before the first answer as after it."""
    empty = run("%llama history").result.to_pandas()
    assert empty[empty["mode"] == "chat"].empty
    run("%%llama complete\nx")
    assert list(run("%llama history").result.to_pandas().columns) == list(empty.columns)


def test_a_text_that_was_read_is_in_the_history(run: Any, engine: Any) -> None:
    """`surprise` is listed with its text, its seconds and what came out; it has no seed and no end."""
    run("%%llama surprise\nabab")
    history = run("%llama history").result
    [entry] = history
    assert (entry.completion.mode, entry.completion.prompt, entry.ended) == ("surprise", "abab", None)
    row = dict(zip(history.table().headers, history.table().rows[0], strict=True))
    assert (row["mode"], row["prompt"], row["seed"], row["ended"]) == ("surprise", "abab", "", "")
    assert row["answer"].startswith("perplexity ")
    assert entry.completion.usage.prompt_tokens == len(entry.completion.prompt_token_ids) > 1
    assert entry.completion.timings.total_s > 0


def test_samples_of_choices_show_their_vote(run: Any, model: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """`-N` with `--choices` says which choice most samples took; with a regex there is no vote."""
    model.backend.answers = [Script(samples=("yes", "no", "yes")), Script(samples=("yes", "no", "yes"))]
    run('%%llama complete -N 3 --choices "yes|no"\nIs it?')
    out = capsys.readouterr().out
    assert "vote: 3 answers" in out
    assert "yes" in out.split("vote: 3 answers")[1]
    assert "2 of 3" in out
    run('%%llama complete -N 3 --regex "yes|no"\nIs it?')
    assert "vote" not in capsys.readouterr().out
