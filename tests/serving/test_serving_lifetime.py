"""What clients that go, wait or read slowly cost the others; how a server ends; determinism beside others."""

from __future__ import annotations

import asyncio
import gc
import json
import socket
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest
from serving.conftest import Served, ask, check_error
from settled import WATCHDOG, until

from llama_magic.serving import answers, server
from llama_magic.serving.server import Server, serve, servers
from llama_magic.serving.state import Limits
from llama_magic.testing import Script, scripted_model

CHAT = "/v1/chat/completions"
LONG = " ".join(f"w{i}" for i in range(400))


def half_read(here: Served, body: dict[str, Any]) -> socket.socket:
    """Ask for an answer over a connection of our own, and read the first bytes of it."""
    data = json.dumps(body).encode()
    sock = socket.create_connection(("127.0.0.1", here.server.port), timeout=600)
    head = f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n\r\n"
    sock.sendall(head.encode() + data)
    if body.get("stream"):
        sock.recv(64)
    return sock


def test_a_client_that_goes_stops_its_answer(served: Callable[..., Served]) -> None:
    """Streamed or not: the connection is closed, the answer ends as interrupted, and the history has it."""
    gate = threading.Event()
    here = served(answers=lambda _r: Script(LONG, at=5, hold=gate), window=2048)
    for body in (
        ask(stream=True, max_tokens=500),
        ask(max_tokens=500),
        ask(n=3, stream=True, max_tokens=500),
    ):
        sock = half_read(here, body)
        until(lambda: [row for row in here.server.log if not row.ended and row.written >= 5])
        sock.close()
        until(lambda: all(row.ended for row in here.server.log))
        assert list(here.server.log)[-1].ended == "disconnected"
    gate.set()
    until(lambda: here.model.stats.interrupted == 3)
    assert here.model.stats.completion_tokens < 5 * 15


def test_a_body_does_not_wait_behind_its_head(
    served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """No connection waits for acknowledgements: 40 ms a request would be lost."""
    from uvicorn.protocols.http.h11_impl import H11Protocol

    waits: list[bool] = []
    made = H11Protocol.connection_made

    def connection_made(self: Any, transport: Any) -> None:
        sock = transport.get_extra_info("socket")
        waits.append(not sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        made(self, transport)

    monkeypatch.setattr(H11Protocol, "connection_made", connection_made)
    assert served().client.get("/v1/models").status_code == 200
    assert waits == [False]


@pytest.mark.parametrize("late", [False, True])
def test_an_interrupt_while_a_server_begins_leaves_none(monkeypatch: pytest.MonkeyPatch, late: bool) -> None:
    """Before or after it listens: the port is free again, and no server is left that nobody can stop."""
    made = []

    class Struck(Server):
        def __init__(self, *given: Any) -> None:
            made.append(self)
            super().__init__(*given)

    def strike(thread: threading.Thread) -> None:
        thread.start()
        if late:
            assert httpx.get(f"{made[0].url}/health", timeout=WATCHDOG).status_code == 200
        raise KeyboardInterrupt

    monkeypatch.setattr(server, "Server", Struck)
    monkeypatch.setattr(server, "set_going", strike)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with pytest.raises(KeyboardInterrupt):
        serve(scripted_model(["a"]), port=port)
    made[0].ended.wait(WATCHDOG)
    assert (made[0].running, servers()) == (False, [])
    socket.create_server(("127.0.0.1", port)).close()


def test_cells_are_free_at_once(served: Callable[..., Served], loaded: Callable[..., Any]) -> None:
    """In a real engine: an answer of a client that went is decoded no further, and others go on."""
    model = loaded("short")
    here = served(model)
    before = model.stats.interrupted
    sock = half_read(here, ask("Count to a thousand.", stream=True, max_tokens=1500, ignore_eos=True))
    until(lambda: any(row.written for row in here.server.log))
    other = ThreadPoolExecutor(1).submit(here.post, CHAT, **ask("Say hi.", max_tokens=20, temperature=0))
    sock.close()
    until(lambda: model.stats.interrupted == before + 1)
    until(lambda: [row for row in here.server.log if row.ended == "disconnected" and row.written < 1500])
    assert other.result()["choices"][0]["message"]["content"]
    assert not any(sequence.running for sequence in model.kv.sequences)


def test_a_slow_reader_costs_the_others_nothing(served: Callable[..., Served]) -> None:
    """One who reads nothing is given up after a while; meanwhile others are served."""
    text = ("word" * 100 + " ") * 5_000
    here = served(
        answers=lambda r: text if "long" in r.text else "short", window=200_000, limits=Limits(stall_s=0.5)
    )
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    sock.connect(("127.0.0.1", here.server.port))
    data = json.dumps(ask("long", stream=True, max_tokens=100_000)).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(data)}\r\n\r\n"
    sock.sendall(head.encode() + data)
    assert here.post(CHAT, **ask("hi"))["choices"][0]["message"]["content"] == "short"
    until(lambda: [row for row in here.server.log if row.ended == "disconnected"])
    sock.close()


@pytest.mark.parametrize("n", [1, 2])
def test_a_silent_stream_says_that_it_is_there(
    served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch, n: int
) -> None:
    """By comments, again and again, which are no part of the answer; one that is read at once has none."""
    monkeypatch.setattr(answers, "PING_S", 0.02)
    gate = threading.Event()
    here = served(answers=lambda _r: Script("one two three", at=1, hold=gate))
    with here.client.stream("POST", CHAT, json=ask(stream=True, n=n)) as answer:
        told = []
        for line in answer.iter_lines():
            told.append(line)
            if told.count(": still at it") == 3:
                gate.set()
    data = [json.loads(line[6:]) for line in told if line.startswith("data: {")]
    texts = [c["delta"].get("content") or "" for e in data for c in e["choices"] if c["index"] == 0]
    assert "".join(texts) == "one two three"
    assert told[-2:] == ["data: [DONE]", ""]


def test_one_that_waits_too_long_is_told_so(
    served: Callable[..., Served], loaded: Callable[..., Any]
) -> None:
    """A seeded request waits while another seeded one is written: after `queue_s` it is 503, and stops."""
    model = loaded("short", flash_attn="off")  # rows are not alike: seeded requests are written in turn
    here = served(model, limits=Limits(queue_s=0.3))
    sock = half_read(here, ask("Go on.", stream=True, seed=1, max_tokens=1500, ignore_eos=True))
    answer = here.client.post(CHAT, json=ask("Hi", seed=2, max_tokens=4))
    sock.close()
    assert answer.status_code == 503
    check_error(answer.json(), 503)
    assert "waited 0.3 seconds" in answer.json()["error"]["message"]


def test_an_error_in_the_middle_is_the_last_event(served: Callable[..., Served]) -> None:
    """A stream that fails says so in an event, and ends; the next request is served."""
    here = served(answers=[Script("one two three", at=2, error=RuntimeError("secret words")), "fine"])
    events = here.events(CHAT, **ask())
    assert "".join(e["choices"][0]["delta"].get("content") or "" for e in events[:-1]) == "one two"
    check_error(events[-1], 500)
    assert "secret" not in json.dumps(events[-1])
    assert here.post(CHAT, **ask())["choices"][0]["message"]["content"] == "fine"


def test_a_server_that_is_stopped_ends_what_it_writes(served: Callable[..., Served]) -> None:
    """stop() returns with the port free, the streams ended, the threads gone, the model usable."""
    gate = threading.Event()
    here = served(answers=lambda _r: Script(LONG, at=5, hold=gate), window=2048)
    sock = half_read(here, ask(stream=True, max_tokens=500))
    until(lambda: any(row.written >= 5 for row in here.server.log))
    here.server.stop()
    here.server.stop()
    assert not here.server.running
    assert servers() == []
    data = b""
    while piece := sock.recv(65536):
        data += piece
    sock.close()
    with socket.create_server(("127.0.0.1", here.server.port)):
        pass
    gate.set()
    here.model.backend.answers = lambda _r: "still here"
    assert here.model.complete("a").text == "still here"
    until(
        lambda: (
            not [
                t
                for t in threading.enumerate()
                if t.name.startswith(("llama_magic serv", "llama_magic server"))
            ]
        )
    )


def test_nothing_is_left_of_many(served: Callable[..., Served]) -> None:
    """After 60 requests, a third of them given up: no thread, no descriptor, no answer more than before.

    But the server's own few workers, of which a busy machine has begun more.
    """
    import os

    here = served(answers=lambda _r: Script("a b c d e", delay=0.002))

    gc.freeze()  # garbage is looked for, again and again, in what this test makes

    def counts() -> tuple[int, int]:
        gc.collect()
        others = [one for one in threading.enumerate() if not one.name.startswith("llama_magic serve_")]
        return len(os.listdir("/proc/self/fd")), len(others)

    def one(number: int) -> None:
        if number % 3 == 0:
            half_read(here, ask(stream=True)).close()
        elif number % 3 == 1:
            here.events(CHAT, **ask())
        else:
            assert httpx.post(here.server.url + CHAT, json=ask(), timeout=600).status_code == 200

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(one, range(12)))
        until(lambda: all(row.ended for row in here.server.log))
        before = counts()
        list(pool.map(one, range(60)))
        until(lambda: all(row.ended for row in here.server.log))
        until(lambda: counts()[0] <= before[0] + 2 and counts()[1] <= before[1] + 2)
    page = here.client.get("/metrics").text
    assert "llamacpp:requests_processing 0\n" in page
    assert "llamacpp:requests_deferred 0\n" in page


def test_the_same_seed_is_the_same_bytes_beside_others(
    served: Callable[..., Served], loaded: Callable[..., Any]
) -> None:
    """Text and tool calls of a seeded request, whole and streamed, alone and with seven others running."""
    here = served(loaded("short"))
    asked = ask("Tell me a short story.", seed=11, max_tokens=12, temperature=0.9)
    alone = here.post(CHAT, **asked)["choices"]
    path = here.server.url + CHAT

    async def beside() -> list[Any]:
        async with httpx.AsyncClient(timeout=600) as client:
            others = [
                asyncio.ensure_future(client.post(path, json=ask(f"Question {i}?", max_tokens=30)))
                for i in range(7)
            ]
            found = [(await client.post(path, json=asked)).json()["choices"] for _ in range(4)]
            await asyncio.gather(*others)
            return found

    assert asyncio.run(beside()) == [alone] * 4
    streamed = "".join(e["choices"][0]["delta"].get("content") or "" for e in here.events(CHAT, **asked))
    assert streamed == alone[0]["message"]["content"]


def test_cells_and_requests_share_a_model(served: Callable[..., Served]) -> None:
    """While a request is written the kernel's own calls are answered, and both stand in the history."""
    from llama_magic.model.journal import journal

    gate = threading.Event()
    here = served(answers=lambda r: Script("slow one", at=1, hold=gate) if "slow" in r.text else "quick")
    with ThreadPoolExecutor(1) as pool:
        slow = pool.submit(here.post, CHAT, **ask("slow"))
        until(lambda: any(row.written for row in here.server.log))
        assert here.model.chat([{"role": "user", "content": "x"}]).text == "quick"
        gate.set()
        assert slow.result()["choices"][0]["message"]["content"] == "slow one"
    assert [completion.text for completion in journal] == ["quick", "slow one"]
