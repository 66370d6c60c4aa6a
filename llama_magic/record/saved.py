"""An answer as a record keeps it: its receipt, what stands beside it, and the way back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from llama_magic.model.logprobs import TokenLogprob, TopLogprob
from llama_magic.model.results import Budget, BudgetPart, Completion, Timings, Usage
from llama_magic.request.fixed import Fixed
from llama_magic.request.sampling import Sampling

# What a receipt says of the answer itself; all else there is what it was made with.
_OF_THE_ANSWER = {
    "version", "mode", "model", "request", "seed", "seeded", "sample", "sampling", "finish_reason", "stop",
    "usage", "begun", "budget", "prompt", "text",
    "thinking", "thinking_choice", "token_ids", "messages", "notes",
}  # fmt: skip
_UNTIMED = Timings(0.0, 0.0, 0.0, 0.0, 0.0)


def as_text(data: Any) -> str:
    """Return JSON as any reader takes it: numbers that it has not (NaN, infinities) as texts."""
    return json.dumps(_finite(data), default=str)


def line(completion: Completion[Any], **named: Any) -> bytes:
    """Return an answer as one line of JSON: what names it, its receipt, and what stands beside that."""
    names = {"id": completion.id, "time": completion.time, "tag": completion.tag, **named}
    data = {**names, "receipt": completion.receipt, **beside(completion)}
    text = json.dumps(_finite(data), default=str, ensure_ascii=False) + "\n"
    return text.encode("utf-8", "backslashreplace")


def beside(completion: Completion) -> dict[str, Any]:
    """Return as JSON data what a completion holds and its receipt does not."""
    logprobs = completion.logprobs
    return {
        "timings": asdict(completion.timings),
        "cached_tokens": completion.usage.cached_tokens,
        "prompt_token_ids": list(completion.prompt_token_ids),
        "raw_text": completion.raw_text,
        "tool_calls": list(completion.tool_calls),
        "steps": list(completion.steps),
        "logprobs": None if logprobs is None else [[p.token_id, p.text, p.logprob, p.top] for p in logprobs],
        "fields": {pointer: asdict(report) for pointer, report in completion.fields.items()},
    }


_COUNTED = ("forced_tokens", "drafted_tokens", "accepted_tokens")


def completion_of(
    receipt: Mapping[str, Any], more: Mapping[str, Any] | None = None, **others: Any
) -> Completion[Any]:
    """Return the answer of a receipt; `more` is what `beside` gave of it, `others` are fields as they are.

    A structured answer's `parsed` is plain JSON data: its class stays in the program that asked.
    """
    from llama_magic.structured import FieldReport  # for weight: NumPy

    more = more or {}
    usage, written = receipt["usage"], receipt["usage"]["completion_tokens"]
    cached = more.get("cached_tokens", usage.get("cached_tokens", 0))
    window, limit = receipt["budget"]["window"], receipt["budget"]["max_tokens"]
    parts = tuple(BudgetPart(**part) for part in receipt["budget"]["parts"])
    return Completion(
        text=receipt["text"],
        prompt=receipt["prompt"],
        prompt_token_ids=Fixed(more.get("prompt_token_ids", ())),
        token_ids=Fixed(receipt["token_ids"]),
        finish_reason=receipt["finish_reason"],
        usage=Usage(usage["prompt_tokens"], cached, written, *(usage.get(name, 0) for name in _COUNTED)),
        timings=Timings(**more["timings"]) if "timings" in more else _UNTIMED,
        seed=receipt["seed"],
        sampling=Sampling(**receipt["sampling"]),
        model=receipt["model"],
        budget=Budget(window, usage["prompt_tokens"], limit, parts, cached, written),
        raw_text=more.get("raw_text", receipt["text"]),
        thinking=receipt["thinking"],
        stop=receipt["stop"],
        logprobs=_logprobs(more.get("logprobs")),
        parsed=_parsed(receipt),
        messages=Fixed(receipt["messages"]),
        tool_calls=tuple(more.get("tool_calls", ())),
        steps=tuple(more.get("steps", ())),
        notes=tuple(receipt["notes"]),
        seeded=receipt["seeded"],
        mode=receipt["mode"],
        fields={pointer: FieldReport(**report) for pointer, report in more.get("fields", {}).items()},
        thinking_choice=receipt.get("thinking_choice", ""),
        made_with={key: value for key, value in receipt.items() if key not in _OF_THE_ANSWER},
        begun=receipt.get("begun", 0),
        request=receipt.get("request", ""),
        sample=receipt.get("sample", 0),
        **others,
    )


def _logprobs(saved: Sequence[Any] | None) -> tuple[TokenLogprob, ...] | None:
    if saved is None:
        return None
    return tuple(
        TokenLogprob(
            token, text, float(logprob), tuple(TopLogprob(i, piece, float(p)) for i, piece, p in top)
        )
        for token, text, logprob, top in saved
    )


def _parsed(receipt: Mapping[str, Any]) -> Any:
    kind = receipt.get("asked", {}).get("constraint", {}).get("kind")
    if kind != "json" or receipt["finish_reason"] not in ("stop", "length"):
        return None
    try:
        return json.loads(receipt["text"])
    except ValueError:
        return None  # an attempt that was no instance


def _finite(data: Any) -> Any:
    if isinstance(data, float) and not math.isfinite(data):
        return str(data)
    if isinstance(data, Mapping):
        return {key: _finite(value) for key, value in data.items()}
    if isinstance(data, (list, tuple)):
        return [_finite(value) for value in data]
    return data
