"""A tool call that must be made: what goes on from tokens cannot be held to it, a server's own chats can."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llama_magic.errors import ServerAnswerError
from llama_magic.formatters import Formatter, TextTools
from llama_magic.remote.openai import OpenAIReader, plain
from llama_magic.remote.tokens import ServerTokenizer
from llama_magic.request.events import Event
from llama_magic.request.request import Request


def is_forced(request: Request) -> bool:
    """Whether a tool must be called."""
    return bool(request.tools) and request.tool_choice not in ("none", "auto")


def question(model: str, request: Request, drawing: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Return path and body of a chat that must call; `drawing` are the server's fields of sampling."""
    body: dict[str, Any] = {
        **drawing,
        "model": model,
        "messages": [plain(message) for message in request.messages],
        "tools": list(request.tools),
        "tool_choice": _choice(request.tool_choice),
        "max_tokens": request.max_tokens,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    if request.parallel_tool_calls is not None:
        body["parallel_tool_calls"] = request.parallel_tool_calls
    return "/v1/chat/completions", body


def _choice(choice: str) -> Any:
    return choice if choice == "required" else {"type": "function", "function": {"name": choice}}


class CallReader(OpenAIReader):
    """Reads a chat whose calls come as data: they are written as the family writes them, to be read here."""

    def __init__(
        self, request: Request, sample: int, tokenizer: ServerTokenizer, formatter: Formatter
    ) -> None:
        super().__init__(request, sample, tokenizer)
        form = formatter.call_form if formatter.takes_tools else None
        self._form = form or TextTools(formatter).call_form
        self._calls: dict[int, list[str]] = {}

    def _heed(self, calls: Sequence[Mapping[str, Any]]) -> None:
        for call in calls:
            part = call.get("function") or {}
            kept = self._calls.setdefault(int(call.get("index") or 0), ["", ""])
            kept[0] += str(part.get("name") or "")
            kept[1] += str(part.get("arguments") or "")

    def _choice(self, choice: Mapping[str, Any]) -> Iterator[Event]:
        yield from super()._choice(choice)
        if self._reason and self._calls:
            yield self._written()

    def _written(self) -> Event:
        assert self._form is not None  # a formatter without one has that of tools as text
        try:
            made = [(name, json.loads(arguments or "{}")) for name, arguments in self._calls.values()]
        except ValueError:
            if self._reason != "length":
                raise ServerAnswerError("The server wrote a tool call whose arguments are no JSON.") from None
            made = []
        self._calls = {}
        text = self._form.write(made) if made else ""
        token = self._tokenizer.known(text) if isinstance(self._tokenizer, ServerTokenizer) else 0
        return self.token(token, text)
