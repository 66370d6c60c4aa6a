"""What was generated in this kernel, as `%llama history` lists it."""

from __future__ import annotations

import itertools
import os
import re
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from llama_magic.errors import OptionError
from llama_magic.model.results import Budget, Completion, Timings, Usage
from llama_magic.record.saved import line
from llama_magic.request.events import FinishReason
from llama_magic.request.fixed import Fixed
from llama_magic.request.sampling import Sampling
from llama_magic.sources import user_path, write_whole
from llama_magic.words.counting import counted
from llama_magic.words.shown import Printed, Shown
from llama_magic.words.tables import Table, brief

if TYPE_CHECKING:
    from llama_magic.microscope.reading import ReadThrough

HISTORY_LIMIT = 1000


_LOOKS = ("xray", "surprise")


@dataclass(frozen=True)
class HistoryEntry(Shown):
    """One generation of this kernel, as `%llama history` lists it."""

    completion: Completion
    number: int
    kept_as: str | None = None  # the tag of the record that was kept then

    @property
    def tag(self) -> str | None:
        """The call's own tag, else that of the record into which it went."""
        return self.completion.tag or self.kept_as

    @property
    def ended(self) -> FinishReason | None:
        """Why the answer ended; None for what only looks (`xray`, `surprise`), unless interrupted."""
        reason = self.completion.finish_reason
        return None if self.completion.mode in _LOOKS and reason != "interrupted" else reason

    @property
    def tokens_per_second(self) -> float | None:
        """The speed of the tokens drawn after the first; None where there is none after it."""
        found = self.completion
        return found.timings.tokens_per_second if found.usage.drawn_tokens > 1 else None


class History(Printed, Sequence[HistoryEntry]):
    """The last generations of this kernel, oldest first; a bounded list that also speaks pandas."""

    def __init__(self, limit: int = HISTORY_LIMIT) -> None:
        self._entries: deque[HistoryEntry] = deque(maxlen=limit)
        self._by_id: dict[int, HistoryEntry] = {}  # of the completion, which the entry keeps alive
        self._numbers = itertools.count(1)
        self.left_out = 0  # generations that a selection did not want
        self.keeps_as: Callable[[], str | None] = lambda: None

    def hear(self, *made: Completion) -> None:
        """Append the answers of a call."""
        for completion in made:
            self.add(completion)

    def add(self, completion: Completion) -> HistoryEntry:
        """Append a generation, once; the oldest one falls out when the list is full."""
        known = self._by_id.get(id(completion))
        if known is not None:
            return known
        entry = HistoryEntry(completion, next(self._numbers), self.keeps_as())
        if self._entries and len(self._entries) == self._entries.maxlen:
            self._by_id.pop(id(self._entries[0].completion), None)
        self._entries.append(entry)
        self._by_id[id(completion)] = entry
        return entry

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[HistoryEntry]:
        return iter(self._kept())

    @overload
    def __getitem__(self, index: int) -> HistoryEntry: ...
    @overload
    def __getitem__(self, index: slice) -> list[HistoryEntry]: ...
    def __getitem__(self, index: int | slice) -> HistoryEntry | list[HistoryEntry]:
        return self._kept()[index]

    def _kept(self) -> list[HistoryEntry]:
        """Return the entries of this moment: other threads append while somebody reads."""
        return list(self._entries)  # in one step, unlike a loop

    def records(self) -> list[dict[str, Any]]:
        """Return one flat dict a generation: prompt, text, seed, counts, seconds, sampling parameters."""
        return [_record(entry) for entry in self]

    def to_pandas(self) -> Any:
        """Return the records as a `pandas.DataFrame`, indexed by number. ImportError without pandas."""
        import pandas

        records = self.records()
        return pandas.DataFrame(records, columns=_COLUMNS).set_index("number")

    def numbered(self, number: int) -> HistoryEntry:
        """Return the generation of this number."""
        for entry in self:
            if entry.number == number:
                return entry
        kept = self._kept()
        known = f"It holds {kept[0].number} to {kept[-1].number}." if kept else "It is empty."
        raise OptionError(f"There is no generation {number} in the history. {known}")

    def select(self, last: int | None = None, *, grep: str | None = None, tag: str | None = None) -> History:
        """Return those of a tag, whose prompt or answer matches an expression, and of these the last so many.

        They keep their numbers. Raises `OptionError` for what is no expression.
        """
        try:
            wanted = None if grep is None else re.compile(grep)
        except re.error as error:
            raise OptionError(f"{grep!r} is no regular expression: {error}.") from None
        found = [entry for entry in self if tag is None or entry.tag == tag]
        if wanted is not None:
            found = [e for e in found if any(map(wanted.search, (e.completion.prompt, e.completion.text)))]
        some = History()
        some.left_out = len(self) - len(found)
        some._entries.extend(found if last is None else found[-last:])
        some._by_id = {id(entry.completion): entry for entry in some}
        return some

    def save(self, path: str | os.PathLike[str]) -> Path:
        """Write the receipts, one JSON object a line, with number, time, tag and timings beside them."""
        target = user_path(path)
        lines = (line(entry.completion, number=entry.number, tag=entry.tag) for entry in self)
        write_whole(target, lines, "The history")
        return target

    def table(self) -> Table:
        """Return the short view: one line for each generation."""
        return table(self, left_out=self.left_out)

    def __repr__(self) -> str:
        return f"<History: {counted(len(self), 'generation')}>"


def table(entries: Sequence[HistoryEntry], *, left_out: int = 0) -> Table:
    """List generations: number, mode, model, prompt, answer, tokens, seed, seconds, speed."""
    headers = ("#", "mode", "model", "prompt", "answer", "tokens", "ended", "seed", "seconds", "tok/s")
    rows = []
    for entry in entries:
        r = entry.completion
        drawn = r.mode != "surprise" and (r.seeded or not r.sampling.greedy)
        seed = str(r.seed) if drawn else ""  # at temperature 0 it decides nothing
        answer = (brief(r.question), brief(r.text), r.usage.completion_tokens, entry.ended or "", seed)
        speed = entry.tokens_per_second
        times = (round(r.timings.total_s, 2), None if speed is None else round(speed, 1))
        rows.append((entry.number, r.mode, r.model, *answer, *times))
    none = (
        f"None of {counted(left_out, 'generation')} is so."
        if left_out
        else "No generation yet in this kernel."
    )
    return Table(headers, tuple(rows), empty=none)


def of_reading(read: ReadThrough, model: Any, seconds: float) -> Completion:
    """Return a text that was read through as the history lists it: nothing was written."""
    count = len(read.tokens)
    found = f"perplexity {read.perplexity:,.4g}" if read.known else ""
    return Completion(
        text=found,
        prompt=read.text,
        prompt_token_ids=Fixed(token.id for token in read.tokens),
        token_ids=Fixed(),
        finish_reason="interrupted" if read.interrupted else "stop",
        usage=Usage(count, 0, 0),
        timings=Timings(0.0, seconds, 0.0, seconds, 0.0),
        seed=0,
        sampling=model.sampling,
        model=read.model,
        budget=Budget(model.window, count, 0),
        mode="surprise",
        time=datetime.now(UTC).isoformat(timespec="milliseconds"),
    )


_Column = Callable[[HistoryEntry], Any]
_FACTS: dict[str, _Column] = {
    "number": lambda e: e.number,
    "mode": lambda e: e.completion.mode,
    "model": lambda e: e.completion.model,
    "prompt": lambda e: e.completion.prompt,
    "text": lambda e: e.completion.text,
    "seed": lambda e: e.completion.seed,
    "seeded": lambda e: e.completion.seeded,
    "finish_reason": lambda e: e.ended,
    "max_tokens": lambda e: e.completion.budget.max_tokens,
    "prompt_tokens": lambda e: e.completion.usage.prompt_tokens,
    "cached_tokens": lambda e: e.completion.usage.cached_tokens,
    "completion_tokens": lambda e: e.completion.usage.completion_tokens,
    "load_s": lambda e: e.completion.timings.load_s,
    "prompt_s": lambda e: e.completion.timings.prompt_s,
    "first_token_s": lambda e: e.completion.timings.first_token_s,
    "total_s": lambda e: e.completion.timings.total_s,
    "tokens_per_second": lambda e: e.tokens_per_second,
    "time": lambda e: e.completion.time,
    "tag": lambda e: e.tag,
}
_COLUMNS = [*_FACTS, *Sampling().to_dict()]


def _record(entry: HistoryEntry) -> dict[str, Any]:
    facts = {name: fact(entry) for name, fact in _FACTS.items()}
    return facts | entry.completion.sampling.to_dict()
