"""What was generated in this kernel, as `%llama history` lists it."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, overload

from llama_magic.model.results import Completion
from llama_magic.request.events import FinishReason
from llama_magic.words.counting import counted
from llama_magic.words.shown import Printed, Shown
from llama_magic.words.tables import Table, brief

HISTORY_LIMIT = 1000
_numbers = itertools.count(1)


@dataclass(frozen=True)
class HistoryEntry(Shown):
    """One generation of this kernel, as `%llama history` lists it."""

    completion: Completion
    number: int = field(default_factory=lambda: next(_numbers))

    @property
    def ended(self) -> FinishReason | None:
        """Why the answer ended; None for a single step that was asked for (`xray`), unless interrupted."""
        reason = self.completion.finish_reason
        return None if self.completion.mode == "xray" and reason != "interrupted" else reason

    @property
    def tokens_per_second(self) -> float | None:
        """The speed of the tokens after the first; None where there is none after it."""
        found = self.completion
        return found.timings.tokens_per_second if found.usage.completion_tokens > 1 else None


class History(Printed, Sequence[HistoryEntry]):
    """The last generations of this kernel, oldest first; a bounded list that also speaks pandas."""

    def __init__(self, limit: int = HISTORY_LIMIT) -> None:
        self._entries: deque[HistoryEntry] = deque(maxlen=limit)

    def hear(self, *made: Completion) -> None:
        """Append the answers of a call."""
        for completion in made:
            self.add(completion)

    def add(self, completion: Completion) -> HistoryEntry:
        """Append a generation, once; the oldest one falls out when the list is full."""
        for known in reversed(self._kept()):
            if known.completion is completion:
                return known
        entry = HistoryEntry(completion)
        self._entries.append(entry)
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
        return pandas.DataFrame(records).set_index("number") if records else pandas.DataFrame()

    def table(self) -> Table:
        """Return the short view: one line for each generation."""
        return table(self)

    def __repr__(self) -> str:
        return f"<History: {counted(len(self), 'generation')}>"


def table(entries: Sequence[HistoryEntry]) -> Table:
    """List generations: number, mode, model, prompt, answer, tokens, seed, seconds, speed."""
    headers = ("#", "mode", "model", "prompt", "answer", "tokens", "ended", "seed", "seconds", "tok/s")
    rows = []
    for entry in entries:
        r = entry.completion
        answer = (brief(r.question), brief(r.text), r.usage.completion_tokens, entry.ended or "", str(r.seed))
        speed = entry.tokens_per_second
        times = (round(r.timings.total_s, 2), None if speed is None else round(speed, 1))
        rows.append((entry.number, r.mode, r.model, *answer, *times))
    return Table(headers, tuple(rows), empty="No generation yet in this kernel.")


def _record(entry: HistoryEntry) -> dict[str, Any]:
    c = entry.completion
    return {
        "number": entry.number,
        "mode": c.mode,
        "model": c.model,
        "prompt": c.prompt,
        "text": c.text,
        "seed": c.seed,
        "seeded": c.seeded,
        "finish_reason": entry.ended,
        "max_tokens": c.budget.max_tokens,
        "prompt_tokens": c.usage.prompt_tokens,
        "cached_tokens": c.usage.cached_tokens,
        "completion_tokens": c.usage.completion_tokens,
        "load_s": c.timings.load_s,
        "prompt_s": c.timings.prompt_s,
        "first_token_s": c.timings.first_token_s,
        "total_s": c.timings.total_s,
        "tokens_per_second": entry.tokens_per_second,
        "time": c.time,
        "tag": c.tag,
        **c.sampling.to_dict(),
    }
