"""Many draws from one distribution: what the same chain takes with one seed after another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from llama_magic.errors import OptionError
from llama_magic.request.sampling import Sampling
from llama_magic.request.stages import MAX_SEED, STAGES
from llama_magic.words.given import whole_number
from llama_magic.words.shown import Printed

MOST = 100_000  # draws of one call


@dataclass(frozen=True)
class DrawnOften:
    """A token that was drawn: how often, with which seeds, and its probability in what the last stage left.

    `probability` is None where a stage draws by itself (XTC, Mirostat, adaptive-p): what it leaves differs
    from seed to seed.
    """

    id: int
    text: str
    count: int
    probability: float | None
    seeds: tuple[int, ...]


@dataclass(frozen=True)
class Draws(Printed):
    """What a chain draws with `n` seeds, one after the other, beginning with the trace's own.

    `tokens` are what was drawn, the most frequent first; `seeds` are in the order of the draws, and `ids`
    what each of them drew. `others` are the seeds that would have drawn another token than the trace's own.
    """

    tokens: tuple[DrawnOften, ...]
    seeds: tuple[int, ...]
    ids: tuple[int, ...]
    step: int
    sampling: Sampling

    @property
    def n(self) -> int:
        """How many draws there were."""
        return len(self.seeds)

    @property
    def counts(self) -> dict[str, int]:
        """How often each text was drawn, the most frequent first."""
        counts: Counter[str] = Counter()
        for token in self.tokens:
            counts[token.text] += token.count
        return dict(counts)

    @property
    def drawn(self) -> DrawnOften:
        """The token that the trace's own seed draws."""
        return next(token for token in self.tokens if token.id == self.ids[0])

    @property
    def others(self) -> tuple[int, ...]:
        """The seeds that would have drawn another token."""
        return tuple(seed for seed, token in zip(self.seeds, self.ids, strict=True) if token != self.ids[0])

    def to_pandas(self) -> Any:
        """Return one row a token: token, id, count, share, probability, first_seed."""
        import pandas

        return pandas.DataFrame(
            [
                {
                    "token": token.text, "id": token.id, "count": token.count, "share": token.count / self.n,
                    "probability": token.probability, "first_seed": token.seeds[0],
                }
                for token in self.tokens
            ]
        )  # fmt: skip


def seeds_from(seed: int, n: object) -> tuple[int, ...]:
    """Return `n` seeds, counted up from one; after the largest there is comes 0."""
    count = whole_number("n", n, " of draws")
    if not 1 <= count <= MOST:
        raise OptionError(
            f"n is {count}; expected from 1 to {MOST:,} draws.",
            remedy="For more, draw in several calls: trace.rerun(seed=…).draws(n) begins at another seed.",
        )
    return tuple((seed + i) % (MAX_SEED + 1) for i in range(count))


def alike(stages: Sequence[str]) -> bool:
    """Whether all seeds draw from the same: only the last stage of such a chain has random numbers."""
    return stages[-1] in ("dist", "greedy") and not any(
        STAGES[name].remembers for name in stages if name in STAGES
    )


def tally(
    seeds: tuple[int, ...],
    ids: tuple[int, ...],
    text: Callable[[int], str],
    probability: Callable[[int], float | None],
) -> tuple[DrawnOften, ...]:
    """Count what was drawn: the most frequent first, among equals the likelier, then the first drawn."""
    by_token: dict[int, list[int]] = {}
    for seed, token in zip(seeds, ids, strict=True):
        by_token.setdefault(token, []).append(seed)
    made = (
        DrawnOften(token, text(token), len(with_), probability(token), tuple(with_))
        for token, with_ in by_token.items()
    )
    return tuple(sorted(made, key=lambda one: (-one.count, -(one.probability or 0.0))))
