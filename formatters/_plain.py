"""What a template is given of values: plain JSON types, bounded in depth and in digits."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Mapping, Sequence
from typing import Any

from llama_magic.bounds.meter import MAX_BITS, MAX_DEPTH
from llama_magic.errors import InputTypeError
from llama_magic.words.plain import said


def plain_data(value: Any, where: str = "the value", depth: int = 0) -> Any:
    """Rebuild `value` out of plain JSON types: a template must not get hold of other objects."""
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise InputTypeError(
            f"{where} is a whole number of {value.bit_length():,} bits, too long for a prompt."
        )
    if value is None or type(value) in (str, int, float, bool):
        return value
    if isinstance(value, enum.Enum):
        return plain_data(value.value, where, depth + 1)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value)
    if depth > MAX_DEPTH:
        raise InputTypeError(f"{where[:60]}… holds itself, or more than {MAX_DEPTH} values in one another.")
    inner = _inner(value)
    if isinstance(inner, Mapping):
        return {said(key): plain_data(item, f"{where}.{said(key)}", depth + 1) for key, item in inner.items()}
    if inner is not None:
        return [plain_data(item, f"{where}[{place}]", depth + 1) for place, item in enumerate(inner)]
    dump = getattr(value, "model_dump", None)
    if callable(dump):
        return plain_data(dump(exclude_none=True), where, depth + 1)
    raise InputTypeError(
        f"{where} is of type {type(value).__name__}, which a template cannot take.",
        remedy="Give text, numbers, lists, dicts or pydantic models.",
    )


def _inner(value: Any) -> Mapping[Any, Any] | Sequence[Any] | None:
    """Return what a container or a dataclass holds, by name or by place; None of anything else."""
    if isinstance(value, (Mapping, list, tuple)):
        return value
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {part.name: getattr(value, part.name) for part in dataclasses.fields(value)}
    return None
