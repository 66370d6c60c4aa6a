"""What stands at each step of an answer, what else might, and the answers that go on from there."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from llama_magic.errors import OptionError
from llama_magic.model.bounded import bounded
from llama_magic.words import shown
from llama_magic.words.counting import counted
from llama_magic.words.given import whole_number
from llama_magic.words.signature import refusing

if TYPE_CHECKING:
    from llama_magic.microscope.tracer import Tracer


@dataclass(frozen=True)
class Alternative:
    """A token that may stand at a step, and its probability (0 to 1) before any sampler.

    `drawn` says that it is the one that the answer has.
    """

    token_id: int
    text: str
    probability: float
    drawn: bool = False


class Origin(Protocol):
    """What an answer was made by."""

    def fork(self, answer: Any, step: int, choice: object, options: Mapping[str, Any]) -> Any:
        """Return the branch of `answer` that has `choice` at a step, or its stream."""

    def pieces(self, ids: Sequence[int]) -> tuple[str, ...]:
        """Return the text that each token makes certain."""


@refusing
class Branching:
    """The side of a `Completion` that another answer can go on from."""

    token_ids: tuple[int, ...]
    begun: int
    logprobs: tuple[Any, ...] | None
    _tracer: Tracer | None
    _origin: Origin | None
    _branches: list[Any]

    def alternatives(self, step: int, k: int = 5, *, timeout: float | None = None) -> tuple[Alternative, ...]:
        """Return the `k` likeliest tokens at a step of `token_ids` (from 0; -1 is the last), likeliest first.

        Under a constraint these are of the tokens that it allows; probabilities are the model's own in any
        case. Logits of older steps are read again. An answer that was not made by an engine in this process
        knows what it was asked for with `logprobs`. Raises `OptionError` where nothing is known, and
        `OutOfTimeError` after `timeout` seconds.
        """
        place = self._step(step, len(self.token_ids) - 1)
        k = whole_number("k", k)
        if k < 1:
            raise OptionError(f"k is {k}; expected 1 or more.")
        with bounded(timeout):
            likely = self._tracer.likely(place, k) if self._tracer is not None else self._told(place)[:k]
        drawn = self.token_ids[place]
        return tuple(Alternative(token, text, p, token == drawn) for token, text, p in likely)

    def _told(self, step: int) -> list[tuple[int, str, float]]:
        """Return what was told of a step: alternatives with their probabilities."""
        place = step - self.begun
        if not self.logprobs or not 0 <= place < len(self.logprobs):
            raise OptionError(
                f"What else was likely at step {step} is not known here.",
                remedy="Ask the model again in this kernel, or ask with logprobs=K.",
            )
        told = self.logprobs[place]
        top = told.top or ((told.token_id, told.text, told.logprob),)
        return [(token, text, math.exp(value)) for token, text, value in top]

    def fork(self, step: int, choice: int | str | Alternative, **options: Any) -> Any:
        """Write another answer from a step on: `choice` stands there, a token or a text; the model goes on.

        What stands before is kept, token for token, and its cells are reused; thinking, stop texts and the
        constraint go on from there. `options` are those of a call (`seed`, `temperature`, `max_tokens`,
        `n`, `stream`, …); what is not given is as it was, and with a seed the branch has the same. A seeded
        branch is what a fresh answer that begins so would be.

        Returns the branch as a `Completion` (a list for `n`, a `Stream` for `stream`); it stands in
        `branches`, too. Raises `OptionError` for a step or token that is none, and
        `StructuredOutputError` where no answer may begin so.
        """
        place = self._step(step, len(self.token_ids))
        if self._origin is None:
            raise OptionError(
                "This answer was not written in this process, so nothing goes on from it.",
                remedy="lm.rerun(answer) writes it here.",
            )
        return self._origin.fork(self, place, choice, options)

    def pieces(self, tokens: Sequence[int] | None = None) -> tuple[str, ...] | None:
        """Return the text that each of `token_ids` makes certain, or of other tokens of the same vocabulary.

        None where that is not at hand. Joined they are `raw_text`, a stop text included.
        """
        return (
            None
            if self._origin is None
            else self._origin.pieces(self.token_ids if tokens is None else tokens)
        )

    def share(self, step: int, token: object) -> float | None:
        """Return how likely a token was at a step, before any sampler; None where that is not known any more.

        Nothing is read again for it.
        """
        if not isinstance(token, int):
            return None
        if self._tracer is not None:
            return self._tracer.share(step, token)
        place = step - self.begun
        told = self.logprobs[place] if self.logprobs and 0 <= place < len(self.logprobs) else None
        if told is None:
            return None
        known = {token_id: value for token_id, _, value in told.top} | {told.token_id: told.logprob}
        return math.exp(known[token]) if token in known else None

    def live(self) -> Any:
        """Return the pen: pick another token, or write over one, and the answer grows on from there.

        By mouse or by keys. What grows stands in `branches`, and the tree of it in the saved notebook. Needs
        a notebook with widgets; elsewhere that is said, and the answer comes back.
        """
        return shown.live(self)

    @property
    def branches(self) -> tuple[Any, ...]:
        """The answers that were forked from this one, in order; each may have branches of its own."""
        return tuple(self._branches)

    def _step(self, step: object, last: int) -> int:
        """Return a step counted from 0. Raises for what is none."""
        number = whole_number("The step", step)
        count = len(self.token_ids)
        if not -count <= number <= last:
            raise OptionError(
                f"There is no step {number}: the answer has {counted(count, 'token')}, numbered from 0.",
                remedy="Count from 0, or from -1 backwards.",
            )
        return number % count if number < 0 else number
