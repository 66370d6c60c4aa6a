"""`LLAMA_MAGIC_…` variables: below what is said and %config, above what the file says; bad ones are named."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from scripted_gguf import build

import llama_magic as lm
from llama_magic import environment, sources
from llama_magic.errors import OptionError
from llama_magic.magics import serve
from llama_magic.testing import scripted_loader, scripted_model

Set = Callable[..., None]


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Set:
    """Return what sets variables of ours by what follows the prefix."""

    def set_(**values: object) -> None:
        for name, value in values.items():
            monkeypatch.setenv(f"{environment.PREFIX}{name}", str(value))

    return set_


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file that never ends an answer, and says a temperature and a top-p."""
    says: dict[str, int | float] = {"general.sampling.temp": 0.25, "general.sampling.top_p": 0.75}
    return build(tmp_path / "endless.gguf", {"a": "a"}, default="a", metadata=says).path


def test_a_model_is_loaded_where_none_is_named(put: Set, file: Path, ip: Any) -> None:
    """MODEL stands for it in `lm.load()`, `lm.inspect()`, cells and %llama inspect; %config goes first."""
    put(MODEL=file, CTX=256, THREADS=1)
    with lm.load() as model:
        assert model.path == file
    assert lm.inspect().path == file
    assert ip.run_line_magic("llama", "inspect").path == file
    loader = scripted_loader(shell=ip)
    ip.run_cell("%config LlamaMagics.model = 'other'")
    ip.run_cell_magic("llama", "complete -q", "x")
    assert loader.calls[0][0] == "other"


def test_a_cell_loads_what_the_environment_names(put: Set, file: Path, ip: Any) -> None:
    """The first cell of a kernel, with the options of the environment."""
    put(MODEL=file, CTX=300, THREADS=1, MAX_TOKENS=3)
    ip.run_cell_magic("llama", "complete -q -o answer", "a")
    answer = ip.user_ns["answer"]
    assert (answer.text, answer.budget.window) == ("aaa", 512)  # llama.cpp rounds up
    ip.run_line_magic("llama", "unload --all")


def test_load_options(put: Set, file: Path) -> None:
    """CTX, THREADS and BATCH are those of a load that does not say them."""
    put(CTX=512, THREADS=1, BATCH=64)
    with lm.load(file) as model:
        assert (model.window, model.options["threads"], model.options["batch"]) == (512, 1, 64)
        assert lm.load(file) is model
    with lm.load(file, ctx=768, threads=2, batch=32) as model:
        assert (model.window, model.options["threads"], model.options["batch"]) == (768, 2, 32)
    assert lm.load(file, dry_run=True).window == 512


def test_config_goes_before_the_environment(put: Set, file: Path, ip: Any) -> None:
    """%config's window, length and temperature count, and a line's before them."""
    put(CTX=512, THREADS=1, MAX_TOKENS=3, TEMPERATURE=1.5)
    ip.run_cell("%config LlamaMagics.ctx = 768")
    model = ip.run_line_magic("llama", f'load "{file}"')
    assert model.window == 768
    ip.run_cell_magic("llama", "complete -q -o first", "a")
    ip.run_cell("%config LlamaMagics.max_tokens = 2\n%config LlamaMagics.temperature = 0.5")
    ip.run_cell_magic("llama", "complete -q -o second", "a")
    ip.run_cell_magic("llama", "complete -q -n 1 -t 0 -o third", "a")
    made = [ip.user_ns[name] for name in ("first", "second", "third")]
    assert [(a.text, a.sampling.temperature) for a in made] == [("aaa", 1.5), ("aa", 0.5), ("a", 0)]
    ip.run_line_magic("llama", "unload --all")


def test_sampling_is_above_the_file_and_below_a_call(put: Set, file: Path) -> None:
    """TEMPERATURE, TOP_P and TOP_K; what the environment leaves is the file's."""
    put(TEMPERATURE=0.9, TOP_K=7, CTX=256, THREADS=1)
    with lm.load(file) as model:
        made = model.complete("a", max_tokens=1)
        assert (made.sampling.temperature, made.sampling.top_k, made.sampling.top_p) == (0.9, 7, 0.75)
        assert model.complete("a", max_tokens=1, temperature=0).sampling.temperature == 0
    put(TOP_P=0.5)
    with lm.load(file) as model:
        assert model.sampling.top_p == 0.5


def test_the_longest_answer(put: Set) -> None:
    """MAX_TOKENS is the reserve and the end of an answer that names none, in Python and over HTTP."""
    put(MAX_TOKENS=2)
    model = scripted_model(lambda _r: "one two three four")
    assert model.complete("x").budget.max_tokens == 2
    assert len(model.complete("x").token_ids) == 2
    assert len(model.complete("x", max_tokens=3).token_ids) == 3
    assert model.complete("x", min_tokens=4).budget.max_tokens == 4
    from llama_magic.serving.server import serve

    with serve(model, port=0) as server:
        import httpx

        for path, asked in (
            ("chat/completions", {"messages": [{"role": "user", "content": "x"}]}),
            ("completions", {"prompt": "x"}),
        ):
            found = httpx.post(f"{server.url}/v1/{path}", json=asked, timeout=600).json()
            assert found["usage"]["completion_tokens"] == 2


@pytest.mark.usefixtures("ip")  # a process of its own has no other model
def test_the_command_that_serves(put: Set, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`llama-magic serve` without a source serves what the environment names, loaded as it says."""
    put(MODEL=file, CTX=512, THREADS=1, TEMPERATURE=0.5)
    kept: list[Any] = []
    monkeypatch.setattr(serve.Server, "wait", lambda server: kept.append(server.models))
    monkeypatch.setattr(serve, "serve", lambda model, **how: kept.append(model) or lm.serve(model, **how))
    assert serve.command(["--port", "0"]) == 0
    model, served = kept
    assert (model.path, model.window, model.sampling.temperature) == (file, 512, 0.5)
    assert served == ("endless",)


def test_the_cache_folder(put: Set, tmp_path: Path) -> None:
    """CACHE is read whenever the folder is asked for."""
    put(CACHE=tmp_path / "here")
    assert sources.cache_dir() == tmp_path / "here"


@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("CTX", "lots", "a whole number, 0 to 2,147,483,647"),
        ("CTX", "-1", "a whole number"),
        ("THREADS", "0", "a whole number, 1 to 512"),
        ("BATCH", "1.5", "a whole number"),
        ("MAX_TOKENS", "0", "a whole number, 1 to"),
        ("TEMPERATURE", "nan", "a number, 0 to"),
        ("TOP_P", "1.2", "a number, 0 to 1"),
        ("TOP_K", "many", "a whole number, -1 to"),
        ("SERVER_URL", "ftp://x", "http://host:port"),
        ("MODEL", " ", "%llama load"),
    ],
)
def test_a_bad_value_is_named(put: Set, scripted_file: Any, name: str, value: str, expected: str) -> None:
    """Variable, value and what was expected, before a file is opened; nothing is loaded."""
    put(**{name: value})
    with pytest.raises(OptionError, match=f"LLAMA_MAGIC_{name} is '{value}'; expected .*") as caught:
        lm.load(scripted_file.path, ctx=256, threads=1)
    assert expected in str(caught.value)


def test_a_password_is_not_shown(put: Set) -> None:
    """An address with a user is refused without its password."""
    put(SERVER_URL="http://me:hunter2@host")
    with pytest.raises(OptionError) as caught:
        environment.read()
    assert "hunter2" not in str(caught.value)


def test_doctor_lists_what_is_set(put: Set, ip: Any) -> None:
    """Each variable with its value; a bad one and a misspelt one with advice; others are nobody's."""
    put(CTX=512, TOP_P=3, TEMPRATURE=1, MY_OWN_KEY="secret")
    report = ip.run_line_magic("llama", "doctor")
    found = {c.name: (c.value, c.advice) for c in report.checks if c.name.startswith("LLAMA_MAGIC")}
    assert found["LLAMA_MAGIC_CTX"] == ("512", "")
    assert "expected a number, 0 to 1" in found["LLAMA_MAGIC_TOP_P"][1]
    assert "Did you mean LLAMA_MAGIC_TEMPERATURE?" in found["LLAMA_MAGIC_TEMPRATURE"][1]
    assert "secret" not in str(report)


def test_nothing_set_costs_nothing() -> None:
    """Without a variable, what reads them is not imported; an empty one is none."""
    code = (
        "import os, sys\n"
        "for name in list(os.environ):\n"
        "    if name.startswith('LLAMA_MAGIC_'): del os.environ[name]\n"
        "os.environ |= {'LLAMA_MAGIC_CTX': '', 'LLAMA_MAGIC_CACHE': '/tmp'}\n"
        "from llama_magic import environment\n"
        "assert environment.read() == environment.Defaults()\n"
        "print('pydantic_settings' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
