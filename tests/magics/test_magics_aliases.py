"""`%llama alias` and `lm.alias`: a task's name stands for a model and its options."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import llama_magic as lm
from llama_magic.errors import InvalidGGUFError, LlamaMagicError, OptionError, SourceError
from llama_magic.magics._complete import complete
from llama_magic.session.session import current


@pytest.fixture(autouse=True)
def _no_aliases(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("llama_magic.sources.meanings.ALIASES", {})


@pytest.fixture
def file(scripted_file: Any) -> Path:
    path: Path = scripted_file.path
    return path


def test_a_name_is_loaded_when_it_is_first_asked_for(ip: Any, file: Path) -> None:
    """With its options, under its name, and once; the current model stays. A line's options go first."""
    llama = ip.run_line_magic
    first = llama("llama", f'load "{file}" --ctx 768 --threads 1 --as first')
    assert llama("llama", f'alias quick "{file}" --ctx 512 --threads 1').name == "quick"
    assert list(current(ip).models) == ["first"]
    ip.run_cell_magic("llama", "complete -q -m quick -n 2 -o answer", "x")
    assert (ip.user_ns["answer"].model, ip.user_ns["answer"].budget.window) == ("quick", 512)
    assert list(current(ip).models) == ["first", "quick"]
    assert current(ip).model() is first
    quick = current(ip).models["quick"]
    ip.run_cell_magic("llama", "complete -q -m quick -n 1", "x")
    assert lm.load("quick") is quick
    assert lm.load("quick", ctx=1024).window == 1024
    llama("llama", "unload --all")


def test_an_alias_goes_before_config_and_an_outer_before_an_inner_one(ip: Any, file: Path) -> None:
    """What a name says of the window counts where %config says it too; what it leaves is the inner's."""
    ip.run_cell("%config LlamaMagics.ctx = 768")
    lm.alias("inner", file, ctx=512, threads=1)
    lm.alias("outer", "inner", ctx=1024)
    ip.run_cell("%config LlamaMagics.model = 'outer'")
    ip.run_cell_magic("llama", "complete -q -n 1 -o answer", "x")
    model = current(ip).models["outer"]
    assert (model.window, model.options["threads"]) == (1024, 1)
    assert ip.run_line_magic("llama", "load outer") is model
    assert ip.run_line_magic("llama", f'load "{file}"').window == 768
    ip.run_line_magic("llama", "unload --all")


def test_one_model_may_have_two_names(ip: Any, file: Path) -> None:
    """Two names for the same file and options are one object in memory, known under both."""
    lm.alias("quick", file, ctx=512, threads=1)
    lm.alias("careful", file, ctx=512, threads=1)
    for name in ("quick", "careful"):
        ip.run_cell_magic("llama", f"complete -q -n 1 -m {name}", "x")
    models = current(ip).models
    assert models["quick"] is models["careful"]
    assert ip.run_line_magic("llama", "unload --all") is None
    assert current(ip).models == {}


def test_aliases_are_listed_shown_completed_and_taken_away(ip: Any, run: Any, file: Path) -> None:
    """Alone the verb lists them; `%llama models` does, too, as long as they are not loaded."""
    assert len(run("%llama alias").result) == 0
    run(f'%llama alias quick "{file}" --ctx 512 --threads 1')
    run("%llama alias careful quick --kv-type q8_0")
    assert run("%llama alias").result.rows == (
        ("quick", str(file), "ctx=512, threads=1", "not yet"),
        ("careful", "quick", "kv_type='q8_0'", "not yet"),
    )
    assert run("%llama models").result.rows[0][:2] == ("quick", "alias, not loaded")
    assert str(run("%llama alias careful").result) == "careful: quick, kv_type='q8_0'"
    for text in ("%llama alias ca", "%%llama chat -m ca", "%llama load ca"):
        context = type("At", (), {"text_until_cursor": text, "cursor_line": 0})
        assert complete(ip, context) == ("ca", ["careful"])
    run("%llama load quick")
    assert run("%llama alias").result.rows[0][-1] == "loaded"
    assert [row[0] for row in run("%llama models").result.rows][:2] == ["quick", "careful"]
    run("%llama unload quick")
    run("%llama alias quick --remove")
    assert [row[0] for row in run("%llama alias").result.rows] == ["careful"]
    assert "Did you mean careful?" in str(run("%llama alias carefull").error_in_exec)
    assert isinstance(run("%llama alias quick --remove").error_in_exec, OptionError)
    for line in ("--ctx 3", "careful --ctx 3", "careful quick --remove", "--remove"):
        assert isinstance(run(f"%llama alias {line}").error_in_exec, OptionError)


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("bad smollm2 --threads 999", "threads is 999"),
        ("bad smollm2 --lora nowhere.gguf", "nowhere.gguf"),
        ("bad smollm2 --revision main", "no hub repository"),
        ("bad smollm2 --sha256 12", "64 hex digits"),
        ("bad nonsense", "no alias, no URL"),
        ("bad bad", "stand for itself"),
        ("b:d smollm2", "cannot be an alias"),
        ("bad smollm2 --kv-type f1", "--kv-type is 'f1'"),
        ("bad smollm2 --no-probe", "no load option 'probing'"),
    ],
)
def test_what_could_not_be_loaded_is_refused_when_the_alias_is_made(ip: Any, line: str, words: str) -> None:
    """Bad names, sources and options; no alias is left behind."""
    with pytest.raises(LlamaMagicError, match=words):
        ip.run_line_magic("llama", f"alias {line}")
    assert len(ip.run_line_magic("llama", "alias")) == 0


def test_what_stands_in_the_way_is_told(ip: Any, file: Path) -> None:
    """A file of that name and a loaded model of that name are asked in an alias's place: both are said."""
    Path("quick").write_bytes(b"no model")
    made = lm.alias("quick", file, ctx=512, threads=1)
    assert "There is a file called quick here" in made.notes[0]
    with pytest.raises((SourceError, InvalidGGUFError)):
        lm.load("quick")
    Path("quick").unlink()
    assert lm.alias("quick", file, ctx=512, threads=1).notes == ()
    ip.run_line_magic("llama", "load quick")
    again = ip.run_line_magic("llama", f'alias quick "{file}" --ctx 1024 --threads 1')
    assert "A model called quick is loaded" in str(again)
    ip.run_line_magic("llama", "unload quick")
    assert ip.run_line_magic("llama", "load quick").window == 1024
    ip.run_line_magic("llama", "unload --all")


def test_a_path_is_that_of_the_folder_where_the_alias_was_made(ip: Any, file: Path) -> None:
    """A relative path still leads there after a change of folder."""
    Path("here.gguf").symlink_to(file)
    lm.alias("quick", "here.gguf", ctx=512, threads=1)
    Path("sub").mkdir()
    ip.run_line_magic("cd", "-q sub")
    with lm.load("quick") as model:
        assert model.window == 512


def test_python_code_may_use_and_remove_aliases(file: Path) -> None:
    """`lm.load`, models of an experiment, dry runs; None takes a name away."""
    lm.alias("quick", file, ctx=512, threads=1)
    assert lm.load("quick", dry_run=True).window == 512
    runs = lm.map(["x"], models=["quick"], max_tokens=1, progress=False)
    assert runs[0].completion.budget.window == 512
    assert lm.alias("quick", None) is None
    with pytest.raises(SourceError):
        lm.load("quick")
