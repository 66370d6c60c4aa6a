"""What goes wrong between here and a server: each fault has its own error, and no text is lost."""

from __future__ import annotations

import contextlib
import io
import json
import socket
import traceback
from collections.abc import Callable
from typing import Any

import pytest
from as_ipython import bundle_of
from fake_servers import Fake
from raw_server import RawServer, response

import llama_magic as lm
from llama_magic import errors
from llama_magic.model import journal
from llama_magic.remote import backend, wire

ASK = [{"role": "user", "content": "Where is Lyon?"}]
KINDS = ("llama-server", "vllm", "ollama", "openai")
Start = Callable[..., Fake]
Connect = Callable[..., lm.Model]


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other at once."""
    monkeypatch.setattr(wire, "pause", lambda _error, _tries: 0.0)


STATUSES = [
    (401, errors.ServerKeyError),
    (403, errors.ServerKeyError),
    (404, errors.ServerModelError),
    (400, errors.ServerRefusedError),
    (422, errors.ServerRefusedError),
    (307, errors.ServerRefusedError),
    (500, errors.ServerFailedError),
    (502, errors.ServerFailedError),
]


@pytest.mark.parametrize(("status", "error"), STATUSES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_status_has_its_own_error(
    kind: str, status: int, error: type[Exception], start: Start, connect: Connect
) -> None:
    """Asked once, and the server's own words are in the message."""
    fake = start(kind, "yes")
    model = connect(fake, ctx=64) if kind == "openai" else connect(fake)
    fake.faults.statuses.append(status)
    with pytest.raises(error, match="elsewhere" if status == 307 else "not now") as caught:
        model.chat(ASK)
    assert (type(caught.value), len(fake.asked)) == (error, 1)
    assert isinstance(caught.value, errors.ServerError)
    assert caught.value.status == status
    assert model.chat(ASK).text == "yes"


@pytest.mark.parametrize(
    ("status", "error"), [(429, errors.ServerBusyError), (503, errors.ServerLoadingError)]
)
def test_busy_servers_are_asked_again(
    status: int, error: type[Exception], start: Start, connect: Connect
) -> None:
    """Some tries, then the error by its name; no try repeats an answer that was given."""
    fake = start("llama-server", "yes", retry_after="1")
    model = connect(fake)
    fake.faults.statuses += [status] * 2
    assert model.chat(ASK).text == "yes"
    assert len(fake.asked) == 3
    fake.faults.statuses += [status] * 9
    with pytest.raises(error) as caught:
        model.chat(ASK)
    assert len(fake.asked) == 3 + wire.TRIES
    assert isinstance(caught.value, errors.ServerError)
    assert caught.value.retry_after == 1


BROKEN = [
    ({"cut_after": 2}, errors.StreamCutError, "in the middle"),
    ({"error_after": 2}, errors.ServerFailedError, "out of memory"),
    ({"garbage_after": 2}, errors.ServerAnswerError, "504 Gateway"),
    ({"no_end": True}, errors.StreamCutError, "in the middle"),
]


@pytest.mark.parametrize(("fault", "error", "words"), BROKEN)
@pytest.mark.parametrize("kind", KINDS)
def test_a_broken_answer_is_kept(
    kind: str, fault: dict[str, Any], error: type[Exception], words: str, start: Start, connect: Connect
) -> None:
    """The error has its name and the completion so far; the answer is asked for once."""
    fake = start(kind, "one two three", **fault)
    model = connect(fake, ctx=64) if kind == "openai" else connect(fake)
    with pytest.raises(error, match=words) as caught:
        model.chat(ASK)
    assert isinstance(caught.value, errors.BackendError)
    kept = "one two three" if "no_end" in fault else "one two"
    assert (caught.value.completion.text, len(fake.asked)) == (kept, 1)


def test_a_silent_server_is_given_up(start: Start) -> None:
    """After `stall` seconds without a byte, with what was written."""
    fake = start("llama-server", "one two three", silent_after=1)
    model = lm.connect(fake.url, probing=False, stall=3)
    with pytest.raises(errors.StreamStalledError) as caught:
        model.chat(ASK)
    assert caught.value.completion.text == "one"
    model.close()


@pytest.mark.parametrize("kind", KINDS)
def test_signs_of_life_are_no_answer(
    kind: str, start: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server that sends comments alone stalls, later than a silent one, with what was written."""
    monkeypatch.setattr(backend, "BELIEVED", 0)
    fake = start(kind, "one two three", stall_after=1)
    model = connect(fake, ctx=64) if kind == "openai" else connect(fake)
    with pytest.raises(errors.StreamStalledError, match="signs of life") as caught:
        model.chat(ASK)
    assert (caught.value.completion.text, len(fake.asked)) == ("one", 1)


HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
TRICKLED = [HEAD + b"X: a", HEAD + b"\r\n ", HEAD + b"Content-Length: 9999999\r\n\r\n "]


def test_a_time_out_ends_a_question_to_a_server() -> None:
    """Vectors that never come are given up after `timeout`; the next call works."""
    server = RawServer(TRICKLED[1])
    try:
        model = lm.connect(server.url, probing=False)
        server.trickles = "/v1/embeddings"
        with pytest.raises(
            errors.OutOfTimeError, match=r"after 0\.2 s: none of 2 texts is embedded"
        ) as caught:
            model.embed(["a", "b"], timeout=0.2)
        assert caught.value.completion.shape[0] == 0
        server.trickles = ""
        said = {"message": {"content": "yes"}, "finish_reason": "stop"}
        server.answer = response(json.dumps({"choices": [said]}).encode())
        assert model.chat(ASK).text == "yes"
        model.close()
    finally:
        server.stop()


@pytest.mark.parametrize(
    "answer", [HEAD + b"X: a", HEAD + b"\r\n ", HEAD + b"Content-Length: 9999999\r\n\r\n "]
)
@pytest.mark.parametrize("path", ["/v1/models", "/v1/chat/completions"])
def test_an_answer_that_trickles_is_given_up(
    path: str, answer: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its head as its body, of a short question and of a stream: no byte is late, and it never ends."""
    server = RawServer(answer)
    try:
        model = lm.connect(server.url, probing=False, stall=30)
        for module in (wire, backend):
            monkeypatch.setattr(module, "BELIEVED", 0.01)
        server.trickles = path
        with pytest.raises(errors.StreamStalledError, match=r"signs of life|though bytes came"):
            lm.connect(server.url, probing=False) if path == "/v1/models" else model.chat(ASK)
        server.trickles = ""
        said = {"message": {"content": "yes"}, "finish_reason": "stop"}
        server.answer = response(json.dumps({"choices": [said]}).encode())
        for module in (wire, backend):
            monkeypatch.setattr(module, "BELIEVED", 4)
        assert model.chat(ASK).text == "yes"
        model.close()
    finally:
        server.stop()


def test_nothing_listens(start: Start, connect: Connect) -> None:
    """At connecting and later; a server that comes back answers again."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with pytest.raises(errors.ServerUnreachableError, match=str(port)):
        lm.connect(f"localhost:{port}")


@pytest.mark.parametrize(
    ("body", "words"),
    [(b"<html>hello</html>", "no JSON"), (b'{"data": []}', "no model"), (b"[1]", "no model")],
)
def test_what_is_no_model_server(body: bytes, words: str, start: Start) -> None:
    """Any web server may stand at an address."""
    fake = start("openai")
    fake.handler.do_GET = lambda self: _plain(self, body)
    with pytest.raises((errors.ServerAnswerError, lm.OptionError), match=words):
        lm.connect(fake.url)


def _plain(handler: Any, body: bytes) -> None:
    handler.send_response(200)
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


URLS = [
    "",
    "ftp://host",
    "http://",
    "http://user:secret@host",
    "http://user:secret@host:port",
    "http://host?key=secret",
    "http://[::1",
    "host:x",
    "..",
    "http://a..b/v1",
    "http://secret@" + "a" * 70 + ".org",
    "http://xn--/",
]


@pytest.mark.parametrize("url", URLS)
def test_an_address_is_a_place(url: str) -> None:
    """What is none, or holds a secret that would be shown, is refused without being repeated."""
    with pytest.raises(lm.OptionError) as caught:
        lm.connect(url)
    assert "secret" not in str(caught.value)


def test_the_key_is_nowhere(
    start: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """It is sent, and stands in no repr, receipt, error, traceback, log or view, though it is told back."""
    secret = "sk-0123456789abcdef"
    monkeypatch.setenv("THE_KEY", secret)
    fake = start("llama-server", f"you said {secret}"[:9], key=secret)
    texts: list[str] = []
    with pytest.raises(errors.ServerKeyError) as no_key:
        connect(fake)
    model = connect(fake, key_env="THE_KEY", probing=True)
    done = model.chat(ASK)
    assert fake.keys[-1] == f"Bearer {secret}"
    monkeypatch.setenv("THE_KEY", "sk-wrong-key-99")
    with pytest.raises(errors.ServerKeyError) as wrong:
        model.chat(ASK)
    for caught in (no_key, wrong):
        texts += ["".join(traceback.format_exception(caught.value)), str(caught.value)]
    shown = bundle_of(model.card) if model.card else {}
    texts += [
        repr(model),
        repr(model.__dict__),
        repr(done),
        json.dumps(done.receipt, default=str),
        json.dumps(shown),
    ]
    texts += [repr(vars(model.backend)), repr(model.options), caplog.text, repr(journal.__dict__)]
    for text in texts:
        assert secret not in text
        assert "sk-wrong-key-99" not in text


@pytest.mark.parametrize("value", ["", "  "])
def test_a_key_that_is_not_set(value: str, start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable is named before anything is sent."""
    fake = start("openai", key="x")
    monkeypatch.setenv("THE_KEY", value)
    with pytest.raises(errors.ServerKeyError, match="THE_KEY is not set"):
        lm.connect(fake.url, key_env="THE_KEY")
    assert fake.keys == []


@pytest.mark.parametrize("kind", KINDS)
def test_closing_ends_what_runs(kind: str, start: Start, connect: Connect) -> None:
    """A stream that is under way fails by name, and so does every later call."""
    fake = start(kind, "one two three", stall_after=1)
    model = connect(fake)
    stream = model.chat(ASK, stream=True)
    assert next(stream).delta == "one"
    model.close()
    with pytest.raises(lm.ModelClosedError):
        list(stream)
    with pytest.raises(lm.ModelClosedError):
        model.chat(ASK)


def test_breaks_of_lines_in_text_are_no_ends(start: Start, connect: Connect) -> None:
    """U+2028 and its like stand in JSON as they are; a stream is cut at line feeds alone."""
    text = "a\u2028b\u0085c\x0bd"
    assert connect(start("llama-server", text)).chat(ASK).text == text


def test_a_closed_session_prints_nothing(start: Start, connect: Connect) -> None:
    """Closing twice, and closing with an open stream, says nothing on stderr."""
    fake = start("vllm", "one two", stall_after=1)
    model = connect(fake)
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        stream = model.chat(ASK, stream=True)
        next(stream)
        del stream
        model.close()
        model.close()
    assert said.getvalue() == ""
