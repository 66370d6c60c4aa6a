"""%llama inspect: a header and how to load it, parts of it alone, the quants of a repository."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

import llama_magic as lm
from llama_magic import display, fit, formatters, sources
from llama_magic.display import hosts
from llama_magic.fit import _speed as measuring
from llama_magic.loading.compare import Comparison
from llama_magic.model.file import LoadedFile
from llama_magic.model.model import Model
from llama_magic.sources import HubModel, HubModels
from llama_magic.testing import ScriptedBackend

sys.path.insert(0, str(Path(__file__).parents[1] / "gguf"))
from gguf_build import tiny_llama

sys.path.pop(0)


@pytest.fixture(autouse=True)
def _measured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measuring, "rates", lambda threads: measuring.Rates(1e9, 1e9))


@pytest.fixture
def file(ip: Any, tmp_path: Path) -> Path:
    """A model in the folder of the notebook, with a chat template."""
    made = tiny_llama().with_kv("tokenizer.chat_template", "str", "{{ messages }}")
    return made.write(tmp_path / "my model.gguf")


def test_a_header_comes_with_the_line_that_loads_it(
    run: Any, session: Any, file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Memory, the window that fits, the speed, and the source as it was given, quoted where it has blanks."""
    info = run('%llama inspect "my model.gguf"').result
    assert info.context_length == 512
    out = capsys.readouterr().out
    assert '%llama load "my model.gguf" --ctx 512\n' in out
    assert "with a window of 512 tokens" in out
    assert "tokens per second, from memory bandwidth" in out
    run(info.plan.load_line)
    assert session.loader.calls[-1] == ("my model.gguf", {"ctx": 512})


def test_nothing_measured_is_saved_where_nobody_looks(
    run: Any, session: Any, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Under nbclient and its like the speed is left out of headers and cards: it differs from run to run."""
    monkeypatch.setattr(hosts, "host", lambda shell: "plain")
    info = run('%llama inspect "my model.gguf"').result
    assert "%llama load" in display.to_text(info)
    assert "per second" not in display.to_text(info)


@pytest.mark.parametrize(
    ("option", "words"),
    [("template", "{{ messages }}"), ("tensors", "blk.0.attn_q.weight"), ("tokenizer", "ggml.bos_token_id")],
)
def test_a_part_is_shown_alone(
    ip: Any, run: Any, session: Any, file: Path, capsys: pytest.CaptureFixture[str], option: str, words: str
) -> None:
    """`--template` shows the template and not the card again; the header is the result all the same."""
    info = run(f'%llama inspect "my model.gguf" --{option}').result
    out = capsys.readouterr().out
    assert words in out
    assert "metadata (" not in out
    assert info.architecture == "llama"
    run("_")
    assert "metadata (" in capsys.readouterr().out  # asked for by itself, it shows
    run(f'%llama inspect "my model.gguf" --{option};')
    assert capsys.readouterr().out == ""


def test_several_templates_are_named(
    run: Any, session: Any, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each stands under its name; a loaded model is asked for its own header."""
    both = tiny_llama().with_kv("tokenizer.chat_template", "str", "{{ a }}")
    both = both.with_kv("tokenizer.chat_template.tools", "str", "{{ b }}")

    def keep(name: str, header: Any) -> None:
        file = LoadedFile(512, formatters.get("chatml"), info=header)
        session.keep(Model(name, file, ScriptedBackend()))

    two = lm.inspect(both.write(tmp_path / "two.gguf"))
    keep("a", two)
    assert run("%llama inspect a --template").result is two
    assert "chat template: default\n{{ a }}\nchat template: tools\n{{ b }}\n" in capsys.readouterr().out
    none = lm.inspect(tiny_llama().write(tmp_path / "none.gguf"))
    keep("b", none)
    assert run("%llama inspect --template --tokenizer").result is none
    out = capsys.readouterr().out
    assert "The file holds no chat template." in out
    assert "tokenizer: " in out


def test_a_file_that_cannot_be_loaded_says_so(run: Any, session: Any, tmp_path: Path) -> None:
    """The header of a bad file is shown, with what is wrong in the place of a line to load it."""
    tiny_llama().with_kv("llama.vocab_size", "u32", 9).write(tmp_path / "bad.gguf")
    text = display.to_text(run("%llama inspect bad.gguf").result)
    assert "It cannot be loaded. bad.gguf: llama.vocab_size is 9; expected 260" in text
    assert "%llama load" not in text


def test_what_does_not_fit_says_what_would(
    run: Any, session: Any, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a machine too small the reason stands there, not a line that would fail."""
    monkeypatch.setattr(fit, "machine", lambda: fit.Machine(1, 1, 1 << 18, 1 << 18))
    text = display.to_text(run('%llama inspect "my model.gguf"').result)
    assert "Does not fit" in text
    assert "%llama load" not in text


def test_a_repository_of_several_quants_is_compared(
    run: Any, session: Any, file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """None named: one row each and which to take. One named, or one there: its header."""
    size = file.stat().st_size
    models = [
        HubModel("Q8_0", ("m-Q8_0.gguf",), size // 4, "Q8_0"),
        HubModel("F32", ("m-F32.gguf",), size, "F32", (file,)),
    ]
    asked: list[Any] = []

    def hub_models(source: str, **options: Any) -> HubModels:
        asked.append((source, options))
        return HubModels("o/r", None, tuple(models))

    monkeypatch.setattr(sources, "hub_models", hub_models)
    found = run("%llama inspect o/r --offline").result
    assert isinstance(found, Comparison)
    assert asked == [("o/r", {"offline": True})]
    out = capsys.readouterr().out
    assert "quants: hf:o/r" in out
    assert "Take Q8_0: the most precise that fits" in out
    assert "%llama load hf:o/r:F32 --ctx 512\n" in out
    html = re.sub(r' (?:class|style)="[^"]*"', "", display.to_html(found))
    assert "<td>m-F32.gguf, here</td>" in html
    assert html.count("<tr>") == 3
    del models[0]
    located = sources.Located("hub", "m", "hf:o/r", size, (file,))
    monkeypatch.setattr(sources, "locate", lambda source, **options: located)
    assert run("%llama inspect o/r").result.context_length == 512
    assert run("%llama inspect o/r:F32").result.plan.load_line == "%llama load o/r:F32 --ctx 512"
    assert len(asked) == 2
