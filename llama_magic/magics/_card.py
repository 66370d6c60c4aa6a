"""What a front end shows of the plain objects of the Python API, which know nothing of displays."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


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
    seeded_bytes: int | None = None  # what the first answer with a seed adds, None once it did


def bundle(obj: Any) -> dict[str, Any]:
    """Return the mimebundle of a result, for IPython's formatter."""
    from llama_magic import display

    kind = type(obj).__name__
    if kind == "Model" and obj.closed:
        return {"text/plain": repr(obj)}
    return display.mimebundle(card(obj) if kind == "Model" else obj)


def card(model: Any) -> ModelCard:
    """Return the card of an open model; the speed to expect stands on it only where somebody looks."""
    info = model.info
    speed = model.speed if somebody_looks() else None
    memory = model.memory
    return ModelCard(
        name=model.name,
        architecture=info.architecture,
        n_params=info.n_params,
        quantisation=info.quantisation,
        file_size=model.size_bytes,
        window=model.window,
        trained_context=info.context_length,
        formatter=model.formatter.name,
        predicted_bytes=memory.get("predicted_total"),
        actual_bytes=memory.get("actual_total"),
        notes=tuple(model.notes),
        seeded_bytes=None if "actual_seeded" in memory else memory.get("predicted_seeded"),
        speed_words="" if speed is None else str(speed),
    )


def somebody_looks() -> bool:
    """Return whether this is shown to someone: what was measured has no place in what a batch run saves."""
    from llama_magic.display import hosts

    return hosts.host(hosts.current_shell()) != "plain"
