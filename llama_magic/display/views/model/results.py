"""How an answer, several answers to one prompt, and a budget look."""

from __future__ import annotations

import json
from collections.abc import Sequence

from llama_magic.display.static.doc import Answer, Code, Fold, Grid, Head, Line, Node
from llama_magic.display.views import gauge, turns
from llama_magic.display.views.data import leaves, plain
from llama_magic.display.views.experiments import vote as views_vote
from llama_magic.display.views.model import sureness
from llama_magic.display.views.view import together, view
from llama_magic.model.results import Budget, Completion
from llama_magic.words.counting import counted
from llama_magic.words.harmless import one_line
from llama_magic.words.tables import Share, Table

_TAIL = 200  # characters of a prompt that stand before its continuation
ENDINGS = {
    "stop": "ended by itself",
    "length": "cut at max_tokens",
    "interrupted": "stopped before its end",
    "timeout": "stopped when the time was up",
}


@view.register(Completion)
def completion(r: Completion) -> list[Node]:
    """Show an answer: head, thinking folded, text or table, gauge, how it ended. No times: they differ."""
    out: list[Node] = [Head(r.mode, f"{r.model} · {seed_words(r)}")]
    if r.thinking:
        out.append(Fold("thinking", (Answer(r.thinking, markdown=True),)))
    if r.mode == "complete":
        out.append(Line(f"after “{_tail(r.prompt)}”", dim=True))
    out.extend(_body(r))
    out.extend(sureness.nodes(r))
    out.append(gauge.bar(r.budget, r.usage.completion_tokens))
    usage = r.usage
    filled = gauge.words(r.budget, usage.completion_tokens, forced=usage.forced_tokens)
    out.append(Line(f"{filled} · {ending(r)}", dim=True))
    if r.thinking_choice:
        out.append(Line(r.thinking_choice, dim=True))
    if r.begun:
        out.append(Line(f"its first {counted(r.begun, 'token')} given, the others drawn", dim=True))
    out.extend(Line(note, dim=True) for note in notes(r))
    return out


def _tail(prompt: str) -> str:
    """Return the end of a prompt that was gone on from."""
    line = one_line(prompt)
    return line if len(line) <= _TAIL else f"…{line[-_TAIL:]}"


def is_markdown(mode: str) -> bool:
    """Return whether answers of a mode are read as Markdown: chat is; a continued text is what it is."""
    return mode == "chat"


def notes(r: Completion) -> list[str]:
    """Return where the answer is from, and what was dropped or cut; thinking is spoken of elsewhere."""
    known = [f"answered from the record {r.replayed}"] if r.replayed else []
    return known + [note for note in r.notes if note != r.thinking_choice]


def seed_words(r: Completion) -> str:
    """Say the seed, and whether it was given or drawn."""
    return f"seed {r.seed}" if r.seeded else f"seed {r.seed} (drawn)"


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
    if r.mode == "structured" and (r.parsed is not None or r.text.strip() == "null"):
        return [Grid(_form(r)), Fold("JSON", (Code(r.text),))]
    text = Answer(r.text, markdown=is_markdown(r.mode))
    return [*turns.steps(r.steps), text, *map(Code, turns.calls(r.tool_calls))]


def _form(r: Completion) -> Table:
    """Lay a structured answer out by field; with what the call measured, how hard each was held."""
    rows = leaves(plain(r.parsed))
    reports = list(r.fields.values())
    if len(reports) != len(rows):
        return Table(("field", "value"), tuple(rows))
    held = tuple(
        (path, value, (Share("", report.pressure),), f"{report.confidence:.0%}")
        for (path, value), report in zip(rows, reports, strict=True)
    )
    return Table(("field", "value", "mass outside", "confidence"), held)


@together.register(Completion)
def samples(first: Completion, answers: Sequence[Completion]) -> list[Node]:
    """Show several answers to one prompt, numbered."""
    out: list[Node] = [
        Head(first.mode, f"{first.model} · {counted(len(answers), 'sample')} · {seed_words(first)}")
    ]
    for number, answer in enumerate(answers, 1):
        out.append(
            Head(f"sample {number}", f"{counted(answer.usage.completion_tokens, 'token')} · {ending(answer)}")
        )
        out.extend(_body(answer))
    if (first.mode == "structured" or _is_choice(first)) and len(answers) > 1:
        out.extend(views_vote.of_samples(answers))
    longest = max(answers, key=lambda a: a.usage.completion_tokens).usage  # each has the window to itself
    out.append(gauge.bar(first.budget, longest.completion_tokens))
    filled = gauge.words(first.budget, longest.completion_tokens, forced=longest.forced_tokens)
    out.append(Line(f"longest sample: {filled}" if len(answers) > 1 else filled, dim=True))
    out.extend(Line(note, dim=True) for note in notes(first))  # of the one prompt that they share
    return out


def _is_choice(r: Completion) -> bool:
    return bool(r.made_with.get("asked", {}).get("constraint", {}).get("kind") == "choices")


@view.register(Budget)
def budget(b: Budget) -> list[Node]:
    """Show how a window is filled."""
    return [gauge.bar(b, b.generated_tokens, legend=True), Line(gauge.words(b, b.generated_tokens), dim=True)]
