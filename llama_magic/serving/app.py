"""The application: every path, and what answers it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp

from llama_magic.serving.about import About
from llama_magic.serving.chat import chat_completions, input_tokens
from llama_magic.serving.completions import completions
from llama_magic.serving.embeddings import embeddings
from llama_magic.serving.exchange import Endpoint, Handler, as_json
from llama_magic.serving.fields import chat as chats
from llama_magic.serving.fields import completions as texts
from llama_magic.serving.fields import responses as newer
from llama_magic.serving.fields import tokens as cut
from llama_magic.serving.guard import RequestGuard, Rules
from llama_magic.serving.native import completion
from llama_magic.serving.refusals import Refusal, refusal_of
from llama_magic.serving.responses import responses
from llama_magic.serving.schema import document
from llama_magic.serving.tokens import (
    apply_template,
    detokenize,
    extra_count,
    extra_detokenize,
    extra_tokenize,
    tokenize,
)

if TYPE_CHECKING:
    from llama_magic.serving.fields.common import Fields
    from llama_magic.serving.state import State

_BETWEEN = "No text is filled in between two others; where a model was trained to, write its own marks."
# What stands there on other servers.
_ELSEWHERE = {
    "/api/": "That is Ollama's; clients that speak OpenAI's API ask /v1.",
    "/v1/messages": "That is Anthropic's; /v1/chat/completions is OpenAI's.",
    "/openai/": "That is Azure's; clients that speak OpenAI's API ask /v1.",
    "/infill": _BETWEEN,
    "/v1/fim/": _BETWEEN,
    "/embedding": "Ask /v1/embeddings.",
    "/slots": "/metrics tells what is under way.",
}
Page = Callable[[Request], Awaitable[Response]]
_COUNT = "/chat/completions/input_tokens"
# Path, what its body is, what answers it. Others call a path without /v1, or llama-server calls it so.
POSTS: tuple[tuple[str, type[Fields], Handler, tuple[str, ...]], ...] = (
    ("/v1/chat/completions", chats.ChatCompletion, chat_completions, ("/chat/completions",)),
    (f"/v1{_COUNT}", chats.ChatCompletion, input_tokens, (_COUNT,)),
    ("/v1/completions", texts.Completion, completions, ()),
    ("/v1/responses", newer.Response, responses, ("/responses",)),
    ("/v1/embeddings", texts.Embedding, embeddings, ("/embeddings",)),
    ("/completion", texts.NativeCompletion, completion, ("/completions",)),
    ("/tokenize", cut.Tokenize, tokenize, ()),
    ("/detokenize", cut.Detokenize, detokenize, ()),
    ("/apply-template", chats.ApplyTemplate, apply_template, ()),
    ("/extras/tokenize", cut.ExtraInput, extra_tokenize, ()),
    ("/extras/tokenize/count", cut.ExtraInput, extra_count, ()),
    ("/extras/detokenize", cut.Detokenize, extra_detokenize, ()),
)  # fmt: skip


def application(state: State, rules: Rules) -> ASGIApp:
    """Return the application of a server."""
    about = About(state)
    routes: list[BaseRoute] = []
    for path, kind, handle, others in POSTS:
        for name in (path, *others):
            routes.append(Route(name, Endpoint(state, kind, handle), methods=["POST"]))

    async def openapi(request: Request) -> Response:
        """Describe the paths."""
        return Response(as_json(document(POSTS)), media_type="application/json")

    for name, page in (
        ("/v1/models", about.models),
        ("/models", about.models),
        ("/v1/models/", about.models),  # no model of an empty name
        ("/v1/models/{name:path}", about.one_model),
        ("/props", about.props),
        ("/health", about.health),
        ("/v1/health", about.health),
        ("/metrics", about.metrics),
        ("/openapi.json", openapi),
    ):
        routes.append(Route(name, _told(page), methods=["GET"]))
    app = Starlette(routes=routes, exception_handlers={HTTPException: _http, Refusal: _refused})  # type: ignore[dict-item]  # theirs are wider
    app.state.log = state.log
    return RequestGuard(app, rules, state.log)


def _told(page: Page) -> Page:
    """Return a page whose errors, whatever they are, are told as those of a question."""

    async def answer(request: Request) -> Response:
        try:
            return await page(request)
        except Exception as error:
            return await _refused(request, error)

    return answer


async def _http(request: Request, error: HTTPException) -> Response:
    path = request.url.path
    instead = next((words for start, words in _ELSEWHERE.items() if path.startswith(start)), "")
    words = {
        404: f"There is nothing at {path[:200]}. {instead or '/openapi.json says what there is.'}",
        405: f"{request.method} is not taken here.",
    }
    status = error.status_code if error.status_code in words else 400
    return await _refused(
        request, Refusal(status, words.get(status, str(error.detail)), headers=error.headers or {})
    )


async def _refused(request: Request, error: Exception) -> Response:
    """Refuse what no `Endpoint` has taken; the row of its client is begun here, and ends."""
    refusal = refusal_of(error)
    request.app.state.log.refused(request.client, request.url.path, refusal.status)
    return Response(
        as_json(refusal.body()), refusal.status, dict(refusal.headers), media_type="application/json"
    )
