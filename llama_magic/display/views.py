"""What each thing says: one function an object, which turns it into nodes.

Objects are known by their class's name, so that this package imports none of the rooms
that make them. An object without a view of its own is shown field by field.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llama_magic.display import gauge, views_choice, views_model, views_teach, views_vote
from llama_magic.display.doc import Answer, Code, Fold, Grid, Head, Line, Node
from llama_magic.display.table import Share, Table
from llama_magic.plural import counted
from llama_magic.results import Budget, Completion, HistoryEntry

ENDINGS = {
    "stop": "ended by itself",
    "length": "cut at max_tokens",
    "interrupted": "stopped before its end",
}


def nodes(obj: Any) -> tuple[Node, ...]:
    """Return the nodes that show `obj`."""
    for kind in type(obj).__mro__:
        if kind.__name__ in _VIEWS:
            return tuple(_VIEWS[kind.__name__](obj))
    if isinstance(obj, (list, tuple)) and obj and all(isinstance(item, Completion) for item in obj):
        return tuple(samples(obj))
    if isinstance(obj, (list, tuple)) and all(isinstance(item, HistoryEntry) for item in obj):
        return (Grid(history_table(obj)),)
    return tuple(fields(obj))


def completion(r: Completion) -> list[Node]:
    """Show an answer: head, thinking folded, text or table, gauge, how it ended. No times: they differ."""
    out: list[Node] = [Head(r.mode, f"{r.model} · {seed_words(r)}")]
    if r.thinking:
        out.append(Fold("thinking", (Answer(r.thinking, markdown=True),)))
    out.extend(_body(r))
    out.append(gauge.bar(r.budget, r.usage.completion_tokens))
    usage = r.usage
    filled = gauge.words(r.budget, usage.completion_tokens, forced=usage.forced_tokens)
    out.append(Line(f"{filled} · {ending(r)}", dim=True))
    if "thinking" in r.extra:
        out.append(Line(str(r.extra["thinking"]), dim=True))
    out.extend(Line(note, dim=True) for note in notes(r))
    return out


def notes(r: Completion) -> list[str]:
    """Return what was dropped, cut or repaired; what was chosen of thinking is said elsewhere."""
    return [note for note in r.notes if note != r.extra.get("thinking")]


def seed_words(r: Completion) -> str:
    """Say the seed, and whether it was given or drawn."""
    return f"seed {r.seed}" if r.seeded else f"seed {r.seed} (drawn)"


def ending(r: Completion) -> str:
    """Say why the answer ended."""
    words = ENDINGS[r.finish_reason]
    if r.finish_reason != "length":
        return words
    if r.usage.prompt_tokens + r.usage.completion_tokens >= r.budget.window:
        return "the window is full"
    return f"{words} {r.budget.max_tokens:,}"


def _body(r: Completion) -> list[Node]:
    if r.mode == "structured" and (r.parsed is not None or r.text.strip() == "null"):
        return [Grid(_form(r)), Fold("JSON", (Code(r.text),))]
    out: list[Node] = [Answer(r.text, markdown=r.mode == "chat")]
    out.extend(Code(f"{call.get('name', 'tool')}({call.get('arguments', '')})") for call in r.tool_calls)
    return out


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


def samples(answers: Sequence[Completion]) -> list[Node]:
    """Show several answers to one prompt, numbered."""
    first = answers[0]
    out: list[Node] = [
        Head(first.mode, f"{first.model} · {counted(len(answers), 'sample')} · {seed_words(first)}")
    ]
    for number, answer in enumerate(answers, 1):
        out.append(
            Head(f"sample {number}", f"{counted(answer.usage.completion_tokens, 'token')} · {ending(answer)}")
        )
        out.extend(_body(answer))
    if first.mode == "structured" and len(answers) > 1:
        out.extend(views_vote.of_samples(answers))
    out.append(gauge.bar(first.budget))
    written, forced = (
        sum(getattr(a.usage, name) for a in answers) for name in ("completion_tokens", "forced_tokens")
    )
    out.append(Line(gauge.words(first.budget, written, forced=forced), dim=True))
    out.extend(Line(note, dim=True) for note in notes(first))  # of the one prompt that they share
    return out


def budget(b: Budget) -> list[Node]:
    """Show how a window is filled."""
    return [gauge.bar(b, b.generated_tokens, legend=True), Line(gauge.words(b, b.generated_tokens), dim=True)]


def error(e: BaseException) -> list[Node]:
    """Show an error: its kind, its message, its remedy; an overflow with the gauge that shows it."""
    message, remedy = getattr(e, "message", str(e)), getattr(e, "remedy", None)
    out: list[Node] = [Head(type(e).__name__, tone="bad")]
    if hasattr(e, "prompt_tokens"):
        out.append(gauge.bar(_overflow(e), legend=True))
    out.append(Line(message))
    if remedy:
        out.append(Line(remedy))
    if getattr(e, "text", ""):
        out.append(Fold("the answer so far", (Code(str(e.text)),)))  # type: ignore[attr-defined]
    return out


def _overflow(e: Any) -> Budget:
    from llama_magic.results import BudgetPart

    names = ("template", "system", "user", "assistant", "tool")
    parts = tuple(
        BudgetPart(
            label,
            next((n for n in names if label.startswith(n)), "variable" if "{{" in label else "prompt"),
            n,
        )
        for label, n in e.parts
    )
    return Budget(e.window, e.prompt_tokens, e.max_tokens, parts)


def chat(c: Any) -> list[Node]:
    """Show a conversation, turn by turn."""
    out: list[Node] = [Head("chat", str(getattr(c, "name", "") or ""))]
    for message in c.messages:
        role, content = _turn(message)
        out.extend((Head(role), Answer(content, markdown=role != "user")))
    turns = getattr(c, "turns", None) or ()
    if turns and getattr(turns[-1], "interrupted", False):
        out.append(Line("The last answer was stopped before its end.", dim=True))
    for number, branch in enumerate(getattr(c, "branches", None) or (), 1):
        out.append(
            Line(
                f"branch {number}: {counted(len(branch.turns) - branch.at, 'turn')} kept, {branch.reason}",
                dim=True,
            )
        )
    if len(out) == 1:
        out.append(Line("No turns yet.", dim=True))
    return out


def _turn(message: Any) -> tuple[str, str]:
    if isinstance(message, Mapping):
        return str(message.get("role", "")), str(message.get("content") or "")
    return str(message.role), str(message.content or "")


def history_table(entries: Sequence[HistoryEntry]) -> Table:
    """List generations: number, mode, model, prompt, answer, tokens, seed, seconds, speed."""
    headers = ("#", "mode", "model", "prompt", "answer", "tokens", "ended", "seed", "seconds", "tok/s")
    rows = []
    for entry in entries:
        r = entry.completion
        prompt = str(r.messages[-2].get("content", "")) if len(r.messages) > 1 else r.prompt
        answer = (_brief(prompt), _brief(r.text), r.usage.completion_tokens, entry.ended or "", str(r.seed))
        speed = entry.tokens_per_second
        times = (round(r.timings.total_s, 2), None if speed is None else round(speed, 1))
        rows.append((entry.number, r.mode, r.model, *answer, *times))
    return Table(headers, tuple(rows), empty="No generation yet in this kernel.")


def _brief(text: str) -> str:
    """Return the first words of a text: a list is for finding, `to_pandas()` has all of it."""
    return text if len(text) <= _BRIEF else f"{text[: _BRIEF - 1]}…"


def fields(obj: Any) -> list[Node]:
    """Show an object without a view of its own: a mapping or a dataclass, field by field."""
    data = plain(obj)
    if not isinstance(data, Mapping):
        return [Code(str(obj))]
    rows = tuple((str(key), _short(value)) for key, value in data.items())
    return [Head(type(obj).__name__), Grid(Table(("field", "value"), rows))]


def _short(value: Any) -> Any:
    text = value if isinstance(value, (int, float, str, type(None))) else str(value)
    return text[:400] + "…" if isinstance(text, str) and len(text) > 400 else text


def plain(value: Any) -> Any:
    """Return a value as dicts and lists, for models of pydantic, dataclasses and plain data alike."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def leaves(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """Flatten JSON data into (path, value) rows: `address.street`, `tags[0]`."""
    if isinstance(value, Mapping) and value:
        return [
            row for key, item in value.items() for row in leaves(item, f"{path}.{key}" if path else str(key))
        ]
    if isinstance(value, list) and value:
        return [row for index, item in enumerate(value) for row in leaves(item, f"{path}[{index}]")]
    shown = {True: "true", False: "false"}.get(value, value) if isinstance(value, bool) else value
    shown = "[]" if shown == [] else "{}" if shown == {} else "null" if shown is None else shown
    return [(path or "value", shown)]


def table(t: Table) -> list[Node]:
    """Show a table."""
    return [Grid(t)]


_BRIEF = 120  # characters of a prompt or an answer in a list
_VIEWS: dict[str, Callable[[Any], Sequence[Node]]] = {
    "Completion": completion,
    "Budget": budget,
    "BaseException": error,
    "Table": table,
    "Chat": chat,
    "HistoryEntry": lambda entry: completion(entry.completion),
    "TokenStrip": views_teach.token_strip,
    "ReadThrough": views_teach.read_through,
    "SamplerTrace": views_teach.sampler_trace,
    "Sampling": views_teach.sampling,
    "KVState": views_teach.kv_state,
    "GGUFInfo": views_model.gguf_info,
    "ModelCard": views_model.model_card,
    "Model": views_model.model_card,
    "Estimate": views_model.fit,
    "Plan": views_choice.plan,
    "DryRun": views_choice.dry_run,
    "Comparison": views_choice.comparison,
    "DoctorReport": views_model.doctor,
    "Vote": views_vote.vote,
}
