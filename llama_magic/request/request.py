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
    """A prompt and how to go on from it. A `Backend` answers it with events."""

    prompt: Sequence[int]  # ids of the backend's tokenizer
    max_tokens: int
    sampling: Sampling
    seed: int
    exact: bool = False  # the same tokens every time the same is asked
    certain: bool = False  # temperature 0: the same, where that costs no other request its company
    n: int = 1  # samples

    # What ends an answer, and what of it is text.
    stops: tuple[str, ...] = ()  # texts that end it
    stop_texts: Mapping[int, str] = field(default_factory=dict)  # tokens that do, with how they are written
    min_tokens: int = 0  # a constraint sees to it where tokens are drawn here; a server is sent it
    ignore_eos: bool = False
    visible_ids: frozenset[int] = frozenset()  # control tokens whose text is kept

    # What it is held to, and what is measured of it.
    constraint: CarriedConstraint | None = None
    logprobs: int | None = None  # alternatives told of each token; None: no probabilities
    measure_outside: bool = False  # how much of the model's wish lay outside of the constraint
    # The last tokens of `prompt`, where they are the answer's already: stop texts may begin in them, and the
    # constraint has taken them in.
    begun: tuple[int, ...] = ()

    # How it is worked on.
    reuse: bool = True  # of what the KV cache holds
    keep: bool = True  # for later requests to go on from; one of very many is not kept for that
    speculate: bool = True  # tokens may be guessed ahead

    # The same for a server, which has a tokenizer and perhaps a template of its own.
    text: str = ""  # the prompt in words
    messages: tuple[Mapping[str, Any], ...] = ()  # the conversation that it was rendered from
    tools: tuple[Mapping[str, Any], ...] = ()  # that may be called, in the form of OpenAI's API
    tool_choice: str = "auto"  # none, auto, required, or a name; here a constraint sees to it
    allowed_tools: tuple[str, ...] = ()  # the names of those that may be called, where not all of them may
    parallel_tool_calls: bool | None = None

    digest: str = ""  # equal for equal requests to one model
    handle: Any = field(default=None, repr=False)  # the backend's, while the request is on its way

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
