"""A scripted model that is served, and clients that ask it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import httpx
import openai
import pytest

from llama_magic.serving.bodies import BODIES, EVENTS
from llama_magic.serving.server import Server, serve
from llama_magic.testing import scripted_model


@pytest.fixture
def served() -> Iterator[Callable[..., Served]]:
    """Serve scripted models, or given ones, for one test."""
    running: list[Served] = []

    def begin(*models: Any, answers: Any = (), **how: Any) -> Served:
        options = {name: how.pop(name) for name in ("window", "formatter", "name") if name in how}
        made = models or (scripted_model(answers, **options),)
        running.append(Served(serve(*made, port=0, **how), made[0]))
        return running[-1]

    yield begin
    for one in running:
        one.client.close()
        one.server.stop()


class Served:
    """A server, the first model that it serves, and how to ask it. Every body is checked."""

    def __init__(self, server: Server, model: Any) -> None:
        self.server, self.model = server, model
        self.backend = model.backend
        self.client = httpx.Client(base_url=server.url, timeout=600)

    def openai(self, **how: Any) -> openai.OpenAI:
        return openai.OpenAI(base_url=f"{self.server.url}/v1", api_key="none", max_retries=0, **how)

    def post(self, path: str, status: int = 200, headers: Any = None, **body: Any) -> Any:
        """Ask, and return the body, which must be what /openapi.json says."""
        answer = self.client.post(path, json=body, headers=headers)
        assert answer.status_code == status, answer.text
        found = answer.json()
        if status == 200:
            BODIES[path].model_validate(found)
        else:
            check_error(found, status)
        return found

    def events(self, path: str, **body: Any) -> list[Any]:
        """Ask for a stream, and return its events but the last, which says that it is done."""
        with self.client.stream("POST", path, json={**body, "stream": True}) as answer:
            assert answer.status_code == 200
            assert answer.headers["content-type"].startswith("text/event-stream")
            frames = answer.read().decode().split("\n\n")
        data = [line[6:] for frame in frames for line in frame.split("\n") if line.startswith("data: ")]
        if path.startswith("/v1/") and path != "/v1/responses" and "error" not in data[-1][:10]:
            assert data.pop() == "[DONE]"
        found = [json.loads(item) for item in data]
        for one in found:
            if "error" not in one:
                EVENTS[path].model_validate(one)
        return found

    def refused(self, path: str, param: str | None = None, status: int = 400, **body: Any) -> dict[str, Any]:
        """Ask for what is refused; return the error."""
        error: dict[str, Any] = self.post(path, status, **body)["error"]
        if param is not None:
            assert error["param"] == param, error
            assert param.split("[")[0].split(".")[0] in error["message"], error
        return error


def check_error(body: Any, status: int) -> None:
    from llama_magic.serving.bodies import Error

    Error.model_validate(body)
    assert body["error"]["code"] == status
    assert body["error"]["message"]


def ask(text: str = "Hi", **more: Any) -> dict[str, Any]:
    """Return the fields of a chat that asks one thing."""
    return {"messages": [{"role": "user", "content": text}], **more}


def run(work: Any) -> Any:
    return asyncio.run(work)
