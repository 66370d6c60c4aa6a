"""A vote over several structured answers to one question: for each field, which value most of them give.

Self-consistency (Wang et al. 2022, arXiv:2203.11171), field by field: samples that disagree say where
the model guessed.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from llama_magic.errors import InputTypeError, OptionError, StructuredOutputError
from llama_magic.experiments.runs import Run
from llama_magic.words.given import items_of, quoted
from llama_magic.words.shown import Shown
from llama_magic.words.signature import checked

if TYPE_CHECKING:
    from llama_magic.model.results import Completion
    from llama_magic.structured import Constraint


class Shape(enum.Enum):
    """What stands at a place where not every answer has a plain value."""

    MISSING = "missing"
    OBJECT = "an object"
    LIST = "a list"

    def __str__(self) -> str:
        return self.value


@dataclass(frozen=True)
class FieldVote:
    """One field: `pointer` is its JSON pointer, `counts` the (value, answers) pairs, most first.

    Of values with equal counts the one that was given first stands first. A value is JSON data, or a
    `Shape` where the answers differ in kind: `Shape.MISSING` where the key is not there.
    """

    pointer: str
    counts: tuple[tuple[Any, int], ...]

    @property
    def winner(self) -> Any:
        """The value that most answers give."""
        return self.counts[0][0]

    @property
    def votes(self) -> int:
        """How many answers give it."""
        return self.counts[0][1]

    @property
    def ballots(self) -> int:
        """How many answers have something to say here: those that hold the object around this field."""
        return sum(count for _, count in self.counts)

    @property
    def agreement(self) -> float:
        """The winner's share of the ballots, 0 to 1."""
        return self.votes / self.ballots


@dataclass(frozen=True)
class Vote(Shown):
    """What several answers say together.

    `parsed` is the instance of the winners put together, and `text` its JSON. Where the winners are no
    instance together, `combined` is False, `why_not` says the reason, and `parsed` and `text` are those
    of the whole answer that came most often. `left_out` counts answers that are no instance.
    """

    fields: tuple[FieldVote, ...]
    ballots: int
    left_out: int
    parsed: Any
    text: str
    combined: bool = True
    why_not: str = ""
    whole_votes: int = field(default=0)

    def __getitem__(self, pointer: str) -> FieldVote:
        """Return the vote on one field, by JSON pointer."""
        for one in self.fields:
            if one.pointer == pointer:
                return one
        known = ", ".join(repr(one.pointer) for one in self.fields)
        raise KeyError(f"There was no vote on {pointer!r}; there were votes on {known}.")

    @property
    def agreement(self) -> float:
        """The least agreement of any field: where the answers differ most."""
        return min(one.agreement for one in self.fields)

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame`: field, winner, agreement, votes, ballots, others (a dict by text).

        Raises: ImportError where pandas is not installed.
        """
        import pandas

        return pandas.DataFrame(
            {
                "field": [one.pointer for one in self.fields],
                "winner": pandas.Series([_plain(one.winner) for one in self.fields], dtype=object),
                "agreement": [one.agreement for one in self.fields],
                "votes": [one.votes for one in self.fields],
                "ballots": [one.ballots for one in self.fields],
                "others": [{said(value): count for value, count in one.counts[1:]} for one in self.fields],
            }
        )


@checked
def vote(completions: Iterable[Completion]) -> Vote:
    """Count, field by field, what several structured answers to one question say.

    Objects are voted on key by key, lists item by item where all of them have the same length and
    as a whole where not. Texts and numbers are compared exactly (1 is 1.0), null is a value, a key
    that is not there is `Shape.MISSING`. Where some answers hold an object and others something else,
    objects count as one value there; if they win, those answers vote on what is inside. Lists alike.

    `Runs` of a map are answers, too. Those that were interrupted, or are no instance, are left out. Raises
    `OptionError` where none is left, and `InputTypeError` for what is no structured answer.
    """
    if not isinstance(completions, Iterable):
        raise InputTypeError(
            f"A vote is over several answers; got {quoted(completions)}.",
            remedy="Ask for some with n=8 and pass the list.",
        )
    answers = (_answer(one) if isinstance(one, Run) else one for one in items_of("The answers", completions))
    given = [one for one in answers if one is not None]
    constraints: list[Constraint] = []
    for one in given:
        constraint = getattr(one, "_constraint", None)
        if constraint is None:
            raise InputTypeError(
                f"A vote is over structured answers; got {quoted(one)}.",
                remedy="Use the answers of model.structured(…, n=8), or of complete with choices.",
            )
        constraints.append(constraint)
    if not constraints:
        raise OptionError("There is no answer to vote with.", remedy="Ask for some with n=8.")
    if any(constraint.grammar != constraints[0].grammar for constraint in constraints):
        raise OptionError(
            "These answers were asked for under different schemas.",
            remedy="Vote over answers to one question.",
        )
    return count([one.text for one in given], constraints[0])


def _answer(run: Run) -> Completion | None:
    """Return what a run of a map wrote, also where it is no instance; None of nothing."""
    return run.completion or getattr(run.error, "completion", None)


def count(texts: Sequence[str], constraint: Constraint) -> Vote:
    """Count the votes of some texts, each an answer under `constraint`."""
    valid = [text for text in texts if constraint.why_not(text) is None]
    if not valid:
        raise OptionError(
            f"None of the {len(texts)} answers is an instance, so there is nothing to vote with.",
            remedy="Allow more tokens, or ask again.",
        )
    is_json = constraint.kind == "json"
    values = [json.loads(text) if is_json else text for text in valid]
    fields: list[FieldVote] = []
    winner = _tally("", values, fields)
    text = json.dumps(winner, ensure_ascii=False) if is_json else str(winner)
    why_not = ""
    try:
        return Vote(tuple(fields), len(valid), len(texts) - len(valid), constraint.parse(text), text)
    except StructuredOutputError:
        why_not = constraint.why_not(text) or ""
    (at, votes), *_ = _ranked(values)
    return Vote(
        tuple(fields),
        len(valid),
        len(texts) - len(valid),
        constraint.parse(valid[at]),
        valid[at],
        combined=False,
        why_not=why_not,
        whole_votes=votes,
    )


def said(value: Any) -> str:
    """Return a value as it is written in a list of votes: JSON, or the name of a shape."""
    return str(value) if isinstance(value, Shape) else json.dumps(value, ensure_ascii=False)


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Shape) else value


def _tally(pointer: str, values: list[Any], fields: list[FieldVote]) -> Any:
    """Vote on what stands at one place; note it in `fields` and return the winner."""
    shown = _opened(values)
    winner: Any = shown[0] if len(set(map(_key, shown))) == 1 else None
    if not isinstance(winner, Shape) or winner is Shape.MISSING:
        counts = tuple((shown[at], votes) for at, votes in _ranked(shown))
        fields.append(FieldVote(pointer, counts))
        winner = counts[0][0]
    inside = [value for value, shape in zip(values, shown, strict=True) if shape is winner]
    if winner is Shape.OBJECT:
        won = {
            name: _tally(
                f"{pointer}/{_escaped(name)}", [value.get(name, Shape.MISSING) for value in inside], fields
            )
            for name in dict.fromkeys(name for value in inside for name in value)
        }
        return {name: value for name, value in won.items() if value is not Shape.MISSING}
    if winner is Shape.LIST:
        return [
            _tally(f"{pointer}/{index}", [value[index] for value in inside], fields)
            for index in range(len(inside[0]))
        ]
    return winner


def _opened(values: list[Any]) -> list[Any]:
    """Return the values with a `Shape` for each container that is voted on by its parts."""
    lengths = {len(value) for value in values if isinstance(value, list)}
    lists = len(lengths) == 1 and lengths != {0}
    objects = any(isinstance(value, dict) and value for value in values)
    return [
        Shape.LIST
        if lists and isinstance(value, list)
        else Shape.OBJECT
        if objects and isinstance(value, dict)
        else value
        for value in values
    ]


def _ranked(values: Sequence[Any]) -> list[tuple[int, int]]:
    """Return (index of the first, how many) of each different value, most first."""
    first: dict[Any, int] = {}
    votes: dict[Any, int] = {}
    for index, value in enumerate(values):
        key = _key(value)
        first.setdefault(key, index)
        votes[key] = votes.get(key, 0) + 1
    return sorted(
        ((first[key], number) for key, number in votes.items()), key=lambda pair: (-pair[1], pair[0])
    )


def _key(value: Any) -> Any:
    """Return what makes two JSON values the same: 1 and 1.0 are, 1 and true are not."""
    if isinstance(value, dict):
        return ("object", frozenset((name, _key(item)) for name, item in value.items()))
    if isinstance(value, list):
        return ("list", tuple(map(_key, value)))
    if isinstance(value, bool):
        return ("boolean", value)
    return value


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")
