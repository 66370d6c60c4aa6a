"""Who may ask: addresses, keys, hosts, pages of other sites; and what one client may cost."""

from __future__ import annotations

import codecs
import gzip
import json
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from serving.conftest import Served, ask, check_error

from llama_magic.errors import InputTypeError, ModelClosedError, OptionError
from llama_magic.serving.guard import Rules, digest, is_loopback
from llama_magic.serving.server import serve, servers
from llama_magic.serving.state import Limits
from llama_magic.testing import scripted_model

CHAT = "/v1/chat/completions"
KEY = "sk-this-is-the-secret-key"


def test_an_address_that_others_reach_needs_a_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loopback is free; another address is refused without a key, or with an empty one, unlistened."""
    model = scripted_model()
    for host in ("0.0.0.0", "::", "192.0.2.1", "example.org"):
        with pytest.raises(OptionError, match="there is no key"):
            serve(model, host=host, port=0)
    monkeypatch.setenv("MY_KEY", "  ")
    with pytest.raises(OptionError, match="MY_KEY holds no key"):
        serve(model, host="0.0.0.0", port=0, key_env="MY_KEY")
    assert servers() == []
    assert all(map(is_loopback, ("localhost", "127.0.0.9", "::1", "[::1]")))
    assert not any(map(is_loopback, ("10.0.0.1", "x.localhost", "")))


def test_a_key_is_asked_for_and_appears_nowhere(
    served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bearer or X-Api-Key; health alone is open; a wrong key is 401; the key stands nowhere."""
    monkeypatch.setenv("MY_KEY", KEY)
    here = served(key_env="MY_KEY")
    for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": KEY}, {"X-Api-Key": f"{KEY}x"}):
        answer = here.client.post(CHAT, json=ask(), headers=headers)
        check_error(answer.json(), 401)
        assert answer.json()["error"]["type"] == "authentication_error"
        assert answer.headers["www-authenticate"] == "Bearer"
    assert [(row.path, row.ended) for row in here.server.log] == [(CHAT, "401")] * 4
    for headers in (
        {"Authorization": f"Bearer {KEY}"},
        {"X-Api-Key": KEY},
        {"authorization": f"bearer  {KEY}"},
    ):
        assert here.client.post(CHAT, json=ask(), headers=headers).status_code == 200
    assert here.client.get("/health").status_code == 200
    for path in ("/v1/models", "/props", "/metrics", "/openapi.json", "/nope"):
        assert here.client.get(path).status_code == 401
    pages = [here.client.get(p, headers={"X-Api-Key": KEY}).text for p in ("/props", "/metrics")]
    from llama_magic.display import to_html

    for text in (
        repr(here.server),
        to_html(here.server),
        *pages,
        repr(vars(here.server)),
        str(here.server.log),
    ):
        assert KEY not in text


def test_a_key_is_kept_as_a_digest_of_equal_length() -> None:
    """Keys of any length are compared as digests, in constant time."""
    rules = Rules("127.0.0.1", digest(KEY.encode()))
    assert KEY.encode() not in repr(rules).encode()
    assert len(digest(b"")) == len(digest(b"x" * 1000)) == len(digest(b"\xff"))


@pytest.mark.parametrize(
    "key", ["schlüssel-ß", "\U0001f511", "with space", "tab\there", "\udcff", "q\"u:o'te"]
)
def test_a_key_of_any_characters_opens(
    served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    """As the bytes that the environment has, or in Latin-1; nothing else does."""
    monkeypatch.setenv("MY_KEY", key)
    here = served(key_env="MY_KEY")
    sent = [key.encode("utf-8", "surrogateescape")]
    if max(key) < "\u0100":
        sent.append(key.encode("latin-1"))
    for given in sent:
        for more, status in ((b"", 200), (b"x", 401)):
            answer = here.client.get("/v1/models", headers=[(b"Authorization", b"Bearer " + given + more)])
            assert answer.status_code == status


@pytest.mark.parametrize("key", ["a\nb", "a\x7fb", "x" * 9000])
def test_a_key_that_no_header_holds_is_refused(monkeypatch: pytest.MonkeyPatch, key: str) -> None:
    """Nobody could send it: that is said at once, without the key."""
    monkeypatch.setenv("MY_KEY", key)
    with pytest.raises(OptionError, match="MY_KEY cannot be sent") as caught:
        serve(scripted_model(), port=0, key_env="MY_KEY")
    assert key not in str(caught.value)


MISTAKES: list[tuple[dict[str, Any], type[Exception], str]] = [
    ({"host": None}, InputTypeError, "host is None"),
    ({"host": ""}, OptionError, "host is ''"),
    ({"host": "127.0.0.1:80"}, OptionError, "without a scheme or a port"),
    ({"host": "http://localhost"}, OptionError, "without a scheme or a port"),
    ({"key_env": 5}, InputTypeError, "key_env is 5"),
    ({"key_env": ""}, InputTypeError, "key_env is ''"),
    ({"hosts": 5}, InputTypeError, "hosts is 5"),
    ({"hosts": ["a b"]}, OptionError, "hosts holds 'a b'"),
    ({"cors": [None]}, InputTypeError, "cors holds None"),
    ({"cors": "example.org"}, OptionError, "cors holds 'example.org'"),
    ({"limits": {"body": 1}}, InputTypeError, "limits is a dict"),
]


@pytest.mark.parametrize(("how", "error", "words"), MISTAKES)
def test_what_cannot_be_meant_is_named(how: dict[str, Any], error: type[Exception], words: str) -> None:
    """Before anything listens."""
    with pytest.raises(error, match=words):
        serve(scripted_model(), **{"port": 0, **how})
    assert servers() == []
    with pytest.raises(OptionError, match="limit body is -1"):
        Limits(body=-1)


def test_all_addresses_are_those_of_both_kinds(
    served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """`::` listens at IPv4 as well where the system can; a name in capitals is the same name."""
    monkeypatch.setenv("MY_KEY", KEY)
    ports = (
        [(served(host="::", key_env="MY_KEY").server.port, "127.0.0.1")]
        if socket.has_dualstack_ipv6()
        else []
    )
    ports.append((served(host=" LOCALHOST ").server.port, "127.0.0.1"))
    for port, at in ports:
        assert httpx.get(f"http://{at}:{port}/health", timeout=600).status_code == 200


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("127.0.0.1:{port}", 200), ("localhost:{port}", 200), ("LOCALHOST", 200), ("[::1]:{port}", 200),
        ("evil.com", 403), ("evil.com:{port}", 403), ("127.0.0.1.evil.com", 403), ("localhost.evil.com", 403),
        ("192.0.2.1", 403), ("", 403), ("my.name:{port}", 200),
        ("localhost.", 200), ("my.name.:{port}", 200), ("::1", 200), ("[::1]evil", 403), ("[::1", 403),
        ("127.0.0.1:80@evil", 403), ("localhost:x", 403), ("user@localhost", 403), ("127.1", 403),
    ],
)  # fmt: skip
def test_only_our_own_names_are_answered(served: Callable[..., Served], host: str, status: int) -> None:
    """A name that was bound anew to this machine (DNS rebinding) is another host: it is refused."""
    here = served(hosts=["My.Name:8080"])
    answer = here.client.get("/v1/models", headers={"Host": host.format(port=here.server.port)})
    assert answer.status_code == status
    if status == 403:
        assert answer.json()["error"]["param"] == "Host"


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://127.0.0.1:{port}", 200), ("http://evil.com", 403), ("null", 403), ("http://mine.org", 200),
        ("http://localhost:3000", 403), ("https://127.0.0.1", 403), ("http://127.0.0.1:{port}.evil.com", 403),
    ],
)  # fmt: skip
def test_pages_of_other_sites_may_not_ask(served: Callable[..., Served], origin: str, status: int) -> None:
    """A browser tells where a page is from: this server's own and those that were named may ask."""
    here = served(cors=["HTTP://mine.org/"])
    headers = {"Origin": origin.format(port=here.server.port), "Content-Type": "text/plain"}
    answer = here.client.post(CHAT, content=json.dumps(ask()), headers=headers)
    assert answer.status_code == status
    allowed = answer.headers.get("access-control-allow-origin")
    assert allowed == ("http://mine.org" if origin == "http://mine.org" else None)


def test_a_browser_asks_first_where_pages_were_named(
    served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """CORS is off unless it is asked for; a preflight needs no key, the request after it does."""
    first = {"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization"}
    plain = served()
    assert plain.client.options(CHAT, headers={"Origin": "http://mine.org", **first}).status_code == 403
    monkeypatch.setenv("MY_KEY", KEY)
    one = served(cors="http://mine.org", hosts="box.local")  # a text is one, and no list of its letters
    with_host = {"Origin": "http://mine.org", "Host": "box.local", **first}
    assert one.client.options(CHAT, headers=with_host).status_code == 200
    here = served(key_env="MY_KEY", cors=["*"])
    answer = here.client.options(CHAT, headers={"Origin": "http://mine.org", **first})
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "*")
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert here.client.post(CHAT, json=ask(), headers={"Origin": "http://mine.org"}).status_code == 401
    with_key = {"Origin": "http://mine.org", "X-Api-Key": KEY}
    answer = here.client.post(CHAT, json=ask(), headers=with_key)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, "*")


def test_the_body_and_its_parts_are_bounded(served: Callable[..., Served]) -> None:
    """Too large a body, too many messages, headers, levels: refused by name, and others are served."""
    here = served(limits=Limits(body=20_000))
    answer = here.client.post(CHAT, json=ask("x" * 20_000))
    check_error(answer.json(), 413)
    assert "messages: List should have at most 2048" in here.refused(CHAT, messages=[{}] * 3000)["message"]
    deep = b'{"messages":' + b"[" * 5000 + b"]" * 5000 + b"}"
    assert here.client.post(CHAT, content=deep).status_code == 400
    assert here.client.get("/health", headers={"X-Long": "x" * 17_000}).status_code in (400, 431)
    assert here.client.post(CHAT, json=ask()).status_code == 200


def test_schemas_are_bounded(served: Callable[..., Served]) -> None:
    """A schema that stands for endless work is refused, in no time."""
    here = served()
    for bomb in (
        {"type": "string", "pattern": "a{1000000000}"},
        {"enum": [f"value {number}" for number in range(100_000)]},
        {"$ref": "#/$defs/missing"},
        {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    ):
        wanted = {"type": "json_schema", "json_schema": {"schema": bomb}}
        here.refused(CHAT, "response_format.json_schema.schema", **ask(response_format=wanted))


def raw(here: Served, head: str, body: bytes = b"") -> socket.socket:
    """Open a connection and send what stands there, whatever it is."""
    sock = socket.create_connection(("127.0.0.1", here.server.port), timeout=600)
    sock.sendall(head.format(port=here.server.port).encode() + body)
    return sock


def test_a_body_that_never_comes_is_given_up(served: Callable[..., Served]) -> None:
    """Whoever promises bytes and sends none gets 408, and costs the others nothing."""
    here = served(limits=Limits(body_s=2))  # within which the other's body comes
    head = f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1:{{port}}\r\nContent-Length: 100\r\n\r\n"
    slow = [raw(here, head, b'{"mess') for _ in range(20)]
    assert here.client.post(CHAT, json=ask()).status_code == 200
    assert all(b"408" in sock.recv(4096).split(b"\r\n")[0] for sock in slow)


@pytest.mark.parametrize(
    "line",
    [
        "nonsense\r\n\r\n",
        "GET /health HTTP/1.1\r\n\r\n",
        "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nContent-Length: -5\r\n\r\n",
        "POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.com\r\n\r\n",
        "GET http://evil.com/health HTTP/1.1\r\nHost: evil.com\r\n\r\n",
    ],
)
def test_what_is_no_request_of_ours_is_refused(served: Callable[..., Served], line: str) -> None:
    """Broken requests end with 4xx or a closed connection; the server lives on."""
    here = served()
    with raw(here, line) as sock:
        status = sock.recv(4096).split(b"\r\n")[0]
        assert status == b"" or status.split()[1][:1] == b"4", status
    assert here.client.get("/health").status_code == 200


def test_ports_and_packages_are_named_where_they_lack(
    served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A port in use, a port that is none, a package that is not installed: each says what to do."""
    here = served()
    with pytest.raises(OptionError, match=f"port {here.server.port} cannot be listened at"):
        serve(here.model, port=here.server.port)
    for port in (-1, 70000, "8080", True):
        with pytest.raises(OptionError, match="expected a number"):
            serve(here.model, port=port)  # type: ignore[arg-type]
    other = scripted_model()
    with pytest.raises(OptionError, match="Two models are called 'scripted'"):
        serve(here.model, other, port=0)
    other.close()
    with pytest.raises(ModelClosedError):
        serve(other, port=0)
    monkeypatch.setitem(__import__("sys").modules, "llama_magic.serving.http", None)
    with pytest.raises(OptionError, match=r"llama_magic.serving.http is needed|not installed"):
        serve(here.model, port=0)


def test_ipv6_is_listened_at(served: Callable[..., Served]) -> None:
    """::1 is an address like 127.0.0.1, in brackets where an address stands in a URL."""
    try:
        here = served(host="::1")
    except OptionError:
        return  # this machine has no IPv6
    assert here.server.url == f"http://[::1]:{here.server.port}"
    assert here.client.get("/health").status_code == 200


def test_many_at_once_are_told_to_wait(
    served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request beyond those that may wait gets 503 and when to come again; nothing of it is begun."""
    here = served(limits=Limits(waiting=2))
    begin, held = here.backend.submit, []
    monkeypatch.setattr(here.backend, "submit", lambda *asked: held.append(asked))
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(here.post, "/v1/completions", prompt=["a", "b"])
        while len(held) < 2:
            assert not first.done()
        answer = here.client.post("/v1/completions", json={"prompt": "c"})
        assert len(held) == 2
        for asked in held:
            begin(*asked)
        first.result()
    check_error(answer.json(), 503)
    assert answer.headers["retry-after"] == "1"
    monkeypatch.undo()
    here.post("/v1/completions", prompt=["a", "b"])


def test_bodies_as_windows_and_proxies_send_them(served: Callable[..., Served]) -> None:
    """A byte order mark is no part of the JSON; what is packed is refused by the header that says so."""
    here = served(answers=lambda _request: "a")
    body, mark = json.dumps(ask()).encode(), codecs.BOM_UTF8
    assert here.client.post(CHAT, content=mark + body).status_code == 200
    wrong = here.client.post(CHAT, content=mark + json.dumps(ask(n=0)).encode())
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "n")
    answer = here.client.post(CHAT, content=gzip.compress(body), headers={"content-encoding": "gzip"})
    check_error(answer.json(), 400)
    assert answer.json()["error"]["param"] == "Content-Encoding"
    assert here.client.post(CHAT, content=body, headers={"content-encoding": "identity"}).status_code == 200
    assert here.client.post(CHAT, content=body, headers={"content-encoding": ""}).status_code == 200
    many = here.refused(
        CHAT, "stop", **ask(stop=["."] * 1000)
    )  # of a text or a list of them, the list is meant
    assert "1000" in many["message"]


@pytest.mark.parametrize(
    "sent", [b"\x16\x03\x01\x02 hello\r\n\r\n", b"GET /\r\n\r\n", b"GET /health HTTP/1.1\r\n\r\n"]
)
def test_what_is_no_http_is_refused_in_silence(
    served: Callable[..., Served], sent: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of TLS, an older HTTP, no host: an error as all others have it, and nothing in a cell's output."""
    here = served()
    with socket.create_connection(("127.0.0.1", here.server.port), timeout=600) as sock:
        sock.sendall(sent)
        head, _, body = sock.makefile("rb").read().partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 400 ")
    check_error(json.loads(body), 400)
    upgrade = {"upgrade": "websocket", "connection": "Upgrade", "sec-websocket-key": "x"}
    assert here.client.get("/v1/realtime", headers=upgrade).status_code == 404
    assert capfd.readouterr() == ("", "")
