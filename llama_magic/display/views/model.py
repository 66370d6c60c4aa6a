"""Views of models and machines: card after a load, GGUF header, fit, doctor's report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from llama_magic.display.static.doc import Code, Fold, Grid, Head, Line, Node
from llama_magic.display.views import choice as views_choice
from llama_magic.words.amounts import count, size
from llama_magic.words.counting import counted
from llama_magic.words.tables import Table

_MAX_ROWS = 2000  # of tensors or metadata; more are counted


def _get(obj: Any, *names: str) -> Any:
    """Return the first of these fields that the object, or its `info`, has and knows."""
    info = obj.get("info") if isinstance(obj, Mapping) else getattr(obj, "info", None)
    for name in names:
        for place in (obj, info):
            value = place.get(name) if isinstance(place, Mapping) else getattr(place, name, None)
            if value is not None and not callable(value):
                return value
    return None


def _said(pairs: Iterable[tuple[str, Any]]) -> tuple[tuple[Any, ...], ...]:
    return tuple((label, value) for label, value in pairs if value not in (None, ""))


def _size_of(value: Any) -> str | None:
    return None if value is None else size(value)


def model_card(card: Any) -> list[Node]:
    """Show a loaded model: architecture, size, quantisation, context, template, memory foretold and used."""
    params = _get(card, "n_params")
    window, trained = (
        _get(card, "window", "n_ctx", "context"),
        _get(card, "trained_context", "context_length", "n_ctx_train"),
    )
    template, memory = _get(card, "template", "formatter"), _get(card, "memory") or {}
    seeded = _get(card, "seeded_bytes")
    context = None if window is None and trained is None else _context_words(window, trained)
    rows = _said(
        (
            ("architecture", _get(card, "architecture")),
            ("parameters", None if params is None else count(int(params))),
            ("quantisation", _get(card, "quantisation", "quantization")),
            ("file size", _size_of(_get(card, "file_size"))),
            ("context", context),
            ("chat template", getattr(template, "name", template)),
            ("memory, foretold", _size_of(_get(card, "predicted_bytes") or memory.get("predicted_total"))),
            ("memory, used", _size_of(_get(card, "actual_bytes") or memory.get("actual_total"))),
            ("with a seed", None if seeded is None else f"{size(seeded)} more from the first such answer on"),
            ("speed", _get(card, "speed_words")),
            ("device", _get(card, "device")),
        )
    )
    notes = [Line(str(note), tone="warn") for note in (_get(card, "notes", "warnings") or ())]
    return [Head("model", str(_get(card, "name") or "")), Grid(Table(("", ""), rows)), *notes]


def _context_words(window: int | None, trained: int | None) -> str:
    if window is None:
        return f"{trained:,} tokens"
    return f"{window:,} tokens" + (f" (trained for {trained:,})" if trained and trained != window else "")


def gguf_info(info: Any) -> list[Node]:
    """Show a GGUF header: what the file holds, what is odd about it, its metadata, tensors and template."""
    params = _get(info, "n_params")
    metadata, tensors = _get(info, "metadata") or {}, _get(info, "tensors") or ()
    rows = _said(
        (
            ("architecture", _get(info, "architecture")),
            ("parameters", None if params is None else count(int(params))),
            ("quantisation", _get(info, "quantisation", "quantization")),
            ("file size", _size_of(_get(info, "file_size"))),
            (
                "context, trained",
                _context_words(None, _get(info, "context_length")) if _get(info, "context_length") else None,
            ),
            ("tensors", len(tensors) or None),
            ("chat template", "in the file" if _get(info, "chat_template") else "none"),
        )
    )
    out: list[Node] = [Head("GGUF", str(_get(info, "name") or "")), Grid(Table(("", ""), rows))]
    out.extend(Line(_finding(finding), tone="warn") for finding in (_get(info, "findings") or ()))
    if (plan := _get(info, "plan")) is not None:
        out.extend(views_choice.plan(plan))
    if metadata:
        out.append(
            Fold(
                f"metadata ({counted(len(metadata), 'key')})", (Grid(_metadata_table(metadata)),), brief=True
            )
        )
    if tensors:
        out.append(Fold(f"tensors ({len(tensors):,})", (Grid(_tensor_table(tensors)),), brief=True))
    if template := _get(info, "chat_template"):
        out.append(Fold("chat template", (Code(str(template)),), brief=True))
    return out


def _finding(finding: Any) -> str:
    return f"{finding.level}: {finding}" if hasattr(finding, "level") else str(finding)


def _metadata_table(metadata: Mapping[str, Any]) -> Table:
    rows = tuple((key, _short(value)) for key, value in list(metadata.items())[:_MAX_ROWS])
    return Table(("key", "value"), rows, caption=_cut(len(metadata)))


def _short(value: Any) -> str:
    """Return a value's words; arrays are read no further than their first items (they may be lazy)."""
    if isinstance(value, (str, int, float, bool)):
        text = str(value)
        return text if len(text) <= 120 else f"{text[:120]}… ({len(text):,} characters)"
    try:
        length = len(value)
    except TypeError:
        return str(value)[:120]
    head = ", ".join(repr(value[i]) for i in range(min(4, length)))
    return f"[{head}{', …' if length > 4 else ''}] ({counted(length, 'item')})"


def _tensor_table(tensors: Iterable[Any]) -> Table:
    listed = list(tensors.values() if isinstance(tensors, Mapping) else tensors)
    rows = tuple((str(t.name), _shape(t), _type_of(t), _bytes_of(t)) for t in listed[:_MAX_ROWS])
    return Table(("tensor", "shape", "type", "size"), rows, caption=_cut(len(listed)))


def _type_of(tensor: Any) -> str:
    kind = _get(tensor, "type_name", "type", "dtype")
    return str(getattr(kind, "name", kind))


def _bytes_of(tensor: Any) -> str | None:
    return _size_of(_get(tensor, "n_bytes", "size", "nbytes"))


def _shape(tensor: Any) -> str:
    return " × ".join(str(n) for n in (_get(tensor, "shape", "dims", "dimensions") or ()))


def _cut(length: int) -> str:
    return f"the first {_MAX_ROWS:,} of {length:,}" if length > _MAX_ROWS else ""


def fit(estimate: Any) -> list[Node]:
    """Show a fit estimate: what takes how many bytes and why, and the sum."""
    rows = tuple((what, size(amount), why) for what, amount, why in estimate.parts())
    total = ("total", size(estimate.total), "")
    return [Head("fit"), Grid(Table(("for", "size", "because"), (*rows, total)))]


def doctor(report: Any) -> list[Node]:
    """Show a doctor's report: each check with what was found, and one line of advice for each problem."""
    checks = list(_get(report, "checks", "items", "rows") or ())
    rows = tuple(
        (str(c.name), str(getattr(c, "value", getattr(c, "found", ""))), "ok" if _ok(c) else "look")
        for c in checks
    )
    out: list[Node] = [Head("doctor"), Grid(Table(("check", "found", "verdict"), rows))]
    out.extend(Line(f"{c.name}: {c.advice}", tone="warn") for c in checks if getattr(c, "advice", None))
    return out


def _ok(check: Any) -> bool:
    if hasattr(check, "ok"):
        return bool(check.ok)
    return not getattr(check, "advice", None)
