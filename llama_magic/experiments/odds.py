"""What `decide` gives back: for each row how likely each option is, exactly."""

from __future__ import annotations

import math
import numbers
import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from llama_magic.errors import OptionError
from llama_magic.experiments.answers import flat
from llama_magic.experiments.calibration import Calibration, Thresholds, calibrate, foreign_words, weigh
from llama_magic.experiments.results import Results
from llama_magic.experiments.scoring import Equals, scores_of
from llama_magic.model.other_names import ODDS
from llama_magic.words.given import quoted
from llama_magic.words.shown import Shown
from llama_magic.words.tables import percent

_RARE = 0.05  # what options have together, below which it is said


@dataclass(frozen=True)
class Decision(Shown):
    """How likely each option is as the answer to one row.

    `logprobs` are natural-log probabilities of the options, all their tokens counted (empty where there is
    an `error`). `row` is the place of the row (from 0), `inputs` its columns, `settings` the values of the
    axes. `abstained` says that the likeliest option is not likely enough: then there is no `choice`.
    `by_row` says that these options are this row's own.
    """

    place: int
    row: int
    inputs: Mapping[str, Any]
    settings: Mapping[str, Any]
    logprobs: Mapping[str, float] = field(default_factory=dict)
    abstained: bool = False
    error: Exception | None = None
    scores: Mapping[str, Any] = field(default_factory=dict)
    seconds: float = 0.0
    prompt: str = ""
    sample: int = 0  # nothing is drawn, so there is one
    by_row: bool = False

    @property
    def raw(self) -> dict[str, float]:
        """The probability of each option as it is."""
        return {option: math.exp(logprob) for option, logprob in self.logprobs.items()}

    @property
    def mass(self) -> float:
        """What the options have together: how much of what the model would write is one of them."""
        return sum(self.raw.values())

    @property
    def probabilities(self) -> dict[str, float]:
        """The probability of each option, all of them together made 1."""
        if not self.logprobs:
            return {}
        peak = max(self.logprobs.values())
        if peak == -math.inf:
            return dict.fromkeys(self.logprobs, 1 / len(self.logprobs))
        weights = {option: math.exp(logprob - peak) for option, logprob in self.logprobs.items()}
        total = sum(weights.values())
        return {option: weight / total for option, weight in weights.items()}

    @property
    def best(self) -> str | None:
        """The likeliest option, the first one of equals; None where there is an error."""
        return max(self.logprobs, key=lambda option: self.logprobs[option], default=None)

    @property
    def choice(self) -> str | None:
        """The likeliest option, None where it is not likely enough."""
        return None if self.abstained else self.best

    @property
    def confidence(self) -> float:
        """The probability of the likeliest option among the options; NaN where there is an error."""
        return max(self.probabilities.values(), default=math.nan)

    @property
    def margin(self) -> float:
        """How far the likeliest option is before the next one, 0 to 1; NaN where there is an error."""
        ordered = sorted(self.probabilities.values(), reverse=True)
        return ordered[0] - ordered[1] if len(ordered) > 1 else math.nan

    def judged(self, below: float, score: Callable[[Decision], Mapping[str, Any]]) -> Decision:
        """Return it with a choice where the likeliest option has `below` at least, scored then."""
        if self.error is not None:
            return self
        made = replace(self, abstained=self.confidence < below, scores={})
        return made if made.abstained else replace(made, scores=score(made))

    def answer(self, field: str | None = None) -> str | None:
        """Return the choice."""
        return self.choice

    def record(self) -> dict[str, Any]:
        """Return it as one flat dict: columns of the row, settings, choice, probabilities, scores."""
        return flat(
            {"row": self.row},
            self.inputs,
            [
                *self.settings.items(),
                ("choice", self.choice),
                ("confidence", self.confidence),
                ("margin", self.margin),
                ("mass", self.mass if self.logprobs else math.nan),
                *self._shares(),
                ("error", None if self.error is None else str(self.error)),
                *((name, None if isinstance(s, Exception) else s) for name, s in self.scores.items()),
                ("seconds", self.seconds),
            ],
        )

    def _shares(self) -> list[tuple[str, Any]]:
        """Return columns of what each option has; rows with options of their own share two."""
        if self.by_row:
            return [("probabilities", self.probabilities), ("logprobs", dict(self.logprobs))]
        shares = [(f"p({option})", p) for option, p in self.probabilities.items()]
        return [*shares, *((f"logprob({option})", value) for option, value in self.logprobs.items())]

    def __repr__(self) -> str:
        said = f"error: {self.error!r:.60}" if self.error is not None else f"{self.choice!r}"
        shares = ", ".join(f"{option} {p:.0%}" for option, p in self.probabilities.items())
        return f"<Decision on row {self.row}: {said}{f' ({shares})' if shares else ''}>"


class Odds(Results[Decision]):
    """Decisions of `lm.decide`, in row order."""

    _elsewhere = ODDS
    _blank = Decision(0, 0, {}, {})

    @property
    def rare(self) -> str | None:
        """What is to be known where the options are hardly what the model would write, else None."""
        masses = [one.mass for one in self if one.logprobs]
        if not masses or (middle := statistics.median(masses)) >= _RARE:
            return None
        first = next(one for one in self if one.logprobs)
        options = list(first.logprobs)
        shown = ", ".join(map(repr, options[:3])) + (", …" if len(options) > 3 else "")
        named = "" if first.by_row else f" ({shown})"
        return (
            f"Together the options{named} have {percent(middle)} of what the model would write (median): "
            "they are compared where it would hardly write any of them. Write them as it would begin its "
            "answer (a dict gives each name its text), or ask for them in the prompt. An x-ray of a row's "
            ".prompt shows what it would write."
        )

    @property
    def foreign(self) -> tuple[str, ...]:
        """What is to be known where a column that they are scored by holds labels that are no option."""
        experiment: Any = self._experiment
        scores = () if experiment is None else experiment.scores.values()
        columns = (score.column for score in scores if isinstance(score, Equals))
        return tuple(words for column in columns for words in foreign_words(self, column))

    def calibration(self, column: str | None = None, *, bins: int = 10) -> Calibration:
        """Compare how sure the decisions were with how often they were right.

        `column` holds the right option of each row; rows without one, and those with an error, are left
        out. Of a row that abstained the likeliest option counts. `bins` are of equal width.
        """
        return calibrate(self, column, bins)

    def abstain_below(self, probability: float) -> Self:
        """Return the same decisions with another threshold, as `decide` takes it; nothing is read again."""
        below, experiment = threshold("probability", probability), self._experiment
        held = {one.place: one.judged(below, self._scores_of) for one in self}
        again: Any = None if experiment is None else replace(experiment, abstain_below=below)  # type: ignore[type-var]
        made = type(self)(again, held)
        made._alike(self)
        return made

    def _scores_of(self, one: Decision) -> Mapping[str, Any]:
        """Return the scores of a decision that may have abstained before."""
        was = self._kept[one.place]
        if not was.abstained or not any(other.scores for other in self):
            return was.scores
        experiment: Any = self._experiment
        if experiment is None:
            raise OptionError(
                "A part or a copy of decisions does not know how to score those that had abstained.",
                remedy="Set the threshold of all of them first, and take the part then.",
            )
        return scores_of(one, experiment.scores)

    def thresholds(self, column: str | None = None) -> Thresholds:
        """Say for some thresholds how many rows are decided, and how many of these rightly.

        `column` holds the right option of each row. `abstain_below(p)` takes the one that is chosen.
        """
        return weigh(self, column)


def threshold(name: str, given: object) -> float:
    """Return a probability below which there is no choice. Raises `OptionError`."""
    if isinstance(given, bool) or not isinstance(given, numbers.Real) or not 0 <= float(given) <= 1:
        raise OptionError(f"{name} is {quoted(given)}; expected a probability, 0 to 1.")
    return float(given)


def prefixes(tokens: Mapping[str, tuple[int, ...]]) -> list[tuple[str, str]]:
    """Return pairs of options of which the first begins the second: its probability holds the other's."""
    return [
        (one, other)
        for one, short in tokens.items()
        for other, long in tokens.items()
        if one != other and long[: len(short)] == short
    ]
