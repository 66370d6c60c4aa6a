"""Two runs over the same rows side by side: which answers are others now, and how the scores moved."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from llama_magic.errors import OptionError
from llama_magic.experiments.answers import flat
from llama_magic.experiments.axes import columns_of
from llama_magic.experiments.comparing import Pairs, compare, hashable
from llama_magic.experiments.results import Results
from llama_magic.experiments.rows import as_table
from llama_magic.model.gaps import is_gap
from llama_magic.words.names import meant
from llama_magic.words.plain import alike, said
from llama_magic.words.shown import Printed

_RUN = "run"  # the axis that the two are compared along


@dataclass(frozen=True)
class Changes(Printed):
    """Two runs on the rows that both have.

    `both` are the results of the same row and settings, of the one and of the other; `changed` those whose
    answer is another. `scores` says of each score how it moved, as `runs.pairs()` does. `only` counts results
    of the one, and of the other, that have no counterpart. `axes` are those that both have. `settings` is
    what differs of what was asked on the first row, of file and of engine: (name, of the one, of the other).
    """

    names: tuple[str, str]
    both: tuple[tuple[Any, Any], ...]
    only: tuple[int, int] = (0, 0)
    scores: tuple[Pairs, ...] = ()
    axes: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()  # those to show
    labels: tuple[str, Sequence[Any]] | None = None  # see `Results.labels`, of the other
    settings: tuple[tuple[str, Any, Any], ...] = ()

    @property
    def changed(self) -> tuple[tuple[Any, Any], ...]:
        """The pairs of results whose answers differ."""
        return tuple(pair for pair in self.both if is_changed(*pair))

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`, a row a pair of results: its row, both answers, both scores.

        The column `changed` says whether the answers differ. Its index is that of the other's rows.

        Raises: ImportError where pandas is not installed.
        """
        name, labels = self.labels or ("", None)
        records = [self._record(*pair) for pair in self.both]
        return as_table(records, [other.row for _, other in self.both], labels, (name,))

    def _record(self, one: Any, other: Any) -> dict[str, Any]:
        scores = dict.fromkeys([*one.scores, *other.scores])
        return flat(
            {"row": other.row},
            other.inputs,
            [
                *((axis, other.settings[axis]) for axis in self.axes),
                *((f"answer {name}", written(r)) for name, r in zip(self.names, (one, other), strict=True)),
                ("changed", is_changed(one, other)),
                *(
                    (f"{score} {name}", None if isinstance(s := r.scores.get(score), Exception) else s)
                    for score in scores
                    for name, r in zip(self.names, (one, other), strict=True)
                ),
            ],
        )


def is_changed(one: Any, other: Any) -> bool:
    """Say whether two results answer otherwise; an error is another answer than none or another error."""
    return not alike(one.answer(), other.answer()) or str(one.error) != str(other.error)


def written(result: Any) -> Any:
    """Return an answer as one value."""
    answer = result.answer()
    plain = answer is None or isinstance(answer, (str, int, float))
    return answer if plain else json.dumps(answer, default=said, ensure_ascii=False)


def changes(one: Results[Any], other: Results[Any], names: tuple[str, str], on: Any) -> Changes:
    """Pair the results of two runs by columns of their rows (`on`, or all that both have)."""
    columns, axes = _columns(one, other, names, on), _axes(one, other, names)
    first, second = (_by_key(results, columns, axes) for results in (one, other))
    both = tuple((first[key], result) for key, result in second.items() if key in first)
    if not both and first and second:
        raise OptionError(
            f"No row of {names[0]} is one of {names[1]}: they were compared by {', '.join(columns)}.",
            remedy=f"Where a column names each row, compare by it: lm.diff(…, on={columns[0]!r}).",
        )
    return Changes(
        names,
        both,
        (len(first) - len(both), len(second) - len(both)),
        tuple(_moved(both, names)),
        tuple(axes),
        other.columns,
        other.labels,
    )


def _columns(one: Results[Any], other: Results[Any], names: tuple[str, str], on: Any) -> list[str]:
    sides = [columns_of(results) for results in (one, other)]
    if on is None:
        return [name for name in sides[0] if name in sides[1]]
    wanted = [on] if isinstance(on, str) else list(on)
    for column in wanted:
        for side, name in zip(sides, names, strict=True):
            if column not in side:
                raise OptionError(f"The rows of {name} have no column {column!r}. {meant(str(column), side)}")
    return wanted


def _axes(one: Results[Any], other: Results[Any], names: tuple[str, str]) -> list[str]:
    """Return the axes with values in common; of each other one there must be but one value on a side."""
    sides = one.axes, other.axes
    common = [
        name
        for name, values in sides[0].items()
        if any(alike(value, there) for value in values for there in sides[1].get(name, ()))
    ]
    for side, name in zip(sides, names, strict=True):
        for axis, values in side.items():
            if len(values) > 1 and axis not in common:
                raise OptionError(
                    f"{name} has {len(values)} values of {axis}, so several answers stand against one.",
                    remedy=f"Compare one of them: {name}.where({axis}={values[0]!r}).",
                )
    return common


def _by_key(results: Results[Any], columns: Sequence[str], axes: Sequence[str]) -> Mapping[Hashable, Any]:
    """Return results by what a counterpart has in common with one; rows that are equal are numbered."""
    made: dict[Hashable, Any] = {}
    seen: Counter[Hashable] = Counter()
    for result in results:
        inputs = (None if is_gap(value := result.inputs.get(name)) else value for name in columns)
        settings = (hashable(result.settings[axis]) for axis in axes)
        key = (tuple(map(hashable, inputs)), tuple(settings), result.sample)
        made[(key, seen[key])] = result
        seen[key] += 1
    return made


def _moved(both: Sequence[tuple[Any, Any]], names: tuple[str, str]) -> Iterator[Pairs]:
    """Yield how each score that both have moved."""
    scores = [dict.fromkeys(score for pair in both for score in pair[side].scores) for side in (0, 1)]
    for score in scores[0]:
        if score in scores[1]:
            told = [
                replace(result, row=other.row, settings={_RUN: name})
                for one, other in both
                for name, result in zip(names, (one, other), strict=True)
            ]
            yield compare(told, _RUN, score, names)
