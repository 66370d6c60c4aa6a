"""What every experiment gives back: a sequence of its results in row order, which knows what is missing."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Generic, Self, overload

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.experiments.agreement import Agreement, Confusion, agree, confuse
from llama_magic.experiments.axes import axes_of, columns_of, having, named_axis, the_axis, value_of
from llama_magic.experiments.comparing import Pairs, Summary, compare, summarise
from llama_magic.experiments.protocols import R, Work
from llama_magic.experiments.rows import Row, as_table
from llama_magic.experiments.scoring import check_columns, read_scores, scores_of
from llama_magic.model.other_names import RUNS, CalledElsewhere
from llama_magic.words.counting import counted
from llama_magic.words.given import whole
from llama_magic.words.shown import Printed
from llama_magic.words.signature import refusing
from llama_magic.words.standing import Clock, Standing


@refusing
class Results(CalledElsewhere, Printed, Sequence[R], Generic[R]):
    """The results that there are, in row order; `total` were asked for, `missing` are still to come.

    `resume()` goes on with those.
    """

    _elsewhere, _called = RUNS, "runs"
    _blank: R  # a result of nothing: it has the columns that each of them has

    def __init__(self, experiment: Work | None, kept: Mapping[int, R]) -> None:
        self._experiment = experiment
        self._kept = dict(kept)
        self._total = len(self._kept)  # where there is no experiment
        self._ordered: list[R] | None = None
        # The columns that the prompts ask for: those to show.
        self.columns: tuple[str, ...] = () if experiment is None else tuple(experiment.columns)
        self.clock: Clock | None = None  # while it is carried out
        self.anew: set[int] = set()  # places that are asked whatever a record holds
        # What is to be known of all of them.
        self.notes: tuple[str, ...] = () if experiment is None else experiment.notes
        self._labels = None if experiment is None else experiment.labels
        self._index = () if experiment is None else experiment.index
        self._known = () if experiment is None else tuple(s.values for s in experiment.settings)

    # --- a sequence -------------------------------------------------------------------------

    def __len__(self) -> int:
        return len(self._kept)

    def __iter__(self) -> Iterator[R]:
        return iter(self._in_order())

    @overload
    def __getitem__(self, index: int) -> R: ...
    @overload
    def __getitem__(self, index: slice) -> Self: ...
    def __getitem__(self, index: int | slice) -> R | Self:
        if isinstance(index, slice):
            return self._of(self._in_order()[index])
        if whole(index) is None:
            raise InputTypeError(
                f"The results have no [{index!r:.40}]; they are numbered from 0.",
                remedy="to_pandas() has columns, where(…) the results of some settings.",
            )
        return self._in_order()[index]

    def _in_order(self) -> list[R]:
        ordered = self._ordered
        if ordered is None or len(ordered) != len(self._kept):
            ordered = self._ordered = [self._kept[place] for place in sorted(self._kept)]
        return ordered

    def _of(self, results: Sequence[R]) -> Self:
        """Return a part of these, which has nothing to resume."""
        part = type(self)(None, {result.place: result for result in results})
        part._alike(self)
        return part

    def _alike(self, other: Self) -> None:
        """Take over what is told of all results."""
        self.columns, self.notes = other.columns, other.notes
        self._labels, self._index, self._known = other._labels, other._index, other._known

    @property
    def labels(self) -> tuple[str, Sequence[Any]] | None:
        """What the rows' table calls its index, and each row by place; None where that is the place."""
        names = [str(name) for name in self._index if name is not None]
        if self._labels is None or list(self._labels) == list(range(len(self._labels))):
            return None
        return ", ".join(names) or "index", self._labels

    def __getstate__(self) -> dict[str, Any]:
        """Leave out how they were asked for: models live in this process. A copy has nothing to resume."""
        return {**vars(self), "_experiment": None, "clock": None, "_total": self.total}

    def put(self, result: R) -> None:
        """Keep a result, in place of what stood there."""
        self._kept.pop(result.place, None)  # the newest stands last
        self._kept[result.place] = result
        self.anew.discard(result.place)
        self._ordered = None
        if self.clock is not None and (result.error is None or result.seconds):  # else it was never asked
            self.clock.done += 1

    def holds(self, place: int) -> bool:
        """Whether the result of a place is there."""
        return place in self._kept

    def newest(self, count: int) -> list[R]:
        """Return the results that came last, the newest first."""
        return list(reversed(list(self._kept.values())[-count:]))

    # --- how far ----------------------------------------------------------------------------

    @property
    def total(self) -> int:
        """How many results were asked for."""
        return self._total if self._experiment is None else len(self._experiment.tasks)

    @property
    def missing(self) -> int:
        """How many of them are not there."""
        return self.total - len(self._kept)

    @property
    def standing(self) -> Standing:
        """How far it is now."""
        errors = sum(result.error is not None for result in list(self._kept.values()))
        rate, left = self.clock.pace(self.missing) if self.clock is not None else (0.0, None)
        return Standing(len(self._kept), self.total, errors, rate, left, self.noun)

    @property
    def noun(self) -> str:
        """What one of these is called: a row, where there is but one result for each."""
        tasks = () if self._experiment is None else self._experiment.tasks[-1:]  # the last of its row
        several = any(result.sample for result in (*tasks, *self))
        return "row" if not self.axes and not several else "answer"

    def resume(self, *, errors: bool = False) -> Self:
        """Go on with what is missing, and return itself; with `errors`, ask again where there was one."""
        if self._experiment is None:
            raise OptionError(
                "A part or a copy of results cannot be resumed.",
                remedy="Resume the results themselves; elsewhere make the same call with the same record=.",
            )
        if errors:
            for result in self.failures:
                self._kept.pop(result.place)
                self.anew.add(result.place)
            self._ordered = None
        self._experiment.carry_out(self)
        return self

    # --- parts ------------------------------------------------------------------------------

    @property
    def failures(self) -> Self:
        """Those that ended with an error."""
        return self._of([result for result in self if result.error is not None])

    def where(self, test: Callable[[R], Any] | None = None, /, **values: Any) -> Self:
        """Return a part: by axis, else by column, or those of which a function says so.

        `runs.where(prompt="short", mood="bad")`; `runs.where(lambda run: run.scores["right"] is False)`.
        """
        known = axes_of(self._known or self._settings())  # of a part: also what none of it has
        if test is not None and not callable(test):
            raise InputTypeError(
                f"A {type(test).__name__} says of no result whether it is wanted.",
                remedy="Give a function of one (lambda run: run.error is None), or values by name.",
            )
        is_whole = self._experiment is not None
        tests = [having(name, value, known, self, whole=is_whole) for name, value in values.items()]
        tests += [] if test is None else [test]
        return self._of([one for one in self if all(holds(one) for holds in tests)])

    @property
    def axes(self) -> dict[str, list[Any]]:
        """The axes and their values, in order."""
        return axes_of(self._settings())

    def _settings(self) -> list[Mapping[str, Any]]:
        if self._experiment is not None:
            return [setting.values for setting in self._experiment.settings]
        return [result.settings for result in self]

    # --- what they say together ---------------------------------------------------------------

    def summary(self, by: str | Sequence[str] | None = None) -> Summary:
        """Count results and estimate scores by the axes `by` (all of them): means with 95 % intervals.

        `by` may name columns of the rows, too. The only prompt or model is no axis: by it, all count
        together.
        """
        axes, known = self.axes, columns_of(self)
        names = list(axes) if by is None else [by] if isinstance(by, str) else list(by)
        names = [name for name in names if name in axes or name in known or name not in ("prompt", "model")]
        return summarise(self, {name: value_of(name, axes, self) for name in names}, self._score_names())

    def pairs(self, axis: str | None = None, score: str | Callable[[Any], Any] | None = None) -> Pairs:
        """Compare each two values of an axis on the same rows, by a score: the only ones, if they are.

        `score` is the name of one, or a function as for `map`.
        """
        axis = the_axis(axis, self.axes)
        if callable(score):
            return self.scored(score).pairs(axis)
        names = self._score_names()
        if score is None and len(names) == 1:
            score = names[0]
        if score is None or score not in names:
            known = f"There are {', '.join(names)}." if names else "Score them first: .scored(…), or score=."
            if not names and len(self.failures) == len(self):
                known = f"Every answer is an error; the first: {self.failures[0].error}"
            which = "no one score" if score is None else f"no score {score!r}"
            raise OptionError(f"There is {which} to compare by.", remedy=known)
        return compare(self, axis, score, self._values(axis, least=2))

    def kappa(self, axis: str | None = None, field: str | None = None) -> Agreement:
        """Say how far each two values of an axis (models, say) answer alike: shares and Cohen's kappa.

        `field` names what of a structured answer is compared. How far they agree with a column of the rows
        `confusion` says.
        """
        if axis not in self.axes and any(axis in result.inputs for result in self):
            raise OptionError(
                f"{axis!r} is a column of the rows, and no axis.",
                remedy=f"confusion({axis!r}).kappa says how far the answers agree with it.",
            )
        axis = the_axis(axis, self.axes)
        return agree(self, axis, self._values(axis, least=2), field)

    def confusion(self, column: str | None = None, field: str | None = None) -> Confusion:
        """Count what was answered where `column` says what is right.

        Of a structured answer the field of that name counts, or `field`, or its only one.
        """
        return confuse(self, column, field)

    def scored(self, score: Any) -> Self:
        """Return the same results with other scores; nothing is asked again. `score` as for `map`."""
        scores = read_scores(score)
        check_columns(score, (result.inputs for result in self))
        made = {r.place: replace(r, scores=scores_of(r, scores)) for r in self}  # type: ignore[type-var]
        other = type(self)(self._experiment, made)
        other._alike(self)
        return other

    def _score_names(self) -> list[str]:
        return list(dict.fromkeys(name for result in self for name in result.scores))

    def _values(self, axis: str, least: int = 1) -> list[Any]:
        if axis not in self.axes and any(axis in result.inputs for result in self):
            raise OptionError(
                f"{axis!r} is a column of the rows, and no axis.",
                remedy=f"to_pandas().groupby({axis!r}) has the answers by what it holds.",
            )
        values = named_axis(axis, self.axes)
        if len(values) < least:
            raise OptionError(f"The axis {axis!r} has one value, so there is nothing to compare.")
        return values

    # --- out --------------------------------------------------------------------------------

    def as_rows(self) -> list[Row]:
        """Return what `to_pandas` tells of each result as a row of another experiment."""
        labels = self._labels
        return [
            Row(i, one.record(), None, one.row if labels is None else labels[one.row], self._index)
            for i, one in enumerate(self)
        ]

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`, a row a result: columns of its row, settings, answer, scores, figures.

        Its index is that of the rows, so that `df["answer"] = runs.to_pandas()["answer"]` puts each answer
        to its own row, also where some are missing. Where rows are numbered and have several results it
        counts these.

        Raises: ImportError where pandas is not installed.
        """
        import pandas

        rows = [result.row for result in self]
        if not rows:
            return pandas.DataFrame(columns=list(self._blank.record()))
        return as_table([result.record() for result in self], rows, self._labels, self._index)

    def __repr__(self) -> str:
        missing = f", {self.missing:,} missing" if self.missing else ""
        errors = sum(result.error is not None for result in self)
        failed = f", {counted(errors, 'error')}" if errors else ""
        return f"<{type(self).__name__}: {counted(len(self), self.noun)}{missing}{failed}>"


Progress = bool | Callable[[Standing], Any]
