"""OpenAI's wire format: completions and chat completions, streamed; each server speaks it in its own way."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llama_magic import formatters
from llama_magic.errors import ServerAnswerError, ServerError, ServerFailedError
from llama_magic.formatters import Formatter
from llama_magic.remote.chat import ServerChat
from llama_magic.remote.dialect import Facts, SampleReader, Untold, count_of, parameters, window_of
from llama_magic.remote.faults import message_of
from llama_magic.remote.taken import Taken
from llama_magic.remote.tokens import EstimatedTokens, ServerTokenizer
from llama_magic.remote.wire import Wire
from llama_magic.request.events import Event
from llama_magic.request.request import Request

_PLAIN = {
    "temperature": "temperature",
    "top_p": "top_p",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
}
_FULL = ("length", "max_tokens", "model_length")  # reasons of ends that mean: no more was allowed
# Ends that are none. What came before is kept with the error.
_BROKEN_OFF = ("error", "abort", "cancelled", "content_filter", "insufficient_system_resource")
_WINDOW = re.compile(
    r"(?:context|model)[^.]{0,60}?(?:length|window|size)[^.\d]{0,20}(\d{2,8})", re.IGNORECASE
)


def embed(wire: Wire, model: str, texts: Sequence[str]) -> list[list[float]]:
    """Return a vector a text, in the texts' order."""

    def take(found: Any) -> list[list[float]]:
        rows = sorted(found["data"], key=lambda row: int(row["index"]))
        return vectors([row["embedding"] for row in rows], len(texts))

    made: list[list[float]] = wire.ask("/v1/embeddings", {"input": list(texts), "model": model}, take=take)
    return made


def vectors(rows: Sequence[Any], count: int) -> list[list[float]]:
    """Return vectors that a server tells. Raises `ValueError` where they are not so many, of one length."""
    made = [[float(value) for value in row] for row in rows]
    if len(made) != count or len({len(row) for row in made}) != 1:
        raise ValueError(f"{len(made)} vectors for {count} texts, or of several lengths")
    return made


def ids_of(found: Any) -> list[int]:
    """Return the tokens that a server makes of a text."""
    return [int(token) for token in found["tokens"]]


class OpenAIServer(Untold):
    """Any server of OpenAI's format: it renders conversations itself, and tells no tokens."""

    name = "OpenAI-compatible server"
    fields: Mapping[str, str] = _PLAIN
    orders = False
    takes_tokens = False
    refused: frozenset[str] = frozenset()
    constraints: frozenset[str] = frozenset({"json"})
    tools: frozenset[str] = frozenset({"auto"})
    ignores_eos = False
    keeps_least = False
    logprobs: int | None = 20

    def __init__(self, wire: Wire, models: Sequence[Mapping[str, Any]], model: str) -> None:
        self.wire = wire
        self.taken = Taken()
        chosen = next((m for m in models if m.get("id") == model), {})
        self.facts = Facts(model, build=str(chosen.get("owned_by") or ""), window=window_of(chosen))
        self.tokenizer: ServerTokenizer | EstimatedTokens = EstimatedTokens(f"{wire.address.base}:{model}")
        self.formatter: Formatter = ServerChat(formatters.get("chatml"))

    def count(self, messages: Sequence[Mapping[str, Any]]) -> int:
        """Return what the server counts when it reads the conversation, for an answer of one token."""
        body = {"model": self.facts.model, "messages": list(messages), self.taken.limit: 1}
        taken = self.wire.ask(
            "/v1/chat/completions", body, take=lambda found: int(found["usage"]["prompt_tokens"])
        )
        return int(taken)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return embed(self.wire, self.facts.model, texts)

    def window_from(self, error: ServerError) -> int:
        """Return the window that a refusal of a long prompt names, 0 where it names none."""
        found = _WINDOW.search(error.message)
        return int(found[1]) if found else 0

    # --- answers ----------------------------------------------------------------------------

    def question(self, request: Request, seed: int) -> tuple[str, dict[str, Any]]:
        body = {
            "model": self.facts.model,
            **self.taken.fields(request.max_tokens, seed),
            **parameters(self, request.sampling),
        }
        if self.takes_tokens or not request.messages:
            path = "/v1/completions"
            body["prompt"] = list(request.prompt) if self.takes_tokens else request.text
            if request.logprobs is not None:
                body["logprobs"] = max(1, request.logprobs)
        else:
            path = "/v1/chat/completions"
            body["messages"] = [plain(message) for message in request.messages]
            if request.logprobs is not None:
                body |= {"logprobs": True, "top_logprobs": request.logprobs}
        if stops := self.stops(request):
            body["stop"] = stops
        if request.constraint is not None:
            body |= self.constraint(request.constraint, path)
        return path, body

    def learn(self, error: ServerError, sent: Mapping[str, Any]) -> bool:
        """Return whether a question that was refused is to be asked otherwise from now on."""
        words = error.message.removeprefix(self.wire.address.base)
        learnt = self.taken.learn(words, sent, self.fields.values())
        self.refused |= {ours for ours, theirs in self.fields.items() if theirs in learnt}
        return bool(learnt)

    def stops(self, request: Request) -> list[str]:
        """Return the stop strings to send; OpenAI's own server takes four."""
        return list(request.stops)

    def constraint(self, constraint: Any, path: str) -> dict[str, Any]:
        """Return the fields that say what an answer must be."""
        schema = {"name": "answer", "schema": constraint.schema, "strict": True}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}

    def reader(self, request: Request, sample: int) -> SampleReader:
        return OpenAIReader(request, sample, self.tokenizer)


class OpenAIReader(SampleReader):
    """Reads chunks of completions and of chat completions, with the log-probabilities of either."""

    def __init__(self, request: Request, sample: int, tokenizer: ServerTokenizer | EstimatedTokens) -> None:
        super().__init__(request, sample)
        self._tokenizer = tokenizer
        self._reason = ""
        self._why: Any = None

    def feed(self, found: Any) -> Iterator[Event]:
        if found.get("done"):
            yield from self.last()
            return
        if usage := found.get("usage"):
            self._count(usage)
        for choice in found.get("choices") or ():
            if choice is not None and not self.ended:
                yield from self._choice(choice)
        if usage:
            yield from self.last()

    def finish(self, where: str) -> None:
        if self._reason in _BROKEN_OFF:
            why = f": {message_of(self._why)}" if self._why else "."
            raise ServerFailedError(f"{where} broke off the answer, as {self._reason!r}{why}")
        if not self._reason:
            super().finish(where)

    @property
    def complete(self) -> bool:
        return bool(self._reason) and self._reason not in _BROKEN_OFF

    def last(self) -> Iterator[Event]:
        """Yield what is due when the stream is over: the end, where nothing came after it."""
        if self.complete and not self.ended:
            yield self._ended()

    def _choice(self, choice: Mapping[str, Any]) -> Iterator[Event]:
        if choice.get("index") not in (0, None):
            return  # one answer was asked for
        delta = said(choice)
        self._heed(delta.get("tool_calls") or ())
        thought, spoken = _parts(delta.get("content"))
        thought = str(delta.get("reasoning_content") or delta.get("reasoning") or thought)
        text = str(choice.get("text") or spoken or delta.get("refusal") or "")
        if self.request.constraint is not None:
            thought = ""  # of a constrained answer its text alone is read
        text = self.marked(thought, text)
        if text or choice.get("token_ids"):
            yield from self._tokens(choice, text)
        if choice.get("finish_reason"):
            self._reason, self._why = str(choice["finish_reason"]), choice.get("error")

    def _heed(self, calls: Sequence[Mapping[str, Any]]) -> None:
        """Raise for a call: none of these servers is sent tools, but where one must be called (`forced`)."""
        for call in calls:
            name = (call.get("function") or {}).get("name")
            raise ServerAnswerError(
                f"The server answered with a call of the tool {str(name)[:80]!r}, though it was sent none."
            )

    def _tokens(self, choice: Mapping[str, Any], text: str) -> Iterator[Event]:
        told = list(_logprobs(choice.get("logprobs")))
        ids = [int(token) for token in choice.get("token_ids") or ()]
        if len(told) <= 1 and len(ids) <= 1:
            entry = told[0] if told else None
            yield self._event(ids[0] if ids else None, text, entry)
            return
        pieces = [entry[0] for entry in told]
        if "".join(pieces) != text:
            pieces = [""] * (max(len(told), len(ids)) - 1) + [text]
        for i, piece in enumerate(pieces):
            yield self._event(ids[i] if i < len(ids) else None, piece, told[i] if i < len(told) else None)

    def _event(self, token: int | None, text: str, told: _Told | None) -> Event:
        if token is None:
            token = self._id(told[3] if told else None, told[0] if told else text)
        elif isinstance(self._tokenizer, ServerTokenizer) and told is not None:
            self._tokenizer.learn(token, told[0].encode("utf-8", "replace"))
        if told is None:
            return self.token(token, text)
        top = [(self._id(number, piece), logprob) for piece, logprob, number in told[2]]
        return self.token(token, text, told[1], top)

    def _id(self, number: int | None, text: str) -> int:
        """Return the id of a token: as the server tells it, else a number for its text."""
        if isinstance(self._tokenizer, EstimatedTokens):
            return self._tokenizer.id_of(text)
        if number is not None:
            self._tokenizer.learn(number, text.encode("utf-8", "replace"))
            return number
        special = self._tokenizer.special_id(text)
        if special is not None:
            return special
        return self._tokenizer.known(text)

    def _count(self, usage: Mapping[str, Any]) -> None:
        if not isinstance(usage, Mapping):
            return
        self.prompt_tokens = count_of(usage.get("prompt_tokens"))
        self.completion_tokens = count_of(usage.get("completion_tokens"))
        details = usage.get("prompt_tokens_details")
        self.cached_tokens = count_of(details.get("cached_tokens")) if isinstance(details, Mapping) else 0

    def _ended(self) -> Event:
        return self.end("length" if self._reason in _FULL else "stop")


def said(choice: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return what a choice says: the next piece, or all of it from a server that does not stream."""
    return choice.get("delta") or choice.get("message") or {}


def _parts(content: Any) -> tuple[str, str]:
    """Return the thought and the text of a content, which may come in parts."""
    if not isinstance(content, Sequence) or isinstance(content, str):
        return "", "" if content is None else str(content)
    thoughts, texts = [], []
    for part in content:
        if part.get("type") == "thinking":
            thoughts += [str(inner.get("text") or "") for inner in part.get("thinking") or ()]
        else:
            texts.append(str(part.get("text") or part.get("refusal") or ""))
    return "".join(thoughts), "".join(texts)


# A token as it is told: its text, its log-probability, the alternatives likewise, its id where there is one.
_Told = tuple[str, float, list[tuple[str, float, int | None]], int | None]


def _logprobs(found: Any) -> Iterator[_Told]:
    """Yield a token each, from the old shape of completions or the new one of chat completions."""
    if not isinstance(found, Mapping):
        return
    if found.get("content") is not None:
        for entry in found["content"]:
            top = [
                (str(t["token"]), float(t["logprob"]), t.get("id")) for t in entry.get("top_logprobs") or ()
            ]
            yield str(entry["token"]), float(entry["logprob"]), top, entry.get("id")
        return
    tops = found.get("top_logprobs") or ()
    for i, (text, logprob) in enumerate(
        zip(found.get("tokens") or (), found.get("token_logprobs") or (), strict=False)
    ):
        of_token = tops[i] if i < len(tops) and tops[i] else {}
        top = [(str(t), float(value), None) for t, value in of_token.items()]
        yield str(text), float("nan") if logprob is None else float(logprob), top, None


def plain(message: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message without what it does not say."""
    return {name: value for name, value in message.items() if value is not None}
