"""What results say together: a summary by setting, and settings compared on the same rows."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llama_magic.doors import here, option
from llama_magic.experiments.statistics import Interval, bootstrap, estimate, holm, sign_test
from llama_magic.words.counting import counted
from llama_magic.words.plain import alike
from llama_magic.words.shown import Printed
from llama_magic.words.tables import data_frame

FEW_SEEDS = 5  # answers to a row, below which a difference may well be that of a draw
Settings = Mapping[str, Any]


@dataclass(frozen=True)
class Group:
    """The results of one setting: how many, how many errors, the scores, means of tokens and seconds.

    `settings` are the values of the axes, or columns, that the summary is by.

    `abstained` counts decisions without a choice, which have no score; None of answers.
    """

    settings: Settings
    results: int
    errors: int
    scores: Mapping[str, Interval]
    tokens: float | None  # written, a result
    seconds: float
    abstained: int | None = None
    prompt_tokens: float | None = None  # read, a result


@dataclass(frozen=True)
class Summary(Printed):
    """Results by setting. `notes` say what the figures cannot tell."""

    groups: tuple[Group, ...]
    by: tuple[str, ...]
    scores: tuple[str, ...]
    notes: tuple[str, ...] = ()

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`, a row a setting. Raises: ImportError where pandas is not installed."""
        return data_frame([_flat(group) for group in self.groups])


def _flat(group: Group) -> dict[str, Any]:
    scores = {
        f"{name}{end}": value
        for name, one in group.scores.items()
        for end, value in (("", one.mean), (" low", one.low), (" high", one.high), (" rows", one.rows))
    }
    counts = {"results": group.results, "errors": group.errors}
    if group.abstained is not None:
        counts["abstained"] = group.abstained
    means = {"prompt_tokens": group.prompt_tokens, "tokens": group.tokens, "seconds": group.seconds}
    return {**group.settings, **counts, **scores, **means}


def summarise(
    results: Sequence[Any], by: Mapping[str, Callable[[Any], Any]], scores: Sequence[str]
) -> Summary:
    """Group results by what each of `by` says of one, and estimate each score of each group."""
    grouped: dict[tuple[Any, ...], list[Any]] = {}
    for result in results:
        grouped.setdefault(tuple(hashable(value(result)) for value in by.values()), []).append(result)
    groups = tuple(_group(part, by, scores) for part in grouped.values())
    return Summary(groups, tuple(by), tuple(scores), _notes(results, scores))


def _group(part: Sequence[Any], by: Mapping[str, Callable[[Any], Any]], scores: Sequence[str]) -> Group:
    found = {name: made for name in scores if (made := estimate(_by_row(part, name))) is not None}
    abstained = [one.abstained for one in part if hasattr(one, "abstained")]
    usages = [one.written.usage for one in part if getattr(one, "written", None)]
    return Group(
        {name: value(part[0]) for name, value in by.items()},
        len(part),
        sum(one.error is not None for one in part),
        found,
        _mean([usage.completion_tokens for usage in usages]) if usages else None,
        math.fsum(one.seconds for one in part) / len(part),
        sum(abstained) if abstained else None,
        _mean([usage.prompt_tokens for usage in usages]) if usages else None,
    )


def _by_row(part: Sequence[Any], name: str) -> dict[Hashable, list[float | bool]]:
    rows: dict[Hashable, list[float | bool]] = {}
    for one in part:
        score = one.scores.get(name)
        if score is not None and not isinstance(score, Exception):
            rows.setdefault(one.row, []).append(score)
    return rows


def _notes(results: Sequence[Any], scores: Sequence[str]) -> tuple[str, ...]:
    """Warn of draws that are few, and of scores that failed."""
    notes = []
    drawn = [
        one for one in results if getattr(one, "completion", None) and not one.completion.sampling.greedy
    ]
    seeds = Counter((one.row, *key(one, "seed")[2:]) for one in drawn)
    if scores and seeds and min(seeds.values()) < FEW_SEEDS:
        least = min(seeds.values())
        often = "once" if least == 1 else f"{least} times"
        notes.append(
            here(
                f"Answers were drawn {often} a row, at a temperature above 0: a difference may be that of "
                f"a draw. {option('n', FEW_SEEDS)} or more tells them apart."
            )
        )
    return (*notes, *failed_scores(results))


def failed_scores(results: Iterable[Any]) -> list[str]:
    """Say on how many results a score failed, and what befell the first of them."""
    failed: dict[str, list[tuple[int, Exception]]] = {}
    for one in results:
        for name, score in one.scores.items():
            if isinstance(score, Exception):
                failed.setdefault(name, []).append((one.row, score))
    return [
        f"The score {name!r} failed on {counted(len(found), 'result')}, first on row {found[0][0]}: "
        f"{type(found[0][1]).__name__}: {found[0][1]}{_instead(found[0][1])}"
        for name, found in failed.items()
    ]


def _instead(error: Exception) -> str:
    """Return what to write where plain data was taken for the instance that a schema gives."""
    if isinstance(error, AttributeError) and isinstance(error.obj, dict):
        return f". Write run.parsed.{error.name}: run.answer() is plain data"
    return ""


# --- pairs ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Pair:
    """Two values of an axis on the same rows: `second` against `first`.

    `difference` is of the means, with its 95 % interval; `better` and `worse` count rows, `p` is of the
    sign test on these (McNemar's exact test where the score is right or wrong and a row has one answer),
    `p_holm` corrects for how many pairs are compared.
    """

    first: Any
    second: Any
    rows: int
    better: int
    worse: int
    difference: float
    low: float
    high: float
    p: float
    p_holm: float

    @property
    def tells(self) -> bool:
        """Whether a difference so one-sided is unlikely by chance (p below 0.05, corrected)."""
        return self.p_holm < 0.05


@dataclass(frozen=True)
class Pairs(Printed):
    """Every two values of an axis compared on the same rows."""

    axis: str
    score: str
    pairs: tuple[Pair, ...]
    notes: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Pair:
        return self.pairs[index]

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`, a row a pair. Raises: ImportError where pandas is not installed."""
        import pandas

        return pandas.DataFrame([vars(pair) for pair in self.pairs])


def compare(results: Sequence[Any], axis: str, score: str, values: Sequence[Any]) -> Pairs:
    """Compare each two values of an axis, row by row: a row's answers to one of them count as their mean."""
    by_value: dict[Any, dict[Hashable, list[float | bool]]] = {
        hashable(value): _by_row([one for one in results if alike(one.settings[axis], value)], score)
        for value in values
    }
    made = []
    for first, second in itertools.combinations(values, 2):
        one, other = by_value[hashable(first)], by_value[hashable(second)]
        differences = [_mean(other[row]) - _mean(one[row]) for row in one if row in other]
        better, worse = sum(d > 0 for d in differences), sum(d < 0 for d in differences)
        low, high = bootstrap(differences)
        mean = math.fsum(differences) / len(differences) if differences else math.nan
        p = sign_test(better, worse)
        made.append(Pair(first, second, len(differences), better, worse, mean, low, high, p, p))
    corrected = holm([pair.p for pair in made])
    pairs = tuple(replace(pair, p_holm=p) for pair, p in zip(made, corrected, strict=True))
    # Where no verdict is that one is better, nobody needs to hear that a draw may have made the difference.
    scores = [score] if any(pair.tells for pair in pairs) else []
    return Pairs(axis, score, pairs, _notes(results, scores))


def _mean(values: Sequence[float]) -> float:
    return math.fsum(values) / len(values)


def key(result: Any, axis: str) -> tuple[Hashable, ...]:
    """Return what two results must share to be compared along an axis."""
    others = tuple((name, hashable(value)) for name, value in result.settings.items() if name != axis)
    return (result.row, result.sample, others)


def hashable(value: Any) -> Hashable:
    """Return a value that can be a key, equal for equal ones."""
    try:
        hash(value)
    except TypeError:
        return repr(value)
    return value
