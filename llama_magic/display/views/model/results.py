"""How an answer, several answers to one prompt, and a budget look."""

from __future__ import annotations

import json
from collections.abc import Sequence

from llama_magic.display.static.doc import Answer, Code, Fold, Grid, Head, Line, Node
from llama_magic.display.views import gauge, turns
from llama_magic.display.views.data import leaves, plain
from llama_magic.display.views.experiments import ballot
from llama_magic.display.views.model import sureness
from llama_magic.display.views.view import together, view
from llama_magic.model.results import Budget, Completion
from llama_magic.words.counting import counted
from llama_magic.words.harmless import one_line
from llama_magic.words.tables import Share, Table, percent

_TAIL = 200  # characters of a prompt that stand before its continuation
_WORD = 24  # of which so many may be left out
ENDINGS = {
    "stop": "ended by itself",
    "length": "cut at max_tokens",
    "interrupted": "stopped before its end",
    "timeout": "stopped when the time was up",
}


_GROUP = 5  # samples; those beyond are folded


@view.register(Completion)
def completion(r: Completion) -> list[Node]:
    """Show an answer: head, thinking folded, text or table, gauge, how it ended. No times: they differ."""
    out: list[Node] = [Head(r.mode, f"{r.model} · {seed_words(r)}")]
    out += _thinking(r)
    if before := after(r.mode, r.prompt):
        out.append(Line(before, dim=True))
    out.extend(_body(r))
    out.extend(sureness.nodes(r))
    written, budget = r.usage.completion_tokens, gauge.ended(r.budget, r.usage.completion_tokens)
    out.append(gauge.bar(budget, written))
    drafts = r.usage.accepted_tokens, r.usage.drafted_tokens
    filled = gauge.words(budget, written, forced=r.usage.forced_tokens, drafts=drafts)
    out.append(Line(f"{filled} · {ending(r)}", dim=True))
    if r.thinking_choice:
        out.append(Line(r.thinking_choice, dim=True))
    if r.begun:
        out.append(Line(f"its first {counted(r.begun, 'token')} given, the others drawn", dim=True))
    out.extend(Line(note, dim=True) for note in notes(r))
    return out


def _thinking(r: Completion) -> list[Node]:
    return [Fold("thinking", (Answer(r.thinking, markdown=True),))] if r.thinking else []


def after(mode: str, prompt: str) -> str:
    """Say which text is gone on from, of a long one its end; nothing where a prompt was answered."""
    if mode != "complete":
        return ""
    line = one_line(prompt)
    if len(line) > _TAIL:
        end = line[-_TAIL:]
        line = f"…{end[max(0, end.find(' ', 0, _WORD)) :]}"  # from a word on, if one begins soon
    return f"after “{line}”"


def is_markdown(mode: str) -> bool:
    """Return whether answers of a mode are read as Markdown: chat is; a continued text is what it is."""
    return mode == "chat"


def notes(r: Completion) -> list[str]:
    """Return where the answer is from, and what was dropped or cut; thinking is spoken of elsewhere."""
    known = [f"answered from the record {r.replayed}"] if r.replayed else []
    return known + [note for note in r.notes if note != r.thinking_choice]


def seed_words(r: Completion) -> str:
    """Say the seed, and whether it was given or drawn; a drawn one has nothing to say at temperature 0."""
    if r.seeded:
        return f"seed {r.seed}"
    return f"temperature {r.sampling.temperature:g}" if r.sampling.greedy else f"seed {r.seed} (drawn)"


def ending(r: Completion) -> str:
    """Say why the answer ended."""
    words = ENDINGS[r.finish_reason]
    if r.finish_reason == "stop" and r.stop is not None and r.stop in r.stops:
        return f"ended at the stop text {json.dumps(r.stop, ensure_ascii=False)}"
    if r.finish_reason != "length":
        return words
    if r.usage.prompt_tokens + r.usage.completion_tokens >= r.budget.window:
        return "the window is full"
    return f"{words} {r.budget.max_tokens:,}"


def _body(r: Completion) -> list[Node]:
    if _is_instance(r):
        return [Grid(_form(r)), Fold("JSON", (Code(r.text),))]
    text = Answer(r.text, markdown=is_markdown(r.mode))
    return [*turns.steps(r.steps), text, *map(Code, turns.calls(r.tool_calls))]


def held(r: Completion) -> list[Node]:
    """Show per field how hard the mask held the model, where the call measured it."""
    return [Grid(_form(r))] if r.fields else []


def _form(r: Completion) -> Table:
    """Lay a structured answer out by field; with what the call measured, how hard each was held."""
    rows = leaves(plain(r.parsed))
    reports = list(r.fields.values())
    if len(reports) != len(rows):
        return Table(("field", "value"), tuple(rows))
    held = tuple(
        (path, value, (Share("", report.pressure),), percent(report.confidence))
        for (path, value), report in zip(rows, reports, strict=True)
    )
    return Table(("field", "value", "mass outside", "confidence"), held)


@together.register(Completion)
def samples(first: Completion, answers: Sequence[Completion]) -> list[Node]:
    """Show several answers to one prompt: instances side by side, texts not; those above five folded."""
    said = f"{first.model} · {counted(len(answers), 'sample')} · {seed_words(first)}"
    out: list[Node] = [Head(first.mode, said)]
    if before := after(first.mode, first.prompt):
        out.append(Line(before, dim=True))
    numbered = list(enumerate(answers, 1))
    side_by_side = len(answers) > 1 and all(_is_instance(answer) and not answer.fields for answer in answers)
    for group in _groups(numbered):
        shown = _columns(group) if side_by_side else [node for pair in group for node in _sample(*pair)]
        out += shown if group[0][0] == 1 else [Fold(_span(group), tuple(shown))]
    if (first.mode == "structured" or _is_choice(first)) and len(answers) > 1:
        out.extend(ballot.of_samples(answers))
    longest = max(answers, key=lambda a: a.usage.completion_tokens).usage  # each has the window to itself
    budget = gauge.ended(first.budget, longest.completion_tokens)
    out.append(gauge.bar(budget, longest.completion_tokens))
    filled = gauge.words(budget, longest.completion_tokens, forced=longest.forced_tokens)
    out.append(Line(f"longest sample: {filled}" if len(answers) > 1 else filled, dim=True))
    out.extend(Line(note, dim=True) for note in notes(first))  # of the one prompt that they share
    return out


def _groups(numbered: list[tuple[int, Completion]]) -> list[list[tuple[int, Completion]]]:
    return [numbered[at : at + _GROUP] for at in range(0, len(numbered), _GROUP)]


def _span(group: Sequence[tuple[int, Completion]]) -> str:
    (first, _), (last, _) = group[0], group[-1]
    return f"sample {first}" if first == last else f"samples {first} to {last}"


def _sample(number: int, answer: Completion) -> list[Node]:
    """Show one of several answers below its heading, with what it filled of the window and how it ended."""
    written, budget = answer.usage.completion_tokens, answer.budget
    filled = f"{budget.prompt_tokens + written:,} of {budget.window:,} tokens"
    return [
        Head(f"sample {number}", f"{counted(written, 'token')}, {filled} · {ending(answer)}"),
        *_thinking(answer),
        *_body(answer),
        *sureness.nodes(answer),
    ]


def _columns(group: Sequence[tuple[int, Completion]]) -> list[Node]:
    """Show instances side by side, a row a field; then what each filled of the window, and its JSON."""
    values = [dict(leaves(plain(answer.parsed))) for _, answer in group]
    paths = dict.fromkeys(path for fields in values for path in fields)
    rows = tuple((path, *(fields.get(path) for fields in values)) for path in paths)
    names = [f"sample {number}" for number, _ in group]
    ends = tuple(
        (name, a.usage.completion_tokens, a.budget.prompt_tokens + a.usage.completion_tokens, ending(a))
        for name, (_, a) in zip(names, group, strict=True)
    )
    window = f"of {group[0][1].budget.window:,}"
    return [
        Grid(Table(("field", *names), rows)),
        Grid(Table(("", "tokens", window, "how it ended"), ends)),
        Fold("JSON", (Code("\n".join(answer.text for _, answer in group)),)),
    ]


def _is_instance(r: Completion) -> bool:
    return r.mode == "structured" and (r.parsed is not None or r.text.strip() == "null")


def _is_choice(r: Completion) -> bool:
    return bool(r.made_with.get("asked", {}).get("constraint", {}).get("kind") == "choices")


@view.register(Budget)
def budget(b: Budget) -> list[Node]:
    """Show how a window is filled."""
    return [gauge.bar(b, b.generated_tokens, legend=True), Line(gauge.words(b, b.generated_tokens), dim=True)]
