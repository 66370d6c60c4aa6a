"""Hosted servers of OpenAI's format, each with its own address, names of fields and refusals."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

import llama_magic as lm
from llama_magic import errors

ASK = [{"role": "user", "content": "Hi"}]
Refuse = Callable[[dict[str, Any]], tuple[int, Any] | None]
LISTED: Any = {"data": [{"id": "m", "max_context_length": 4096}]}
PIECES = [
    {"choices": [], "prompt_filter_results": []},  # Azure's first
    {"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {"content": "ab"}, "finish_reason": None}]},
    {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 9}},
]
STREAM = "".join(f"data: {json.dumps(piece)}\n\n" for piece in PIECES).encode() + b"data: [DONE]\n\n"


class Hosted:
    """A server whose API stands under `prefix`. `asked` are the bodies of questions, refused or not."""

    def __init__(self, prefix: str, refuse: Refuse, listed: Any, missing: tuple[int, Any]) -> None:
        self.asked: list[dict[str, Any]] = []
        hosted = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_: Any) -> None:
                pass

            def answer(self, status: int, found: Any) -> None:
                data = found if isinstance(found, bytes) else json.dumps(found).encode()
                self.send_response(status)
                self.send_header(
                    "Content-Type", "text/event-stream" if found is STREAM else "application/json"
                )
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def do_GET(self) -> None:
                self.answer(*((200, listed) if self.path == f"{prefix}/models" else missing))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                if self.path != f"{prefix}/chat/completions":
                    self.answer(*missing)
                    return
                hosted.asked.append(body)
                self.answer(*(refuse(body) or (200, STREAM)))

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}{prefix}"
        threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True).start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def hosted() -> Iterator[Callable[..., Hosted]]:
    """Return what starts a server; without words of its own it refuses nothing."""
    made: list[Hosted] = []

    def begin(
        prefix: str = "/v1",
        refuse: Refuse = lambda _body: None,
        listed: Any = LISTED,
        missing: tuple[int, Any] = (404, {"error": "none"}),
    ) -> Hosted:
        made.append(Hosted(prefix, refuse, listed, missing))
        return made[-1]

    yield begin
    for server in made:
        server.stop()


def mistral(body: dict[str, Any]) -> tuple[int, Any] | None:
    """Refuse what is not in its schema, all of it at once."""
    unknown = [name for name in body if name in ("seed", "stream_options")]
    details = [{"type": "extra_forbidden", "loc": ["body", name], "input": body[name]} for name in unknown]
    return (422, {"object": "error", "message": {"detail": details}}) if unknown else None


def newest(body: dict[str, Any]) -> tuple[int, Any] | None:
    """Refuse as OpenAI's models that think do, one field at a time."""
    words = None
    if "max_tokens" in body:
        words = "Unsupported parameter: 'max_tokens' is not supported. Use 'max_completion_tokens' instead."
    elif "temperature" in body:
        words = "Unsupported value: 'temperature' does not support 0.8 with this model."
    elif "top_p" in body:
        words = "Unsupported parameter: 'top_p' is not supported with this model."
    return (400, {"error": {"message": words, "type": "invalid_request_error"}}) if words else None


def seedless(body: dict[str, Any]) -> tuple[int, Any] | None:
    """Refuse a seed, whatever it is called."""
    name = next((name for name in ("seed", "random_seed") if name in body), None)
    return (400, {"error": {"message": f"Unknown field: {name}"}}) if name else None


def test_a_limit_of_another_name_and_a_temperature_of_its_own(hosted: Callable[..., Hosted]) -> None:
    """What nobody asked for is left to the model; what was asked for is refused by name."""
    server = hosted(refuse=newest)
    model = lm.connect(server.url, probing=False)
    with pytest.raises(errors.ServerRefusedError, match="temperature"):
        model.chat(ASK, temperature=0.2, max_tokens=5)
    assert model.chat(ASK, max_tokens=5).text == "ab"
    assert server.asked[-1]["max_completion_tokens"] == 5
    assert not {"max_tokens", "temperature", "top_p"} & server.asked[-1].keys()
    asked = len(server.asked)
    with pytest.raises(lm.OptionError, match=r"temperature=0\.2"):
        model.chat(ASK, temperature=0.2)
    assert len(server.asked) == asked
    model.close()
    with lm.connect(server.url) as tried:
        assert tried.card is not None
        assert tried.card.holds("seed")
        assert tried.card.holds("samples")  # asked without a temperature


def test_a_seed_of_another_name_is_a_seed(hosted: Callable[..., Hosted]) -> None:
    """Both fields are learnt from one refusal, and not asked for again; counts come unasked."""
    server = hosted(refuse=mistral)
    model = lm.connect(server.url, probing=False)
    done = model.chat(ASK, seed=7)
    assert (done.text, done.usage.prompt_tokens, model.window) == ("ab", 9, 4096)
    assert (server.asked[-1]["random_seed"], len(server.asked)) == (7, 2)
    assert model.chat(ASK).text == "ab"
    assert len(server.asked) == 3
    model.close()


def test_a_seed_that_is_not_taken_is_refused_where_it_was_asked_for(hosted: Callable[..., Hosted]) -> None:
    """One that nobody asked for is left out."""
    model = lm.connect(hosted(refuse=seedless).url, probing=False)
    assert model.chat(ASK).text == "ab"
    with pytest.raises(lm.OptionError, match="seed"):
        model.chat(ASK, seed=7)
    model.close()


@pytest.mark.parametrize("words", [
    "max_tokens is too large: 300. This model supports at most 100.",
    "unknown model",
    "Unexpected role in messages",
    "stream is not supported",
    "max_tokens is not supported",
])  # fmt: skip
def test_a_refusal_that_only_speaks_of_a_field_is_one(words: str, hosted: Callable[..., Hosted]) -> None:
    """A limit that is too large is no field that is not taken, and what cannot be left out is not learnt."""
    server = hosted(refuse=lambda _body: (400, {"error": {"message": words}}))
    model = lm.connect(server.url, probing=False)
    for count in (1, 2):
        with pytest.raises(errors.ServerRefusedError, match=words[:20]):
            model.chat(ASK, max_tokens=300)
        assert len(server.asked) == count
    model.close()


@pytest.mark.parametrize(
    ("prefix", "listed"),
    [
        ("/v1beta/openai", LISTED),  # Gemini
        ("/api/v1", LISTED),  # OpenRouter
        ("/openai/v1", LISTED),  # Groq, Azure
        ("/v1", LISTED["data"]),  # Together lists them bare
    ],
)
def test_an_address_has_any_version_in_it(prefix: str, listed: Any, hosted: Callable[..., Hosted]) -> None:
    """What stands before the paths is kept, whether it ends in /v1 or not."""
    model = lm.connect(hosted(prefix, listed=listed).url, probing=False)
    assert (model.chat(ASK).text, model.window) == ("ab", 4096)
    model.close()


def test_an_error_with_200_is_an_error(hosted: Callable[..., Hosted]) -> None:
    """LM Studio answers so where it has no such path."""
    model = lm.connect(hosted(missing=(200, {"error": "Unexpected endpoint"})).url, probing=False)
    assert model.chat(ASK).text == "ab"
    with pytest.raises(errors.ServerRefusedError, match="200: Unexpected endpoint"):
        model.embed(["a"])
    model.close()


def test_an_older_address_of_azures_is_answered_with_its_newer_one() -> None:
    """Its query and its deployment have other places there."""
    url = "https://x.openai.azure.com/openai/deployments/gpt/chat/completions?api-version=2024-06-01"
    with pytest.raises(lm.OptionError, match=r"https://x\.openai\.azure\.com/openai/v1, and model=.?gpt"):
        lm.connect(url)
