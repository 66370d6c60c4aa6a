"""`%llama serve`, its live view, `lm.serve` and `llama-magic serve`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest
from serving.conftest import Served, ask
from settled import WATCHDOG, until

import llama_magic as lm
from llama_magic.display import to_text
from llama_magic.display.live.served import show_server
from llama_magic.errors import OptionError
from llama_magic.serving.server import serve, servers
from llama_magic.testing import scripted_loader, scripted_model


@pytest.fixture
def shell(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A shell with the magics, whose models are scripted."""
    from IPython.core.interactiveshell import InteractiveShell

    from llama_magic import magics
    from llama_magic.session import session

    monkeypatch.setattr(session, "loaded", list)
    InteractiveShell.clear_instance()
    made = InteractiveShell.instance()
    magics.register(made)
    scripted_loader(lambda _r: "hello", shell=made)
    yield made
    for server in servers():
        server.stop()
    magics.unregister(made)
    InteractiveShell.clear_instance()


def test_a_line_serves_until_a_line_stops_it(shell: Any, capsys: pytest.CaptureFixture[str]) -> None:
    """The current model, or those that are named, loaded where needed; stop ends them all."""
    first = shell.run_line_magic("llama", "serve --port 0")
    second = shell.run_line_magic("llama", "serve one two --port 0")
    assert first.models == ("scripted",)
    assert second.models == ("one", "two")
    url = f"{second.url}/v1/chat/completions"
    assert (
        httpx.post(url, json=ask(model="two"), timeout=600).json()["choices"][0]["message"]["content"]
        == "hello"
    )
    capsys.readouterr()
    assert shell.run_line_magic("llama", "serve stop") is None
    assert capsys.readouterr().out == "Stopped 2 servers.\n"
    assert servers() == []
    shell.run_line_magic("llama", "serve stop")
    assert capsys.readouterr().out == "Nothing is served.\n"


def test_what_a_line_cannot_serve_is_refused(shell: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another address without a key, a port that is none, an option of load."""
    for line in (
        "serve --host 0.0.0.0 --port 0",
        "serve --port 70000",
        "serve --ctx 3",
        "serve stop --port 1",
    ):
        with pytest.raises(OptionError):
            shell.run_line_magic("llama", line)
    loaded = scripted_loader(shell=shell).calls
    with pytest.raises(OptionError, match="no key"):
        shell.run_line_magic("llama", "serve large --host 0.0.0.0")
    assert loaded == []  # before anything is loaded, which may take minutes
    monkeypatch.setenv("MY_KEY", "secret-of-a-test")
    server = shell.run_line_magic("llama", "serve --port 0 --key-env MY_KEY")
    assert server.has_key
    assert "with a key" in to_text(server)
    assert "secret" not in to_text(server)


class Display:
    """What a front end was sent: bundles by display id, the latest last."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, bool]] = []

    def publish(self, *, data: Any, metadata: Any, transient: Any, update: bool) -> None:
        self.sent.append((transient.get("display_id", ""), data["text/plain"], update))


def lab() -> Any:
    """Return a shell as JupyterLab's kernel has it, in the middle of a cell."""
    request = {"metadata": {"cellId": "c1"}, "content": {}}
    kernel = SimpleNamespace(get_parent=lambda _kind: request)
    return SimpleNamespace(kernel=kernel, display_pub=Display(), displayhook=None)


def test_rows_are_brought_up_to_date_until_the_server_stops(served: Callable[..., Served]) -> None:
    """One place on the page: each request has a row that ends; a server that stops says so, and is static."""
    here = served(answers=lambda _r: "one two three")
    page = lab()
    show_server(here.server, page)
    here.post("/v1/chat/completions", **ask(user="ann"))
    here.refused("/v1/chat/completions", "temprature", **ask(temprature=1))
    here.server.stop()
    until(lambda: "stopped" in page.display_pub.sent[-1][1])
    assert len({place for place, _, _ in page.display_pub.sent}) == 1
    assert [update for *_, update in page.display_pub.sent] == [
        False,
        *[True] * (len(page.display_pub.sent) - 1),
    ]
    first = page.display_pub.sent[0][1]
    assert "No request yet." in first
    assert f"{here.server.url}/v1, until its process ends" in first  # as the notebook is saved
    last = page.display_pub.sent[-1][1]
    assert "127.0.0.1 ann" in last
    assert "stop" in last
    assert "400" in last
    assert "2 requests" in last
    bundle = here.server._repr_mimebundle_()
    assert "<script" not in bundle["text/html"]


def test_figures_of_a_column_have_equal_decimals(served: Callable[..., Served]) -> None:
    """3 seconds beside 2.2 read as if they were measured otherwise: both are told to a tenth."""
    here = served(answers=lambda _r: "one two three")
    here.post("/v1/chat/completions", **ask())
    row = list(here.server.log)[-1]
    row.came, row.first, row.last, row.done = 0.0, 1.0, 2.0, 3.0
    assert (row.written - 1, row.state) == (2, "stop")
    figures = [cell.strip() for cell in to_text(here.server).splitlines()[-2].split("  ") if cell]
    assert figures[-3:] == ["2.0", "3.0", "stop"]


def test_where_nothing_can_be_updated_it_is_shown_once(served: Callable[..., Served]) -> None:
    """In a terminal, or under a runner, one output says where the server is."""
    here = served()
    terminal = SimpleNamespace(display_pub=Display())
    show_server(here.server, terminal)
    ((_, text, update),) = terminal.display_pub.sent
    assert f"{here.server.url}/v1" in text
    assert not update


def test_python_serves_with_one_call() -> None:
    """`lm.serve(model)` is a context manager; a source is loaded; what is none is refused."""
    model = scripted_model(lambda _r: "x")
    with lm.serve(model, port=0) as server:
        assert httpx.get(f"{server.url}/health", timeout=600).json() == {"status": "ok"}
        assert repr(server) == f"<Server {server.url}: scripted>"
    assert repr(server).endswith(", stopped>")
    with pytest.raises(TypeError, match="cannot be served"):
        serve(3, port=0)  # type: ignore[arg-type]


SERVE = [sys.executable, "-m", "llama_magic", "serve"]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_shell_serves_until_it_is_stopped(scripted_file: Any, number: int, status: int) -> None:
    """`llama-magic serve FILE` loads, says where, answers; Ctrl-C or a service manager ends it in order.

    An answer under way then ends with an error in its stream, not with a connection that breaks.
    """
    command = [*SERVE, str(scripted_file.path), "--port=0", "--ctx=4096"]
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    ) as process:
        assert process.stdout is not None
        line = next(line for line in process.stdout if line.startswith("Serving"))
        url = line.split(" at ")[1].split(" ")[0]
        model = httpx.get(f"{url}/models", timeout=600).json()["data"][0]
        assert model["meta"]["n_ctx"] == 4096
        answer = httpx.post(f"{url}/chat/completions", json=ask(temperature=0), timeout=600).json()
        assert answer["choices"][0]["message"]["content"] == "Hello there!"
        body = ask(stream=True, max_tokens=4000, ignore_eos=True)
        with httpx.stream("POST", f"{url}/chat/completions", json=body, timeout=600) as going:
            lines = going.iter_lines()
            next(lines)
            process.send_signal(number)
            assert any("error" in line for line in lines)
        assert process.wait(WATCHDOG) == status


@pytest.mark.parametrize(
    ("arguments", "words"), [(["--help"], "--key-env"), (["--prot", "1"], "Did you mean --port")]
)
def test_a_shell_is_told_what_it_can_ask(arguments: list[str], words: str) -> None:
    """`llama-magic serve --help` names the options, and one that is none is named with the nearest."""
    done = subprocess.run([*SERVE, *arguments], capture_output=True, text=True)
    assert words in done.stdout + done.stderr
