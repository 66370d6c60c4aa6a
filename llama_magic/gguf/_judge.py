"""How the validators refuse: one way to raise, and checks of stored types."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NoReturn

from llama_magic.errors import InvalidGGUFError
from llama_magic.gguf._info import GGUFInfo

RECONVERT = "Convert the model again with a current llama.cpp, or get another file of it."


def fail(
    info: GGUFInfo,
    message: str,
    field: str,
    remedy: str = RECONVERT,
    offset: int | None = None,
    shard: int | None = None,
) -> NoReturn:
    """Raise `InvalidGGUFError` about a field of this file; of a split one the part that holds it is named."""
    tensor = info.tensors.get(field.removeprefix("tensor ")) if field.startswith("tensor ") else None
    part = shard if shard is not None else tensor.shard if tensor is not None else 0
    name = f"{info.paths[part].name}: " if info.paths else ""
    place = info.place(field) if offset is None else offset
    raise InvalidGGUFError(name + message, field=field, offset=place, remedy=remedy)


def check_types(info: GGUFInfo, wanted: Mapping[str, tuple[str, ...]], prefix: str) -> None:
    """Check that keys, where present, are stored as llama.cpp reads them: it refuses all other types."""
    for name, types in wanted.items():
        key = prefix + name
        found = info.value_types.get(key)
        if found is not None and found not in types:
            fail(info, f"{key} is stored as {found}; expected {' or '.join(types)}.", key)
