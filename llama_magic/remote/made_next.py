"""How likely texts are for llama-server, which tells so of what it writes alone: it is made to write them.

A bias makes a token the next one. What is told of it is how likely it was by the model itself, without bias
and samplers. What a server read of a prompt it keeps, so each question costs what one token does.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from llama_magic.errors import ServerAnswerError
from llama_magic.remote.errand import Ask
from llama_magic.remote.prompt_logprobs import ends_of
from llama_magic.remote.tokens import ServerTokenizer
from llama_magic.remote.values import likelihood

_BIAS = 1e4  # above all logits
_MANY = 100_000  # log-probabilities of one place, which are 10 MB
_LEAST = math.log(2.0**-149)  # it is told from a probability in 32 bits
_ASKED = {
    "n_predict": 1,
    "samplers": ["top_k"],
    "top_k": 1,
    "ignore_eos": False,
    "cache_prompt": True,
    "stream": False,
}


async def score(
    ask: Ask,
    body: Mapping[str, Any],
    tokenizer: ServerTokenizer,
    prompt: Sequence[int],
    texts: Sequence[Sequence[int]],
) -> list[list[float]]:
    """Return the log-probability of each token of each text after a prompt, by a question for each."""
    known: dict[tuple[int, ...], float] = {}  # by a text up to a token: that of the token
    for text in ends_of(texts):
        for end in range(1, len(text) + 1):
            if text[:end] not in known:
                before = [*prompt, *text[: end - 1]]
                known[text[:end]] = await _odds(
                    ask, {**body, **_ASKED, "prompt": before}, tokenizer, text[end - 1]
                )
    return [[known[tuple(text[:end])] for end in range(1, len(text) + 1)] for text in texts]


async def _odds(ask: Ask, body: Mapping[str, Any], tokenizer: ServerTokenizer, token: int) -> float:
    """Return the log-probability of a token at one place.

    Of a part of a character nothing is told: then another token is made the next one, and all are asked for.
    """
    for made, count in ((token, 1), (tokenizer.tokenize("a")[0], _MANY)):
        found = await ask("/completion", {**body, "logit_bias": [[made, _BIAS]], "n_probs": count})
        for told in found.get("completion_probabilities") or ():
            for entry in (told, *(told.get("top_logprobs") or ())):
                if int(entry["id"]) == token:
                    return max(likelihood(entry["logprob"]), _LEAST)
    raise ServerAnswerError(
        f"The server tells nothing of the token {token} ({tokenizer.text(token)!r}).",
        remedy="Load the model here to score this text.",
    )
