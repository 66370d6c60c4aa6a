"""How a loaded model looks: its card."""

from __future__ import annotations

from dataclasses import dataclass

from llama_magic.display import hosts
from llama_magic.display.static.doc import Code, Grid, Head, Line, Node
from llama_magic.display.views.view import view
from llama_magic.model.model import Model
from llama_magic.words.amounts import count, size
from llama_magic.words.tables import Table


@dataclass(frozen=True)
class ModelCard:
    """A loaded model in a few lines: what it is, its window, memory foretold and used (bytes)."""

    name: str
    architecture: str
    n_params: int
    quantisation: str
    file_size: int
    window: int
    trained_context: int
    formatter: str
    predicted_bytes: int | None
    actual_bytes: int | None
    notes: tuple[str, ...]
    speed_words: str = ""
    seeded_bytes: int = 0  # what the first answer with a seed adds, 0 once it did
    prompt_reader_bytes: int = 0  # what a prompt adds that is read beside many answers


def card(model: Model) -> ModelCard:
    """Return the card of an open model; the speed to expect stands on it only where somebody looks.

    One that has no file here has no header, and its card leaves out what stands there.
    """
    info = model.info if model.has_file else None
    speed = model.speed if hosts.somebody_looks() else None
    memory = model.memory
    return ModelCard(
        name=model.name,
        architecture=info.architecture if info else "",
        n_params=info.n_params if info else 0,
        quantisation=info.quantisation if info else "",
        file_size=model.size_bytes,
        window=model.window,
        trained_context=info.context_length if info else 0,
        formatter=model.formatter.name,
        predicted_bytes=memory.get("predicted_total"),
        actual_bytes=memory.get("actual_total"),
        notes=tuple(model.notes),
        seeded_bytes=_to_come(memory, "seeded"),
        prompt_reader_bytes=_to_come(memory, "prompt_reader"),
        speed_words="" if speed is None else str(speed),
    )


@view.register(Model)
def model(found: Model) -> list[Node]:
    """Show a model by its card; a closed one by the line that says so."""
    return [Code(repr(found))] if found.closed else model_card(card(found))


@view.register(ModelCard)
def model_card(c: ModelCard) -> list[Node]:
    """Show a loaded model: architecture, size, quantisation, context, template, memory foretold and used."""
    rows = (
        ("architecture", c.architecture),
        ("parameters", count(c.n_params) if c.n_params else ""),
        ("quantisation", c.quantisation),
        ("file size", size(c.file_size) if c.file_size else ""),
        ("context", _context(c.window, c.trained_context)),
        ("chat template", "the file's own" if c.formatter == "gguf" else c.formatter),
        ("memory, foretold", "" if c.predicted_bytes is None else size(c.predicted_bytes)),
        ("memory, used", "" if c.actual_bytes is None else size(c.actual_bytes)),
        ("with a seed", _more(c.seeded_bytes, ", at temperature 0 too")),
        ("with many at once", _more(c.prompt_reader_bytes)),
        ("speed", c.speed_words),
    )
    notes = [Line(note, tone="warn") for note in c.notes]
    return [Head("model", c.name), Grid(Table(("", ""), tuple(row for row in rows if row[1]))), *notes]


def _to_come(memory: dict[str, int], name: str) -> int:
    return 0 if f"actual_{name}" in memory else memory.get(f"predicted_{name}", 0)


def _more(added: int, also: str = "") -> str:
    return f"{size(added)} more from then on{also}" if added else ""


def _context(window: int, trained: int) -> str:
    return f"{window:,} tokens" + (f" (trained for {trained:,})" if trained and trained != window else "")
