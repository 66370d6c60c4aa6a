"""Tab completion through IPython's own completer, with and without jedi."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

pytestmark = pytest.mark.filterwarnings("ignore:`Completer.complete`:PendingDeprecationWarning")


@pytest.fixture(params=["readline", "readline, jedi", "front end", "front end, jedi", "terminal, jedi"])
def tab(request: pytest.FixtureRequest, ip: Any) -> Any:
    """Complete at the end of a line: readline-style, as ipykernel answers a front end, in a terminal."""
    from IPython.core.completer import provisionalcompleter, rectify_completions
    from IPython.terminal.ptutils import IPythonPTCompleter
    from prompt_toolkit.document import Document

    ip.min_elide = 30  # a trait of the terminal's shell
    ip.Completer.use_jedi = "jedi" in request.param

    def complete(line: str, body: str = "") -> list[str]:
        if request.param.startswith("readline"):
            return list(ip.complete("", line, len(line))[1])
        if request.param.startswith("terminal"):
            document = Document(f"{line}\n{body}" if body else line, len(line))
            return [found.text for found in IPythonPTCompleter(shell=ip).get_completions(document, None)]
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
    assert "models/tiny.gguf" in tab("%llama load --lora models/")
    assert tab('%llama load "models/with b') == ['"models/with blank.gguf"']


def test_what_holds_blanks_is_offered_in_quotes(tab: Any, ip: Any, session: Any, tmp_path: Path) -> None:
    """In those that were typed, else in double ones: names, sessions and paths can be run as offered."""
    (tmp_path / "my models").mkdir()
    (tmp_path / "my models" / "ä b.gguf").write_bytes(b"GGUF")
    session.load("fake", name="my own")
    ip.run_cell("%%llama chat --session 'two words' -q\nx")
    assert tab("%llama load my")[0] == '"my models/'
    assert tab("%llama load 'my models/") == ["'my models/ä b.gguf'"]
    assert tab('%%llama chat --model="my ')[:2] == ['--model="my own"', '--model="my models/']
    assert tab("%llama use ") == ['"my own"']
    assert tab("%llama chat tw") == ['"two words"']
    assert tab("%%llama chat --session 't") == ["'two words'"]
    ip.run_cell(f"%llama use {tab('%llama use my')[0]}").raise_error()
    assert session.current_name == "my own"


def test_formatters_by_name(tab: Any) -> None:
    """--formatter offers the families, `auto` and template files."""
    assert {"auto", "chatml", "llama3"} <= set(tab("%llama load --formatter "))


def test_home_and_variables_in_paths(tab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~/` and `$VAR/` are looked into, and stay as they were typed."""
    (tmp_path / "home" / "models").mkdir(parents=True)
    (tmp_path / "home" / "models" / "tiny.gguf").write_bytes(b"GGUF")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("USERPROFILE", str(tmp_path / "home"))
    monkeypatch.setenv("MODELS", str(tmp_path / "home" / "models"))
    assert tab("%llama load ~") == ["~/"]
    assert tab("%llama load ~/") == ["~/models/"]
    assert tab("%llama load ~/models/") == ["~/models/tiny.gguf"]
    assert tab("%llama load $MODELS/") == ["$MODELS/tiny.gguf"]
    assert tab("%%llama chat -m $MODELS/t") == ["$MODELS/tiny.gguf"]


def test_only_our_words_are_offered(tab: Any) -> None:
    """Neither Python's names nor files stand between the verbs, with jedi or without."""
    from llama_magic.magics._options import MODES, VERBS

    assert tab("%llama ") == list(VERBS)
    assert tab("%%llama ") == list(MODES)
    assert tab("%llama i") == ["inspect"]


def test_a_magic_behind_an_assignment(tab: Any) -> None:
    """`name = %llama` and `a, b = %llama` complete like the magic at the start of a line."""
    assert tab("x = %llama lo") == ["load"]
    assert tab("model, other =%llama un") == ["unload"]
    assert tab("    x = %llama load --kv-type q8") == ["q8_0"]
    assert "load" not in tab("x = 5 %llama lo")
    assert "load" not in tab("print('= %llama lo")


def test_values_behind_an_equals_sign(tab: Any) -> None:
    """`--option=value` is completed as one word, as it is read."""
    assert tab("%%llama chat --overflow=dr") == ["--overflow=drop-oldest"]
    assert tab("%llama load --kv-type=q") == ["--kv-type=q8_0", "--kv-type=q4_0"]


def test_a_line_magic_below_the_first_line(ip: Any) -> None:
    """The cursor's own line counts; in the body of a cell magic `%%llama` is only text."""
    from IPython.core.completer import provisionalcompleter

    def words(text: str) -> list[str]:
        with provisionalcompleter():
            return [found.text for found in ip.Completer.completions(text, len(text))]

    assert words("import os\n%llama lo") == ["load"]
    assert "structured" not in words("text\n%%llama str")
    assert words("%%llama chat \\\n    --sess") == ["--session"]
    assert words("%%llama chat\n    --sess") == []
    assert words("import os\n%llama load \\\n    --flash") == ["--flash-attn"]
    assert "--session" not in words("text\n%%llama chat \\\n    --sess")


def test_ipykernel_answers_a_front_end_with_whole_words(client: Any) -> None:
    """A kernel's `complete_request`, jedi on as it is there: only the verbs, and what they replace."""
    client.execute_interactive("%load_ext llama_magic", timeout=600)
    code = "import os\nx = %llama un"
    reply = client.complete(code, len(code), reply=True, timeout=600)["content"]
    assert reply["matches"] == ["unload"]
    assert code[reply["cursor_start"] : reply["cursor_end"]] == "un"


def test_the_table_says_what_every_word_completes_to(ip: Any, session: Any, tmp_path: Path) -> None:
    """Each name that a row offers is known, and a verb's actions offer what their own rows say."""
    from llama_magic.magics._complete import OFFERS, complete
    from llama_magic.magics._options import MODES, VERBS

    rows: list[Any] = [*MODES.values(), *VERBS.values()]
    named = {option.completes for row in rows for option in row.options}
    named |= {mode.completes for mode in MODES.values()}
    for verb in VERBS.values():
        named |= {*verb.completes, *(name for action in verb.actions for name in action.completes)}
    assert named - {"", "actions"} == set(OFFERS)
    (tmp_path / "talk.json").write_text("[]")
    (tmp_path / "talk.bin").write_text("")

    def offered(line: str) -> list[str]:
        return complete(ip, SimpleNamespace(text_until_cursor=line, cursor_line=0))[1]

    assert offered("%llama chat mychat load ta") == ["talk.json"]
    assert offered("%llama chat mychat fork ta") == []
    assert offered("%llama kv restore ta") == ["talk.bin", "talk.json"]
    assert offered("%llama kv save talk.bin ta") == []
    assert offered("%llama kv save talk.bin ta more") == []
    assert offered("%llama sampler top_k=3 temp") == ["temperature="]


def test_functions_for_tools(tab: Any, ip: Any) -> None:
    """--tools offers the functions of the namespace, and after a comma those that are not named yet."""
    ip.run_cell("def weather(): ...\ndef clock(): ...\nnumber = 3")
    assert {"weather", "clock"} <= set(tab("%%llama chat --tools "))
    assert "number" not in tab("%%llama chat --tools ")
    assert tab("%%llama chat --tools weather,") == ["weather,clock"]


def test_cached_hub_repositories(tab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Repositories in the hub's cache complete, with and without what stands before a colon."""
    from llama_magic import sources

    monkeypatch.setattr(sources, "cached_repos", lambda: ["owner/repo-GGUF"])
    assert "owner/repo-GGUF" in tab("%llama load own")
    assert "hf:owner/repo-GGUF" in tab("%llama load hf:own")
    assert "owner/repo-GGUF" in tab("%%llama chat -m owner/")


def test_the_first_line_of_a_cell_with_a_body(tab: Any) -> None:
    """The body below does not disturb the completion of the magic's own line."""
    assert "--session" in tab("%%llama chat --ses", "\nTell me more.")


def test_nothing_is_offered_inside_a_text(tab: Any, model: Any) -> None:
    """Text after `tokens` is not ours to complete."""
    assert "load" not in tab("%llama tokens lo")
