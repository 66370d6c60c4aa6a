"""`prompt_logprobs` of `/v1/completions`, as vLLM tells them: how likely each token of a prompt is."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from llama_magic.remote.errand import Ask
from llama_magic.remote.values import likelihood
from llama_magic.request.backend import Expected

_PATH = "/v1/completions"
_EXPECTED = 5


async def read(ask: Ask, body: Mapping[str, Any], tokens: Sequence[int]) -> list[Expected] | None:
    """Return what is known of each token but the first; None where nothing is told."""
    found = await ask(_PATH, {**body, "prompt": list(tokens), "prompt_logprobs": _EXPECTED})
    told = found["choices"][0].get("prompt_logprobs")
    if told is None:
        return None
    return [_expected(token, one) for token, one in zip(tokens[1:], told[1:], strict=True)]


async def score(
    ask: Ask,
    body: Mapping[str, Any],
    prompt: Sequence[int],
    texts: Sequence[Sequence[int]],
    asked: Sequence[tuple[int, ...]],
) -> list[list[float]]:
    """Return the log-probability of each token of each text after a prompt, by one question.

    Some texts are `asked`; of one that another begins with, that one tells.
    """
    prompts = [[*prompt, *text] for text in asked]
    found = await ask(_PATH, {**body, "prompt": prompts, "prompt_logprobs": 0})
    told: dict[tuple[int, ...], list[float]] = {}
    for choice in found["choices"]:
        text = asked[int(choice["index"])]
        pairs = zip(text, choice["prompt_logprobs"][-len(text) :], strict=True)
        told[text] = [likelihood(one[str(token)]["logprob"]) for token, one in pairs]
    return [_of(tuple(text), told) for text in texts]


def ends_of(texts: Sequence[Sequence[int]]) -> list[tuple[int, ...]]:
    """Return the texts that no other one begins with, each once."""
    distinct = sorted(set(map(tuple, texts)))  # what begins with a text comes next to it
    following = [*distinct[1:], ()]
    return [one for one, other in zip(distinct, following, strict=True) if other[: len(one)] != one]


def _of(text: tuple[int, ...], told: Mapping[tuple[int, ...], list[float]]) -> list[float]:
    """Return those of a text, or of what begins with it."""
    one = min((one for one in told if one[: len(text)] == text), key=len)
    return told[one][: len(text)]


def _expected(token: int, found: Mapping[str, Any]) -> Expected:
    """Return what is told of one token: its own entry, and those that were likelier."""
    own = found[str(token)]
    entries = sorted(found.values(), key=lambda entry: int(entry["rank"]))[:_EXPECTED]
    likely = [(str(entry["decoded_token"]), math.exp(likelihood(entry["logprob"]))) for entry in entries]
    rank = int(own["rank"])
    if rank < 1:
        raise ValueError(f"{rank} is no rank")
    return likelihood(own["logprob"]), rank, likely
