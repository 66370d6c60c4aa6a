"""A call on a source of tokens: what is asked, as plain data."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llama_magic.request.matcher import CarriedConstraint
    from llama_magic.request.sampling import Sampling
    from llama_magic.request.tokenizer import Tokenizer

_GOLDEN = 0x9E3779B1  # 2**32 over the golden ratio: neighbouring samples get far seeds


@dataclass(eq=False)
class Request:
    """A prompt and how to go on from it. A `Backend` answers it with events.

    `prompt` holds token ids of the backend's tokenizer; `text` is the same prompt in words, and
    `messages` the conversation that it was rendered from, where there was one: a server that has a
    tokenizer of its own takes these. `exact` asks for the same tokens every time the same is asked;
    `certain` (temperature 0) asks for them where that costs no other request its company.
    `stops` are texts that end the answer, `stop_texts` tokens that do, with how they are written;
    `visible_ids` are control tokens whose text is kept. `logprobs` is how many alternatives are told
    of each token (None: no probabilities). `measure_outside` asks how much of the model's wish lay
    outside of the constraint. `speculate`: tokens may be guessed ahead. `begun` are the last tokens of
    `prompt`, where they are the answer's already: stop texts may begin in them, and the constraint has taken
    them in. `tools` are what may be called, in the form of OpenAI's API, `tool_choice` is none, auto,
    required or a name; a constraint of the kind
    "tools" sees to it where tokens are drawn here, and a server is sent these; `min_tokens` likewise. `keep`:
    later requests may go on from what this one leaves; one of very many is not kept for that. `digest` is
    equal for equal requests to one model. `handle` belongs to the backend while the request is on its way.
    """

    prompt: Sequence[int]
    max_tokens: int
    sampling: Sampling
    seed: int
    exact: bool = False
    certain: bool = False
    n: int = 1
    stops: tuple[str, ...] = ()
    stop_texts: Mapping[int, str] = field(default_factory=dict)
    visible_ids: frozenset[int] = frozenset()
    logprobs: int | None = None
    reuse: bool = True
    keep: bool = True
    ignore_eos: bool = False
    measure_outside: bool = False
    speculate: bool = True
    constraint: CarriedConstraint | None = None
    begun: tuple[int, ...] = ()
    text: str = ""
    messages: tuple[Mapping[str, Any], ...] = ()
    tools: tuple[Mapping[str, Any], ...] = ()
    tool_choice: str = "auto"
    parallel_tool_calls: bool | None = None
    min_tokens: int = 0
    digest: str = ""
    handle: Any = field(default=None, repr=False)

    def sample_seed(self, index: int) -> int:
        """Return the seed of sample `index`; sample 0 has the request's own."""
        return sample_seed(self.seed, index)


def first_seed(seed: int, index: int) -> int:
    """Return the seed of a call whose `index`-th sample has `seed`: the inverse of `sample_seed`."""
    return (seed - index * _GOLDEN) % 0xFFFFFFFF


def row_seed(seed: int, row: int) -> int:
    """Return the seed of the `row`-th (from 0) of several prompts of a call: the call's own for the first.

    For the others the first four bytes (big-endian) of the SHA-256 of the text "SEED/ROW", modulo
    2**32 - 1: draws of rows are independent, and each row can be asked again alone.
    """
    if not row:
        return seed
    digest = hashlib.sha256(f"{seed}/{row}".encode()).digest()
    return int.from_bytes(digest[:4], "big") % 0xFFFFFFFF


def sample_seed(seed: int, index: int) -> int:
    """Return the seed of the `index`-th sample of a call: the call's own for the first."""
    return (seed + index * _GOLDEN) % 0xFFFFFFFF


def piece_of(tokenizer: Tokenizer, request: Request, token: int) -> bytes:
    """Return the bytes that a token adds to an answer: none for control tokens, unless asked for."""
    hidden = token in tokenizer.control_ids and token not in request.visible_ids
    return b"" if hidden else tokenizer.piece(token)
