"""The answers on the pen's board: the first ones, and those that grew from their tokens."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from llama_magic.errors import OptionError
from llama_magic.model.branching import Alternative
from llama_magic.model.results import Completion
from llama_magic.words.harmless import one_line

Choice = int | str | Alternative
_SAID = 24  # characters of what was picked


@dataclass
class Version:
    """An answer, what it grew from and where; `answer` is None while it is written.

    `path` tells it apart ("", "1", "1.2"), `source` is how it is written in Python.
    """

    path: str
    label: str
    source: str
    parent: Version | None = None
    answer: Completion[Any] | None = None
    children: int = 0

    @cached_property
    def shares(self) -> list[float | None]:
        """How likely each token was, before any sampler; of given ones the answer before it knows that."""
        answer = self.answer
        assert answer is not None
        own = [answer.share(step, token) for step, token in enumerate(answer.token_ids)]
        if self.parent is None or self.parent.answer is None:
            return own
        before = self.parent.answer
        same = common(before.token_ids, answer.token_ids)
        known = self.parent.shares[:same]
        if same < min(answer.begun, len(before.token_ids)):
            known.append(before.share(same, answer.token_ids[same]))
        return [*known, *own[len(known) :]]

    def likely(self, step: int, k: int) -> tuple[Alternative, ...]:
        """Return the `k` likeliest tokens at a step; of a given one the answer before it knows that.

        Raises `OptionError` where nothing is known.
        """
        answer, before = self.answer, None if self.parent is None else self.parent.answer
        assert answer is not None
        if self.parent is None or before is None or step >= min(answer.begun, len(before.token_ids)):
            return answer.alternatives(step, k)
        if step > common(before.token_ids, answer.token_ids):
            return answer.alternatives(step, k)
        drawn = answer.token_ids[step]
        return tuple(replace(one, drawn=one.token_id == drawn) for one in self.parent.likely(step, k))

    def unsure(self, most: int, k: int) -> list[tuple[int, float, tuple[Alternative, ...]]]:
        """Return the steps where the token that stands was least likely, least sure first.

        Each as (step, its probability, what was likely there); nothing is read again for it.
        """
        known = sorted((share, step) for step, share in enumerate(self.shares) if share is not None)
        return [(step, share, self.likely(step, k)) for share, step in known[:most]]

    def branch(self, step: int, choice: Choice, said: str, options: str = "") -> Version:
        """Return the next branch of this answer, not written yet; `said` is the text that was chosen."""
        self.children += 1
        path = f"{self.path}.{self.children}" if self.path else str(self.children)
        words = (
            f"branch {path}: token {step + 1:,} “{one_line(said.strip(), _SAID)}”"
            if said.strip()
            else f"branch {path}"
        )
        token = choice.token_id if isinstance(choice, Alternative) else choice
        return Version(path, words, f"{self.source}.fork({step}, {token!r}{options})", self)


def versions(answers: Sequence[Completion[Any]], called: str) -> list[Version]:
    """Return the answers, each before the branches that it has already.

    Raises `OptionError` for one that nothing can go on from.
    """
    several = len(answers) > 1
    found: list[Version] = []
    for number, answer in enumerate(answers):
        if answer.pieces() is None:
            raise OptionError(
                "This answer was not written in this process, so nothing goes on from it.",
                remedy="lm.rerun(answer) writes it here.",
            )
        label = f"sample {number + 1}" if several else "the answer"
        source = f"{called}[{number}]" if several else called
        found.extend(_grown(Version(f"{number + 1}" if several else "", label, source, None, answer)))
    return found


def _grown(version: Version) -> Iterator[Version]:
    """Yield a version and those that grew from it before the board was there."""
    yield version
    assert version.answer is not None
    for number, answer in enumerate(version.answer.branches):
        step = common(version.answer.token_ids, answer.token_ids)
        pieces = answer.pieces() or ()
        made = version.branch(step, 0, "".join(pieces[step : max(answer.begun, step + 1)]))
        made.answer, made.source = answer, f"{version.source}.branches[{number}]"
        yield from _grown(made)


def common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many tokens two answers have in common at their beginning."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
