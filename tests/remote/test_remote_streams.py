"""Answers as servers write them that nobody here has: each is read, or is an error that keeps what came."""

from __future__ import annotations

import gzip
import json
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from as_ipython import bundle_of
from raw_server import RawServer, response

import llama_magic as lm
from llama_magic import errors
from llama_magic.remote import backend, wire
from llama_magic.sources.http.client import new_client

ASK = [{"role": "user", "content": "Hi"}]
CLOSES = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n"
LONGER = b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 9999\r\n\r\n"
EVENTS = "Content-Type: text/event-stream"
Serve = Callable[..., RawServer]


@pytest.fixture
def raw() -> Iterator[Serve]:
    """Return what starts a server that answers with bytes."""
    made: list[RawServer] = []

    def begin(answer: bytes, context: ssl.SSLContext | None = None) -> RawServer:
        made.append(RawServer(answer, context))
        return made[-1]

    yield begin
    for server in made:
        server.stop()


def chunk(text: str | None = None, **more: Any) -> str:
    """Return a piece of an answer as JSON."""
    delta = {} if text is None else {"content": text}
    return json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": None, **more}]})


def events(*values: str, end: str = "\n\n") -> bytes:
    return "".join(f"data: {value}{end}" for value in values).encode()


def stream(body: bytes, *headers: str) -> bytes:
    return response(body, EVENTS, *headers)


END = chunk(finish_reason="stop")
PLAIN = (chunk("a"), chunk("b"), END, "[DONE]")
WHOLE = {
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "ab"}, "finish_reason": "stop"}]
}
IN_LINES = "data: " + json.dumps(json.loads(chunk("a")), indent=1).replace("\n", "\ndata: ") + "\n\n"
PARTS = {"content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
OTHERS = json.dumps(
    {"choices": [{"index": 1, "delta": {"content": "X"}}, {"index": 0, "delta": {"content": "a"}}]}
)
HALVES = (
    r'{"choices":[{"index":0,"delta":{"content":"\ud83d"}}]}',
    r'{"choices":[{"delta":{"content":"\ude00"}}]}',
)

READ: dict[str, tuple[bytes, str]] = {
    "lines end in CR": (stream(events(*PLAIN, end="\r\r")), "ab"),
    "lines end in CR LF": (stream(events(*PLAIN, end="\r\n\r\n")), "ab"),
    "a byte order mark": (stream(b"\xef\xbb\xbf" + events(*PLAIN)), "ab"),
    "a value over several lines": (stream(IN_LINES.encode() + events(*PLAIN[1:])), "ab"),
    "a field without a value": (stream(b"data\n\ndata:\n\n" + events(*PLAIN)), "ab"),
    "unknown fields": (stream(b"hint: x\nevent: message\n" + events(*PLAIN)), "ab"),
    "an event of another name": (stream(b"event: ping\ndata: 2026-01-01\n\n" + events(*PLAIN)), "ab"),
    "no mark of the end": (stream(events(*PLAIN[:-1])), "ab"),
    "more after the mark of the end": (stream(events(*PLAIN, chunk("c")) + b"<html>"), "ab"),
    "cut after the end": (LONGER + events(*PLAIN[:3]), "ab"),
    "packed": (stream(gzip.compress(events(*PLAIN)), "Content-Encoding: gzip"), "ab"),
    "early hints": (b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + stream(events(*PLAIN)), "ab"),
    "not streamed": (response(json.dumps(WHOLE).encode()), "ab"),
    "not streamed, over several lines": (response(json.dumps(WHOLE, indent=2).encode()), "ab"),
    "nothing in choices": (stream(events("null", '{"choices":null}', '{"choices":[null]}', *PLAIN)), "ab"),
    "nothing in a piece": (stream(events('{"choices":[{"index":0,"delta":null}]}', *PLAIN)), "ab"),
    "content in parts": (stream(events(chunk(delta=PARTS), END)), "ab"),
    "a refusal": (stream(events(chunk(delta={"refusal": "no"}), END)), "no"),
    "a choice that was not asked for": (stream(events(OTHERS, *PLAIN[1:])), "ab"),
    "counts that are none": (stream(events(*PLAIN[:3], '{"usage":{"prompt_tokens":"x"}}')), "ab"),
    "counts of another shape": (stream(events(*PLAIN[:3], '{"choices":[],"usage":[-1]}')), "ab"),
    "halves of a surrogate pair": (stream(events(*HALVES, END)), "\U0001f600"),
    "half a surrogate pair": (stream(events(HALVES[0], END)), "\ufffd"),
}  # fmt: skip


@pytest.mark.parametrize("how", READ)
def test_what_servers_write_is_read(how: str, raw: Serve) -> None:
    """The whole answer, no more and no less, asked for once, and it ended."""
    answer, text = READ[how]
    server = raw(answer)
    model = lm.connect(server.url, probing=False)
    done = model.chat(ASK)
    model.close()
    assert (done.text, done.finish_reason, server.questions) == (text, "stop", 1)
    assert done.usage.prompt_tokens > 0


def test_a_thought_in_parts_is_a_thought(raw: Serve) -> None:
    """Content may come in parts, of which some are thinking: they are no text of the answer."""
    thought = {"content": [{"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}]}
    model = lm.connect(raw(stream(events(chunk(delta=thought), chunk("a"), END))).url, probing=False)
    done = model.chat(ASK)
    model.close()
    assert (done.text, done.thinking) == ("a", "hm")


def test_an_end_of_other_words_is_full(raw: Serve) -> None:
    """Servers say in several words that no more tokens were allowed."""
    for reason in ("length", "max_tokens", "model_length"):
        model = lm.connect(raw(stream(events(chunk("a"), chunk(finish_reason=reason)))).url, probing=False)
        assert model.chat(ASK).finish_reason == "length"
        model.close()


FAILED, CUT = errors.ServerFailedError, errors.StreamCutError
NOT_OURS, AWAY = errors.ServerAnswerError, errors.ServerUnreachableError
A = events(chunk("a"))
FULL = {"error": {"message": "full"}}
CALL = {"id": "x", "type": "function", "function": {"name": "f", "arguments": "{}"}}
UPGRADE = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n"

BROKEN: dict[str, tuple[bytes, type[Exception], str, str | None]] = {
    "an event named error": (stream(A + b'event: error\ndata: {"message":"full"}\n\n'), FAILED, "full", "a"),
    "an error in words": (stream(A + b"event: error\ndata: full\n\n"), FAILED, "full", "a"),
    "an error with 200": (response(json.dumps(FULL, indent=1).encode()), FAILED, "full", None),
    "an error as an object": (response(b'{"object":"error","message":"full"}'), FAILED, "full", None),
    "a detail": (response(b'{"detail":"full"}'), FAILED, "full", None),
    "a filter": (stream(A + events(chunk(finish_reason="content_filter"))), FAILED, "content_filter", "a"),
    "a failure as an end": (stream(A + events(chunk(finish_reason="error", **FULL))), FAILED, "full", "a"),
    "too deep": (stream(A + events("[" * 100_000)), NOT_OURS, "not what a model server", "a"),
    "a list": (stream(A + events("[1]")), NOT_OURS, "a list", "a"),
    "another packing": (stream(A, "Content-Encoding: compress"), NOT_OURS, "packed as compress", None),
    "packed as it is not": (stream(A, "Content-Encoding: gzip"), NOT_OURS, "not packed as its head", None),
    "a call of no tool": (stream(A + events(chunk(delta={"tool_calls": [CALL]}))), NOT_OURS, "'f'", "a"),
    "half a value": (CLOSES + A + events(chunk("b")[:40]).rstrip(), CUT, "middle", "a"),
    "a deep refusal": (response(b"[" * 100_000, status="500 x"), FAILED, "500", None),
    "another protocol": (UPGRADE, AWAY, "before anything", None),
}  # fmt: skip


@pytest.mark.parametrize("how", BROKEN)
def test_what_is_no_answer_is_an_error(how: str, raw: Serve) -> None:
    """By its name, with the server's words and the text so far; the question is asked once."""
    answer, error, words, kept = BROKEN[how]
    server = raw(answer)
    model = lm.connect(server.url, probing=False)
    with pytest.raises(error, match=words) as caught:
        model.chat(ASK)
    model.close()
    assert isinstance(caught.value, errors.BackendError)
    assert server.questions == 1
    assert (caught.value.completion.text if caught.value.completion else None) == kept


def test_a_log_probability_is_none_above_zero(raw: Serve) -> None:
    """What cannot be one is as if it were not told; the answer is shown with the others."""
    told = [
        {"token": t, "logprob": p, "top_logprobs": [{"token": t, "logprob": p}]}
        for t, p in (("a", 1e30), ("b", -0.5))
    ]
    body = events(*(chunk(one["token"], logprobs={"content": [one]}) for one in told), END)
    model = lm.connect(raw(stream(body)).url, probing=False)
    done = model.chat(ASK, logprobs=1)
    assert [one.logprob for one in done.logprobs or () if one.logprob is not None] == [-0.5]
    assert "ab" in bundle_of(done)["text/plain"]
    model.close()


def test_a_server_that_writes_on_is_left(raw: Serve) -> None:
    """One that takes no max_tokens could write for ever; pieces of a token are not taken for tokens."""
    model = lm.connect(raw(stream(events(*[chunk("a")] * 1000, END))).url, probing=False)
    with pytest.raises(errors.ServerAnswerError, match="2 tokens at most") as caught:
        model.chat(ASK, max_tokens=2)
    assert caught.value.completion.text == "a" * 273
    assert model.chat(ASK, max_tokens=200).text == "a" * 1000
    model.close()


def test_a_connection_is_used_again(raw: Serve) -> None:
    """Reading stops at the mark of the end, and what comes after it does not cost the connection."""
    server = raw(stream(events(*PLAIN, chunk("c"))))
    model = lm.connect(server.url, probing=False)
    assert [model.chat(ASK).text for _ in range(3)] == ["ab"] * 3
    model.close()


def test_the_key_goes_nowhere_else(raw: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A redirect is no place to send a key or a prompt to: it is refused."""
    other = raw(stream(events(*PLAIN)))
    server = raw(response(b"", f"Location: {other.url}/v1/chat/completions", status="307 Elsewhere"))
    monkeypatch.setenv("THE_KEY", "sk-0123456789abcdef")
    model = lm.connect(server.url, probing=False, key_env="THE_KEY")
    with pytest.raises(errors.ServerRefusedError, match="elsewhere"):
        model.chat(ASK)
    model.close()
    assert other.heads == []
    assert server.heads[-1]["authorization"] == "Bearer sk-0123456789abcdef"


def test_a_date_to_ask_again_is_by_the_servers_clock(raw: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """Clocks differ: what counts is how long after its own time the server wants to be asked."""
    monkeypatch.setattr(wire, "pause", lambda _error, _tries: 0.0)
    when = ("Date: Mon, 05 Jan 2099 10:00:00 GMT", "Retry-After: Mon, 05 Jan 2099 10:00:07 GMT")
    server = raw(response(b"{}", *when, status="429 Busy"))
    model = lm.connect(server.url, probing=False)
    with pytest.raises(errors.ServerBusyError) as caught:
        model.chat(ASK)
    model.close()
    assert (caught.value.retry_after, server.questions) == (7.0, wire.TRIES)


@pytest.mark.parametrize("wait", ["3600", "inf", "Fri, 09 Jan 2099 10:00:00 GMT"])
def test_a_server_that_wants_a_long_rest_is_not_asked_again(wait: str, raw: Serve) -> None:
    """The error comes at once, and says for how long and until when."""
    server = raw(
        response(b"{}", "Date: Fri, 09 Jan 2099 09:00:00 GMT", f"Retry-After: {wait}", status="429 Busy")
    )
    model = lm.connect(server.url, probing=False)
    with pytest.raises(
        errors.ServerBusyError, match=r"asks to wait \d+ h \d+ min, until [\d -]+:\d\d,"
    ) as caught:
        model.chat(ASK)
    model.close()
    assert (caught.value.retry_after, server.questions) == (float(wait) if wait.isalnum() else 3600.0, 1)


def test_a_whole_answer_waits_for_no_end_of_the_stream(raw: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that says how the answer ended, and then neither goes on nor hangs up, is left soon."""
    monkeypatch.setattr(backend, "TAIL_S", 0.0)
    open_ended = f"HTTP/1.1 200 OK\r\n{EVENTS}\r\nContent-Length: 9999\r\n\r\n".encode()
    server = raw(open_ended + events(*PLAIN[:-1]))
    model = lm.connect(server.url, probing=False)
    made = model.chat(ASK)
    model.close()
    assert (made.text, made.finish_reason) == ("ab", "stop")


SETTINGS = [
    ("HTTPS_PROXY", "ftp://x"),
    ("ALL_PROXY", "http://[::1"),
    ("HTTPS_PROXY", "http://user:secret@h:x"),
    ("SSL_CERT_FILE", "/no/such/file"),
]


@pytest.mark.parametrize(("name", "value"), SETTINGS)
@pytest.mark.parametrize("begin", [lambda: lm.connect("https://192.0.2.1"), new_client])
def test_settings_that_cannot_be_used_are_named(
    name: str, value: str, begin: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Proxies and certificates of the environment, wherever a connection begins."""
    monkeypatch.setenv(name, value)
    with pytest.raises(lm.OptionError, match=name) as caught:
        begin()
    assert "secret" not in str(caught.value)


def test_a_certificate_can_be_trusted_by_name(raw: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that nobody else signed is refused as that, and taken where SSL_CERT_FILE names it."""
    signed = Path(__file__).with_name("self_signed.pem")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(signed)
    server = raw(stream(events(*PLAIN)), context)
    monkeypatch.delenv("SSL_CERT_FILE", raising=False)
    with pytest.raises(
        errors.ServerUnreachableError, match=r"certificate of .* not trusted .*\n.*SSL_CERT_FILE"
    ):
        lm.connect(server.url)
    monkeypatch.setenv("SSL_CERT_FILE", str(signed))
    model = lm.connect(server.url, probing=False)
    assert model.chat(ASK).text == "ab"
    model.close()


def test_plain_http_asks_for_no_certificates(raw: Serve, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that cannot be read is no reason not to ask a server of this machine."""
    monkeypatch.setenv("SSL_CERT_FILE", "/no/such/file")
    model = lm.connect(raw(stream(events(*PLAIN))).url, probing=False)
    assert model.chat(ASK).text == "ab"
    model.close()


def test_plain_http_at_https_is_said(raw: Serve) -> None:
    """The words are about the address, and not that nothing answers."""
    server = raw(b"")
    with pytest.raises(errors.ServerUnreachableError, match="does not answer as https"):
        lm.connect(server.url.replace("http:", "https:"))


@pytest.mark.parametrize("path", ["/v1", "/v1/models", "/v1/chat/completions", "//v1/"])
def test_what_is_asked_there_is_no_part_of_an_address(path: str, raw: Serve) -> None:
    """Manuals show the whole path of an endpoint."""
    server = raw(stream(events(*PLAIN)))
    model = lm.connect(server.url + path, probing=False)
    assert model.chat(ASK).text == "ab"
    model.close()
