"""How a token's road through the sampler chain looks: candidates are columns, stages are rows."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from llama_magic.display.static.doc import Fold, Grid, Head, Line, Node
from llama_magic.display.views.view import view
from llama_magic.microscope.tracing import SamplerTrace, TraceStage
from llama_magic.request.sampling import default_sampling
from llama_magic.request.stages import STAGES
from llama_magic.words.counting import nth_token
from llama_magic.words.harmless import blanks_shown, one_line
from llama_magic.words.tables import Share, Table, cell_text, percent

_COLUMNS = (5, 4, 3)  # candidates beside each other: as many as fit a window of 1,000 pixels
_ROOM = 41.5  # ems of a table there, with the file browser open
_LETTER, _DIGIT, _BAR = 0.53, 0.62, 4.0  # ems of each; a bar's of all
_NAMES = {"dist": "draw", "greedy": "take the likeliest"}  # what llama.cpp calls the plain draws
_FIRST = {"logits": "what the model gives: a probability for every token of its vocabulary"}
_Candidate = tuple[int | None, str]  # id, text


@view.register(SamplerTrace)
def sampler_trace(trace: SamplerTrace, warnings: Sequence[str] = ()) -> list[Node]:
    """Show what each sampler left of the likeliest candidates, the drawn one among them.

    Those of its notes that are `warnings` stand out.
    """
    tables = (_table(trace, most) for most in _COLUMNS)
    table = Grid(next((one for one in tables if _ems(one) <= _ROOM), _table(trace, _COLUMNS[-1])))
    notes = [Line(note, tone="warn") if note in warnings else Line(note, dim=True) for note in trace.notes]
    key = "Each row is what a stage left, made to sum to 100%; – was cut, · is a blank; bits are the entropy"
    key += ": how open the choice still is."
    return [Head("x-ray", _words(trace)), table, Line(_drawn(trace), dim=True), Line(key, dim=True), *notes,
            Fold("what the stages do", tuple(map(Line, _helps(trace))))]  # fmt: skip


def _table(trace: SamplerTrace, most: int) -> Table:
    columns = _columns(trace, most)
    drawn = _place(trace, columns)
    names = [f"◉ {text}" if i == drawn else text for i, (_, text) in enumerate(_shown(columns))]
    return Table(("stage", "left", "bits", *names), tuple(_row(one, columns, drawn) for one in trace.stages))


def _ems(table: Table) -> float:
    """Return about how wide a table is where no stage's name and no candidate is broken."""
    wide = [max(_LETTER * len(word) for row in table.rows for word in _unbroken(row[0]))]
    wide += [max(_DIGIT * len(cell_text(row[i])) for row in table.rows) for i in (1, 2)]
    for i, name in enumerate(table.headers[3:], 3):
        shares = [row[i][0].share for row in table.rows if row[i] is not None]
        bars = (_BAR * share + _DIGIT * (len(percent(share)) + 0.5) for share in shares)
        wide.append(max(_LETTER * len(name), *bars))
    return sum(wide) + 3 * 1.06 + 0.6 * len(wide[3:])  # what parts the columns


def _unbroken(name: str) -> list[str]:
    return [name] if len(name) <= 24 else name.split(" ")  # as display/static/columns.py has it


def _words(trace: SamplerTrace) -> str:
    text = trace.drawn.text
    if trace.exact or text == trace.answer:
        words = [f"drawn: {_quoted(text)}"]
    else:
        words = [f"would draw: {_quoted(text)}"]
        words += [f"the answer has: {_quoted(trace.answer)}"] if trace.answer is not None else []
    token = nth_token(trace.step) if trace.steps > 1 else f"token {trace.step + 1:,}"
    words.append(f"{token} after “{one_line(trace.context)}”" if trace.context else token)
    return ", ".join(words)  # a dot is a blank of a token


def _quoted(text: str) -> str:
    """Return a token in quotes: its blanks look like the dot between two facts."""
    return f"“{blanks_shown(text)}”"


def _drawn(trace: SamplerTrace) -> str:
    """Say where the drawn token stood in the model's own distribution."""
    name = f"◉ {blanks_shown(trace.drawn.text)}: drawn"
    share = _share(trace.stages[0], (trace.drawn.id, trace.drawn.text))
    if share is None:
        return name
    rank = 1 + int(np.count_nonzero(np.asarray(trace.stages[0].probabilities) > share))
    return f"{name}; for the model itself, before any stage, it is rank {rank:,}, at {percent(share)}"


def _columns(trace: SamplerTrace, most: int) -> list[_Candidate]:
    """Return the candidates to show, likeliest first: the drawn one, the last stages', the first one's.

    In turn: else the first row would not show the token that a penalty took the most from.
    """
    first, last = trace.stages[0], trace.stages[-2:][0]
    wanted: dict[_Candidate, None] = dict.fromkeys([(trace.drawn.id, trace.drawn.text)])
    both = itertools.zip_longest(_leaders(last), _leaders(first))
    for candidate in filter(None, itertools.chain.from_iterable(both)):
        if len(wanted) < most and all(candidate[1] != text for _, text in wanted):
            wanted[candidate] = None
    return sorted(wanted, key=lambda candidate: -(_share(first, candidate) or 0.0))


def _leaders(stage: TraceStage) -> Iterable[_Candidate]:
    if not len(stage.ids):
        return [(None, text) for text, _ in stage.leaders]
    best = np.argsort(-stage.probabilities, kind="stable")[: len(stage.leaders)]
    return [(int(stage.ids[i]), text) for i, (text, _) in zip(best, stage.leaders, strict=True)]


def _share(stage: TraceStage, candidate: _Candidate) -> float | None:
    """Return a candidate's probability after a stage, None where it was cut."""
    token, text = candidate
    if not len(stage.ids) or token is None:
        return dict(stage.leaders).get(text)
    if token < len(stage.ids) and stage.ids[token] == token:  # all tokens, in their order
        return float(stage.probabilities[token])
    found = np.flatnonzero(stage.ids == token)
    return float(stage.probabilities[found[0]]) if len(found) else None


def _place(trace: SamplerTrace, columns: Sequence[_Candidate]) -> int:
    return next(i for i, (_, text) in enumerate(columns) if text == trace.drawn.text)


def _shown(columns: Sequence[_Candidate]) -> list[_Candidate]:
    return [(token, blanks_shown(text) or "∅") for token, text in columns]


def _row(stage: TraceStage, columns: Sequence[_Candidate], drawn: int) -> tuple[Any, ...]:
    if stage.name in _NAMES:  # the draw leaves one
        alone = ((Share("", 1.0),) if i == drawn else None for i in range(len(columns)))
        return (_stage(stage), 1, "0.00", *alone)
    shares = (_share(stage, candidate) for candidate in columns)
    cells = (None if share is None else (Share("", share),) for share in shares)
    return (_stage(stage), stage.survivors, f"{stage.entropy_bits:.2f}", *cells)


def _stage(stage: TraceStage) -> str:
    parameters = _parameters(stage)
    name = _NAMES.get(stage.name, stage.name)
    return f"{name} {parameters}" if parameters else name


def chained(trace: SamplerTrace) -> dict[str, str]:
    """Return the parameters of each stage that ran, by its name in a view, in order."""
    return {_NAMES.get(stage.name, stage.name): _parameters(stage) for stage in trace.stages}


def _parameters(stage: TraceStage) -> str:
    """Say the first parameter of a stage, and of the others what is not the default."""
    usual = default_sampling().to_dict()
    said = [
        _parameter(stage.name, name, value)
        for number, (name, value) in enumerate(stage.parameters.items())
        if not number or value != usual.get(name)
    ]
    return ", ".join(said)


def _parameter(stage: str, name: str, value: Any) -> str:
    """Say `40` for the stage's own number, `base 1.75` for others."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if name == stage else f"{name.removeprefix(f'{stage}_')}\u00a0{text}"


def _helps(trace: SamplerTrace) -> list[str]:
    helps = []
    for stage in trace.stages:
        said = _FIRST.get(stage.name) or (
            STAGES[stage.name].help if stage.name in STAGES else "takes one token"
        )
        helps.append(f"{_NAMES.get(stage.name, stage.name)}: {said}")
    return list(dict.fromkeys(helps))
