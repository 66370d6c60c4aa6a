"""`%llama connect` in a real shell: options, card, cells, and what is left when it fails."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from fake_servers import Fake

import llama_magic as lm
from llama_magic.session import session as sessions

Start = Callable[..., Fake]


def test_connect_makes_the_server_current(start: Start, ip: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The card is shown, cells ask the server, what did not hold is refused, unload closes."""
    fake = start("vllm", "In the south", ignores=frozenset({"json"}))
    model = ip.run_line_magic("llama", f"connect {fake.url} --as class")
    shown = capsys.readouterr().out
    assert "vLLM 0.12.0" in shown
    assert [line.split()[0] for line in shown.splitlines() if "does not hold" in line] == ["JSON"]
    answer = ip.run_cell_magic("llama", "chat -q -o a", "Where is Lyon?") or ip.user_ns["a"]
    assert (answer.text, answer.model) == ("In the south", "class")
    with pytest.raises(lm.OptionError, match="'json'"):
        ip.run_cell_magic("llama", 'structured --schema "name"', "Who?")
    ip.run_line_magic("llama", "unload class")
    assert model.closed


def test_every_option_of_connect_works(start: Start, ip: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """--model, --key-env, --ctx, --stall, --no-probe and --as each reach the connection."""
    monkeypatch.setenv("CLASS_KEY", "sk-1")
    fake = start("openai", "yes", key="sk-1", window=500)
    line = f"connect {fake.url} --model fake-1b --key-env CLASS_KEY --ctx 128 --stall 9 --no-probe --as far"
    model = ip.run_line_magic("llama", line)
    assert (model.name, model.window, model.card.probed) == ("far", 128, False)
    assert model.backend.wire.stall_s == 9
    assert (fake.asked, fake.keys[0]) == ([], "Bearer sk-1")
    assert sessions.current(ip).current_name == "far"


def test_an_unknown_model_names_the_nearest(start: Start, ip: Any) -> None:
    """Nothing is connected, and the current model stays."""
    fake = start("openai", "yes")
    with pytest.raises(lm.OptionError, match="fake-1b"):
        ip.run_line_magic("llama", f"connect {fake.url} --model fake1b")
    assert sessions.current(ip).models == {}


def test_a_server_can_be_loaded_by_name(start: Start, ip: Any) -> None:
    """`server:URL` is a source like any other."""
    fake = start("ollama", "yes")
    model = lm.load(f"server:{fake.url}", name="far", probing=False)  # type: ignore[call-overload]
    assert (model.name, model.chat([{"role": "user", "content": "x"}]).text) == ("far", "yes")
    model.close()


def test_the_environment_names_a_server(start: Start, ip: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """LLAMA_MAGIC_SERVER_URL: connect without an address, and a load of nothing; a model goes before it."""
    with pytest.raises(lm.OptionError, match="No address of a server"):
        lm.connect()
    fake = start("openai", "yes", window=500)
    monkeypatch.setenv("LLAMA_MAGIC_SERVER_URL", fake.url)
    monkeypatch.setenv("LLAMA_MAGIC_TEMPERATURE", "0.5")
    model = ip.run_line_magic("llama", "connect --as far")
    assert (model.name, model.sampling.temperature) == ("far", 0.5)
    ip.run_line_magic("llama", "unload far")
    ip.run_cell_magic("llama", "chat -q -o answer", "Hi")
    assert ip.user_ns["answer"].text == "yes"
    assert sessions.current(ip).model().options["server"] == fake.url
    ip.run_line_magic("llama", "unload --all")


def test_an_alias_may_be_a_server(start: Start, ip: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """`server:URL` with the options of connect; those of a file are refused when the alias is made."""
    monkeypatch.setattr("llama_magic.sources.meanings.ALIASES", {})
    monkeypatch.setenv("CLASS_KEY", "sk-1")
    fake = start("openai", "yes", key="sk-1", window=500)
    line = f"alias far server:{fake.url} --model fake-1b --key-env CLASS_KEY --ctx 128 --stall 9 --no-probe"
    ip.run_line_magic("llama", line)
    assert fake.keys == []
    ip.run_cell_magic("llama", "chat -q -m far -o answer", "Hi")
    model = sessions.current(ip).models["far"]
    assert (ip.user_ns["answer"].model, model.window, model.card.probed) == ("far", 128, False)
    with pytest.raises(lm.OptionError, match="mlock"):
        ip.run_line_magic("llama", f"alias bad server:{fake.url} --mlock")
    with pytest.raises(lm.OptionError, match="no address of a server"):
        ip.run_line_magic("llama", "alias bad server:ftp://x")
    ip.run_line_magic("llama", "unload --all")
