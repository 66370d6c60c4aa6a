"""An answer that is broken off on our side is an error: no client takes a part for the whole, or waits on."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from serving.conftest import Served, ask, check_error

from llama_magic.request.events import EndEvent, FinishEvent, Stats
from llama_magic.serving.metrics import Metrics
from llama_magic.testing import Script, scripted_model

CHAT = "/v1/chat/completions"
ASKED: dict[str, dict[str, Any]] = {
    CHAT: ask(),
    "/v1/completions": {"prompt": "a"},
    "/v1/responses": {"input": "a"},
    "/completion": {"prompt": "a"},
}


def _last(answer: Any, streamed: bool) -> Any:
    """Return the body, or what the last event of a stream holds."""
    if not streamed:
        assert answer.status_code == 503
        return answer.json()
    assert answer.status_code == 200
    return json.loads([line for line in answer.text.splitlines() if line.startswith("data: ")][-1][6:])


@pytest.mark.parametrize("path", ASKED)
@pytest.mark.parametrize("streamed", [False, True])
def test_a_model_that_is_unloaded_breaks_its_answers_off(
    served: Callable[..., Served], path: str, streamed: bool
) -> None:
    """Whole or streamed: 503 with words, at the end of what came; not an answer that stopped by itself."""
    gate = threading.Event()
    here = served(answers=lambda _request: Script("one two three four", at=2, hold=gate))
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(here.client.post, path, json={**ASKED[path], "stream": streamed})
        while not any(row.written >= 2 for row in here.server.log):
            assert not asked.done()
        here.model.close()
        gate.set()
        check_error(_last(asked.result(), streamed), 503)


def test_what_is_unloaded_is_served_no_more(served: Callable[..., Served]) -> None:
    """Each path and page says so as all errors are told; the list, and no name, mean the other models."""
    first, second = (scripted_model(lambda _r, n=n: n, name=n) for n in ("one", "two"))
    here = served(first, second)
    first.close()
    for path, body in {**ASKED, "/tokenize": {"content": "a"}}.items():
        error = here.post(path, 503, **body, model="one")["error"]
        assert error["param"] is None, error
    for page in ("/props?model=one", "/v1/models/one", "/health"):
        check_error(here.client.get(page).json(), 503)
    assert [row["id"] for row in here.client.get("/v1/models").json()["data"]] == ["two"]
    assert here.post(CHAT, **ask())["choices"][0]["message"]["content"] == "two"


def test_a_page_that_fails_is_an_error_too(
    served: Callable[..., Served], monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the form of all others, without the words of what is none of the client's."""
    here = served()

    def fail(*_: Any) -> str:
        raise RuntimeError("secret words")

    monkeypatch.setattr(Metrics, "text", fail)
    answer = here.client.get("/metrics")
    check_error(answer.json(), 500)
    assert "secret" not in answer.text


@pytest.mark.parametrize("streamed", [False, True])
def test_one_that_waits_when_its_model_is_unloaded_is_told_so(
    served: Callable[..., Served], streamed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its end comes before its beginning, all at once: the client does not wait for more."""
    here = served()
    held: list[Any] = []
    monkeypatch.setattr(here.backend, "submit", lambda *asked: held.append(asked))

    def end() -> None:
        _, sink = held[0]
        for event in (FinishEvent(0, "interrupted"), EndEvent(None, Stats())):
            sink(event)

    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(here.client.post, CHAT, json=ask(stream=streamed))
        while not held:
            assert not asked.done()
        assert here.server._loop is not None
        here.server._loop.call_soon_threadsafe(end)
        check_error(_last(asked.result(), streamed), 503)
