"""Answers as labels: how far two settings answer alike, and what is answered where what is right."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llama_magic.errors import OptionError
from llama_magic.experiments.answers import as_label
from llama_magic.experiments.axes import counted_together, the_column
from llama_magic.experiments.comparing import hashable, key
from llama_magic.experiments.statistics import kappa
from llama_magic.model.gaps import is_gap
from llama_magic.words.shown import Printed


@dataclass(frozen=True)
class Agreement(Printed):
    """How far the values of an axis (models, prompts) answer alike on the same rows: (first, second, answers
    that were compared, share that is equal, Cohen's kappa) of each two.
    """

    axis: str
    pairs: tuple[tuple[Any, Any, int, float, float], ...]

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`, a row a pair. Raises: ImportError where pandas is not installed."""
        import pandas

        return pandas.DataFrame(self.pairs, columns=["first", "second", "answers", "equal", "kappa"])

    @property
    def kappa(self) -> float:
        """Cohen's kappa of the first pair."""
        return self.pairs[0][4]


def agree(results: Sequence[Any], axis: str, values: Sequence[Any], field: str | None) -> Agreement:
    """Compare the answers of each two values of an axis; errors and abstentions are left out."""
    answers: dict[Any, dict[Hashable, Hashable]] = {hashable(value): {} for value in values}
    for one in results:
        answer = one.answer(field)
        if answer is not None:
            answers[hashable(one.settings[axis])][key(one, axis)] = (
                as_label(answer) if isinstance(answer, str) else hashable(answer)
            )
    made = []
    for first, second in itertools.combinations(values, 2):
        one, other = answers[hashable(first)], answers[hashable(second)]
        pairs = [(one[place], other[place]) for place in one if place in other]
        equal = sum(a == b for a, b in pairs) / len(pairs) if pairs else math.nan
        made.append((first, second, len(pairs), equal, kappa(pairs)))
    return Agreement(axis, tuple(made))


@dataclass(frozen=True)
class Confusion(Printed):
    """What was answered where what was right: `counts[right][answered]`, `labels` in order.

    `left_out` results have an error, no answer, or no label; `abstained` of them chose nothing.
    """

    column: str
    labels: tuple[str, ...]
    counts: Mapping[str, Mapping[str, int]]
    left_out: int = 0
    total: int = 0
    abstained: int = 0
    notes: tuple[str, ...] = ()

    @property
    def accuracy(self) -> float:
        """The share of answers that are right."""
        return (
            sum(self.counts[label][label] for label in self.labels) / self.total if self.total else math.nan
        )

    @property
    def kappa(self) -> float:
        """Cohen's kappa of the answers and the column: 0 for what chance would give, 1 for all alike."""
        cells = [(right, said) for right in self.labels for said in self.labels]
        return kappa([cell for cell in cells for _ in range(self.counts[cell[0]][cell[1]])])

    @property
    def apart(self) -> str | None:
        """What is to be known where no answer is ever a label, else None: they may be written otherwise."""
        rights = [right for right in self.labels if any(self.counts[right].values())]
        answers = [said for said in self.labels if any(self.counts[right][said] for right in rights)]
        if not self.total or not set(rights).isdisjoint(answers):
            return None
        return (
            f"No answer is ever what {self.column!r} holds: it holds {_few(rights)}, and answered was "
            f"{_few(answers)}. Is it the right column, and written alike?"
        )

    def precision(self, label: str) -> float:
        """The share of the answers `label` that are right; 0 where there are none."""
        answered = sum(self.counts[right][label] for right in self.labels)
        return self.counts[label][label] / answered if answered else 0.0

    def recall(self, label: str) -> float:
        """The share of the rows of `label` that are answered so; 0 where there are none."""
        rows = sum(self.counts[label].values())
        return self.counts[label][label] / rows if rows else 0.0

    def f1(self, label: str) -> float:
        """The harmonic mean of precision and recall."""
        precision, recall = self.precision(label), self.recall(label)
        return 2 * precision * recall / (precision + recall) if precision + recall else 0.0

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`: a row what was right, a column what was answered."""
        import pandas

        rows = [[self.counts[right][said] for said in self.labels] for right in self.labels]
        return pandas.DataFrame(rows, index=list(self.labels), columns=list(self.labels))


def confuse(results: Sequence[Any], column: str | None, field: str | None) -> Confusion:
    """Count answers by what a column says is right."""
    column = the_column(column, results)
    both = [(one.inputs.get(column), one.answer(field or column)) for one in results]
    both = [(wanted, answer) for wanted, answer in both if answer is not None and not is_gap(wanted)]
    _check_fields(both, field or column)
    pairs = [(as_label(wanted), as_label(answer)) for wanted, answer in both]
    labels = tuple(sorted({label for pair in pairs for label in pair}))
    counted = Counter(pairs)
    counts = {right: {said: counted[right, said] for said in labels} for right in labels}
    abstained = sum(getattr(one, "abstained", False) for one in results)
    left_out = len(results) - len(pairs)
    return Confusion(column, labels, counts, left_out, len(pairs), abstained, counted_together(results))


def _check_fields(both: Sequence[tuple[Any, Any]], field: str) -> None:
    """Raise where whole answers of several fields would be compared with labels that are none."""
    for wanted, answer in both:
        if not isinstance(answer, dict) or isinstance(wanted, dict) or str(wanted).lstrip().startswith("{"):
            return
    if both:
        names = list(both[0][1])
        raise OptionError(
            f"The answers have fields {', '.join(names)}, and none is {field!r}.",
            remedy=f"Name the one to compare: field={names[0]!r}.",
        )


def _few(labels: Sequence[str]) -> str:
    return ", ".join(map(repr, labels[:3])) + (", …" if len(labels) > 3 else "")
