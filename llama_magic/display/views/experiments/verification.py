"""How a verification looks: the badge, and what came out otherwise."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from llama_magic.display.static.doc import Grid, Head, Line, Node
from llama_magic.display.views.view import view
from llama_magic.experiments.verification import Verdict, Verification
from llama_magic.words.amounts import duration
from llama_magic.words.counting import counted
from llama_magic.words.harmless import blanks_shown
from llama_magic.words.tables import Table


@view.register(Verification)
def verification(found: Verification) -> list[Node]:
    """Show one line, and a row for each answer that is another here."""
    out: list[Node] = [Head("verify", found.badge, tone="" if found else "warn")]
    # Of many answers that could not be written again for one reason, it is said once.
    errors = Counter(verdict.error for verdict in found.verdicts if verdict.error)
    told: dict[Any, Verdict] = {}
    for verdict in found.verdicts:
        if not verdict.equal:
            told.setdefault(verdict.error or id(verdict), verdict)
    rows = tuple(_row(verdict, errors[verdict.error]) for verdict in told.values())
    if rows:
        headers = ("answer", "differs from token", "was", "is here", "what else differs")
        out.append(Grid(Table(headers, rows)))
    files = Counter(then for verdict in found.verdicts for what, then, _ in verdict.reasons if what == "file")
    for file, count in files.items():
        what = f"{counted(count, 'answer')} {'is' if count == 1 else 'are'} of {file}"
        out.append(Line(f"{what}, which was not found here: load it, and verify again."))
    if found.unseeded:
        what = counted(found.unseeded, "answer")
        verb = "was" if found.unseeded == 1 else "were"
        out.append(Line(f"{what} without a seed {verb} not compared", dim=True))
    if found.beside:
        out.append(Line(found.beside, dim=True))
    if found.total and found.seconds:
        out.append(Line(f"it took {duration(found.seconds)}", dim=True))
    return out


def _row(verdict: Verdict, alike: int) -> tuple[Any, ...]:
    if verdict.error:
        where = f"{verdict.where} and {alike - 1:,} more" if alike > 1 else verdict.where
        return (where, None, "", "", verdict.error)
    was, now = (
        f"“{blanks_shown(text)}”" if text else "(the end)" for text in (verdict.expected, verdict.found)
    )
    place = None if verdict.step is None else verdict.step + 1
    if place is None:
        was = now = ""
    return (verdict.where, place, was, now, reasons(verdict))


def reasons(verdict: Verdict) -> str:
    """Say what of prompt, file, build, threads, KV type and the rest is another here."""
    if not verdict.reasons:
        return "nothing that the receipt knows of"
    return "; ".join(f"{what}: {_words(then)}, here {_words(now)}" for what, then, now in verdict.reasons)


def _words(value: Any) -> str:
    if isinstance(value, Mapping):
        return " ".join(str(item) for item in value.values() if item is not None) or "–"
    text = "–" if value is None else str(value)
    return text if len(text) <= 80 else f"{text[:40]} … {text[-39:]}"
