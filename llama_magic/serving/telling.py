"""What an answer is, in the words of OpenAI's API: usage, why it ended, log-probabilities."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from llama_magic.serving.fields.tools import INPUT

if TYPE_CHECKING:
    from llama_magic.model.logprobs import TokenLogprob
    from llama_magic.model.model import Model
    from llama_magic.model.results import Chunk, Completion
    from llama_magic.request.events import PromptEvent
    from llama_magic.serving.log import LoggedRequest

_REASONS = {"stop": "stop", "length": "length", "timeout": "length"}  # of "interrupted" nobody is told


def reason_of(made: Completion[Any]) -> str:
    """Return why an answer ended."""
    if made.finish_reason == "stop" and any(call["name"] for call in made.tool_calls):
        return "tool_calls"
    return _REASONS[made.finish_reason]


def usage_of(*answers: Sequence[Completion[Any]]) -> dict[str, Any]:
    """Return the tokens of one or more answers, each to a prompt of its own, with one or more samples."""
    prompt = sum(made[0].usage.prompt_tokens for made in answers)
    written = sum(one.usage.completion_tokens for made in answers for one in made)
    cached = sum(made[0].usage.cached_tokens for made in answers)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": written,
        "total_tokens": prompt + written,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def usage_of_reading(tokens: int) -> dict[str, Any]:
    """Return the tokens of prompts after which nothing was written."""
    details = {"cached_tokens": 0}
    counts = {"prompt_tokens": tokens, "completion_tokens": 0, "total_tokens": tokens}
    return {**counts, "prompt_tokens_details": details}


def timings_of(row: LoggedRequest) -> dict[str, Any]:
    """Return how fast a request is read and written so far, in llama-server's words."""
    read, wrote = row.prompt_tokens - row.cached_tokens, row.written
    reading = max(0.0, (row.first or row.last) - row.began) if row.began else 0.0
    writing = max(0.0, row.last - row.first)
    return {
        "cache_n": row.cached_tokens,
        **_pace("prompt", read, reading),
        **_pace("predicted", wrote, writing),
    }


def _pace(name: str, tokens: int, seconds: float) -> dict[str, Any]:
    return {
        f"{name}_n": tokens,
        f"{name}_ms": seconds * 1000,
        f"{name}_per_token_ms": seconds * 1000 / tokens if tokens else 0.0,
        f"{name}_per_second": tokens / seconds if seconds else 0.0,
    }


def progress_of(read: PromptEvent, row: LoggedRequest) -> dict[str, Any]:
    """Return how much of a prompt is read, in llama-server's words."""
    spent = (time.monotonic() - row.began) * 1000
    return {"total": read.total, "cache": read.cached, "processed": read.done, "time_ms": spent}


def called(call: Mapping[str, Any], custom: frozenset[str]) -> tuple[str, str, str]:
    """Return the kind of a call, its name, and its arguments, or of a `custom` tool the text."""
    name, arguments = call["function"]["name"], call["function"]["arguments"]
    if name not in custom:
        return "function", name, arguments
    try:
        text = json.loads(arguments)[INPUT]
    except (ValueError, TypeError, KeyError):
        text = None  # of a family whose calls are not held to a form
    return "custom", name, text if isinstance(text, str) else arguments


class Told:
    """The log-probabilities of the tokens of one sample's text, given out with the text that they wrote."""

    def __init__(self, model: Model, wanted: bool) -> None:
        self.wanted = wanted
        self._tokenizer = model.backend.tokenizer
        self._held: list[TokenLogprob] = []  # of tokens whose text is held back, or is none of the answer's
        self._due: list[TokenLogprob] = []

    def add(self, chunk: Chunk) -> None:
        """Take a chunk in."""
        if not self.wanted:
            return
        self._held += chunk.logprobs
        if chunk.thinking or chunk.tool_calls:
            self._held.clear()
        elif chunk.delta:
            self._due += self._that_wrote(chunk.delta)
            self._held.clear()

    def _that_wrote(self, text: str) -> list[TokenLogprob]:
        """Return the last tokens that make up a text; others before them were marks."""
        size, wanted = 0, len(text.encode("utf-8", "replace"))
        for place in range(len(self._held) - 1, -1, -1):
            size += len(self._tokenizer.piece(self._held[place].token_id))
            if size >= wanted:
                return self._held[place:]
        return list(self._held)

    def take_tokens(self) -> list[TokenLogprob]:
        """Return what is due, as it is."""
        due, self._due = self._due, []
        return due

    def take(self) -> list[dict[str, Any]]:
        """Return what is due, in the form of a chat."""
        return self.shown(self.take_tokens())

    def shown(self, tokens: Sequence[TokenLogprob]) -> list[dict[str, Any]]:
        """Return log-probabilities in the form of a chat."""
        return [
            {
                **self._entry(one.token_id, one.text, one.logprob),
                "top_logprobs": [self._entry(token, text, value) for token, text, value in one.top],
            }
            for one in tokens
        ]

    def _entry(self, token: int, text: str, logprob: float) -> dict[str, Any]:
        return {"token": text, "bytes": list(self._tokenizer.piece(token)), "logprob": max(logprob, -9999.0)}
