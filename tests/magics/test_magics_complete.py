"""Tab completion through IPython's own completer, with and without jedi."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fake_model import FakeModel

pytestmark = pytest.mark.filterwarnings("ignore:`Completer.complete`:PendingDeprecationWarning")


@pytest.fixture(params=["readline", "readline, jedi", "front end", "front end, jedi"])
def tab(request: pytest.FixtureRequest, ip: Any) -> Any:
    """Complete at the end of a line: by the readline-style call, or as ipykernel answers a front end."""
    from IPython.core.completer import provisionalcompleter, rectify_completions

    ip.Completer.use_jedi = "jedi" in request.param

    def complete(line: str, body: str = "") -> list[str]:
        if request.param.startswith("readline"):
            return list(ip.complete("", line, len(line))[1])
        with provisionalcompleter():
            raw = ip.Completer.completions(line + body, len(line))
            return [completion.text for completion in rectify_completions(line + body, raw)]

    return complete


def test_verbs_and_modes(tab: Any) -> None:
    """The first word of a line is a verb, of a cell a mode."""
    assert tab("%llama un")[0] == "unload"
    assert {"load", "doctor", "history", "pad"} <= set(tab("%llama "))
    assert tab("%%llama str")[0] == "structured"
    assert {"chat", "complete", "xray"} <= set(tab("%%llama "))


def test_options_belong_to_their_verb_or_mode(tab: Any) -> None:
    """Only options that mean something there are offered."""
    assert "--ctx" in tab("%llama load --c")
    assert "--ctx" not in tab("%llama inspect --")
    assert "--tensors" in tab("%llama inspect --t")
    assert "--schema" in tab("%%llama structured --s")
    assert "--schema" not in tab("%%llama chat --s")
    assert {"--seed", "--stop", "--session", "--system"} <= set(tab("%%llama chat --s"))


def test_values_of_options(tab: Any, ip: Any, session: Any) -> None:
    """Choices, loaded models, sessions, schema classes and grammar variables complete as values."""
    session.load("mymodel")
    session.chat("mychat")
    ip.run_cell(
        "import dataclasses, enum, typing, pydantic\n"
        "class Person(pydantic.BaseModel):\n    name: str\n"
        "@dataclasses.dataclass\nclass Point:\n    x: int\n"
        "class Pet(typing.TypedDict):\n    name: str\n"
        "class Plain: pass\n"
        "gram = 'root ::= \"x\"'\n"
    )
    assert tab("%%llama chat --overflow dr")[0] == "drop-oldest"
    assert tab("%llama load --kv-type q8")[0] == "q8_0"
    assert "mymodel" in tab("%%llama chat -m my")
    assert "mymodel" in tab("%llama use ")
    assert "mymodel" in tab("%llama inspect my")
    assert "mychat" in tab("%%llama chat --session my")
    assert "mychat" in tab("%llama chat ")
    assert {"Person", "Point", "Pet"} <= set(tab("%%llama structured --schema P"))
    assert "Plain" not in tab("%%llama structured --schema P")
    assert "gram" in tab("%%llama complete --grammar gr")
    assert {"undo", "fork", "save"} <= set(tab("%llama chat mychat "))
    assert "temperature=" in tab("%llama sampler temp")


def test_local_paths(tab: Any, tmp_path: Path) -> None:
    """Folders and .gguf files complete, others do not; the folder part is kept."""
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "tiny.gguf").write_bytes(b"GGUF")
    (tmp_path / "models" / "tiny.txt").write_text("no")
    (tmp_path / "models" / "with blank.gguf").write_bytes(b"GGUF")
    assert "models/" in tab("%llama load mod")
    assert tab("%llama load models/ti") == ["models/tiny.gguf"]
    assert "models/tiny.gguf" in tab(f"%llama load --lora {'models/'}")
    assert tab('%llama load "models/with b') == ['blank.gguf"'] or tab('%llama load "models/with b')


def test_cached_hub_repositories(tab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Repositories in the hub's cache complete, with and without what stands before a colon."""
    from llama_magic import sources

    monkeypatch.setattr(sources, "cached_repos", lambda: ["owner/repo-GGUF"])
    assert "owner/repo-GGUF" in tab("%llama load own")
    assert "owner/repo-GGUF" in tab("%llama load hf:own")
    assert "owner/repo-GGUF" in tab("%%llama chat -m owner/")


def test_the_first_line_of_a_cell_with_a_body(tab: Any) -> None:
    """The body below does not disturb the completion of the magic's own line."""
    assert "--session" in tab("%%llama chat --ses", "\nTell me more.")


def test_nothing_is_offered_inside_a_text(tab: Any, model: FakeModel) -> None:
    """Text after `tokens` is not ours to complete."""
    assert "load" not in tab("%llama tokens lo")
