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
from llama_magic.testing import Script

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
        asked = pool.submit(here.client.post, CHAT, json=ask(stream=streamed), timeout=10)
        while not held:
            assert not asked.done()
        assert here.server._loop is not None
        here.server._loop.call_soon_threadsafe(end)
        check_error(_last(asked.result(), streamed), 503)
