"""Ollama by its own API: its /v1 drops the window and thinking in silence, and tells no tokens anywhere."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llama_magic.remote.dialect import SampleReader, count_of, parameters
from llama_magic.remote.openai import OpenAIServer, vectors
from llama_magic.remote.tokens import EstimatedTokens
from llama_magic.remote.wire import Wire
from llama_magic.request.events import Event
from llama_magic.request.request import Request

_WINDOW = 4096  # its default, whatever the model was trained for


class Ollama(OpenAIServer):
    """An Ollama server. `window` is sent with each request: it has no other way to be told."""

    name = "Ollama"
    fields: Mapping[str, str] = {
        "temperature": "temperature",
        "top_k": "top_k",
        "top_p": "top_p",
        "min_p": "min_p",
        "typical_p": "typical_p",
        "repeat_penalty": "repeat_penalty",
        "repeat_last_n": "repeat_last_n",
        "presence_penalty": "presence_penalty",
        "frequency_penalty": "frequency_penalty",
    }

    def __init__(
        self, wire: Wire, models: Sequence[Mapping[str, Any]], model: str, version: str, window: int
    ) -> None:
        super().__init__(wire, models, model)
        self.facts.build = version
        self.facts.slots = 4
        shown, trained = wire.ask("/api/show", {"model": model}, take=_shown)
        self.facts.n_ctx_train = trained
        self.facts.window = window or min(_WINDOW, self.facts.n_ctx_train or _WINDOW)
        self.thinks = "thinking" in (shown.get("capabilities") or ())

    def count(self, messages: Sequence[Mapping[str, Any]]) -> int:
        body: dict[str, Any] = {"model": self.facts.model, "messages": list(messages), "stream": False}
        body["options"] = {"num_predict": 1, "num_ctx": self.facts.window}
        return int(self.wire.ask("/api/chat", body, take=lambda found: int(found["prompt_eval_count"])))

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        body = {"model": self.facts.model, "input": list(texts)}
        made: list[list[float]] = self.wire.ask(
            "/api/embed", body, take=lambda found: vectors(found["embeddings"], len(texts))
        )
        return made

    def question(self, request: Request, seed: int) -> tuple[str, dict[str, Any]]:
        options = {
            **parameters(self, request.sampling),
            "num_ctx": self.facts.window,
            "num_predict": request.max_tokens,
            "seed": seed % 2**31,
        }
        if request.stops:
            options["stop"] = list(request.stops)
        body: dict[str, Any] = {"model": self.facts.model, "stream": True, "options": options}
        if request.logprobs is not None:
            body |= {"logprobs": True, "top_logprobs": request.logprobs}
        if request.constraint is not None:
            body["format"] = request.constraint.schema
        if not request.messages:
            return "/api/generate", {**body, "prompt": request.text, "raw": True}
        if self.thinks:
            body["think"] = request.constraint is None
        return "/api/chat", {**body, "messages": [dict(message) for message in request.messages]}

    def reader(self, request: Request, sample: int) -> SampleReader:
        assert isinstance(self.tokenizer, EstimatedTokens)  # it tells none
        return _Reader(request, sample, self.tokenizer)


def _shown(found: Any) -> tuple[Mapping[str, Any], int]:
    """Return what Ollama tells of a model, and the window it was trained for, 0 where that is not told."""
    info = found.get("model_info") or {}
    trained = [int(value) for name, value in info.items() if name.endswith(".context_length")]
    return found, trained[0] if trained else 0


class _Reader(SampleReader):
    def __init__(self, request: Request, sample: int, tokenizer: EstimatedTokens) -> None:
        super().__init__(request, sample)
        self._id = tokenizer.id_of

    def feed(self, found: Any) -> Iterator[Event]:
        message = found.get("message") or {}
        thought = str(message.get("thinking") or found.get("thinking") or "")
        text = str(message.get("content") or found.get("response") or "")
        if text := self.marked(thought, text):
            yield self._event(text, found.get("logprobs") or ())
        if found.get("done"):
            self.prompt_tokens = count_of(found.get("prompt_eval_count"))
            self.completion_tokens = count_of(found.get("eval_count"))
            yield self.end("length" if found.get("done_reason") == "length" else "stop")

    def _event(self, text: str, told: Sequence[Mapping[str, Any]]) -> Event:
        token = self._id(text)
        if not told:
            return self.token(token, text)
        first = told[0]
        top = [(self._id(str(t["token"])), float(t["logprob"])) for t in first.get("top_logprobs") or ()]
        return self.token(token, text, float(first["logprob"]), top)
