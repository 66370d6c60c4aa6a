"""`inspect`: from a path, several shards, or a reader to a `GGUFInfo`."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llama_magic.errors import InputTypeError, InvalidGGUFError, SourceError
from llama_magic.gguf._findings import findings
from llama_magic.gguf._info import GGUFInfo
from llama_magic.gguf._parse import Header, parse
from llama_magic.gguf._source import ByteRanges, FileReader

_SHARD = re.compile(r"^(?P<stem>.*)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf$", re.DOTALL)


def inspect(
    path_or_reader: str | os.PathLike[str] | ByteRanges,
    *,
    parts: Sequence[str | os.PathLike[str] | ByteRanges] = (),
) -> GGUFInfo:
    """Read a GGUF header: about 10 ms for 50,000 tokens, 20 ms for 262,144; no weights are read.

    A path, or an object with `read_at(offset, n) -> bytes` and `size` (then only the header travels).
    Of a split file give the first shard, its siblings are found by name, or the other shards as `parts`
    (paths, or readers beside a reader).
    Raises `InvalidGGUFError` (with `field` and `offset`) for what cannot be read as GGUF, and
    `SourceError` for what is not a readable file. Call `validate` before loading.
    """
    if isinstance(path_or_reader, (str, os.PathLike)):
        given = [Path(part) for part in parts if isinstance(part, (str, os.PathLike))]
        paths = _shard_paths(Path(os.path.expanduser(path_or_reader)), given)
        headers = [_read_file(path) for path in paths]
        return GGUFInfo(_checked(headers, paths), paths, findings)
    for reader in (path_or_reader, *parts):
        if not isinstance(reader, (str, os.PathLike, ByteRanges)):
            raise InputTypeError(
                f"A model file is given as {reader!r:.60}; expected a path, or a reader with `size` and "
                "`read_at(offset, n)`."
            )
    rest = [_read_file(Path(p)) if isinstance(p, (str, os.PathLike)) else parse(p) for p in parts]
    headers = [parse(path_or_reader), *rest]
    names = [Path(str(getattr(reader, "name", "part"))) for reader in (path_or_reader, *parts)]
    return GGUFInfo(_checked(headers, names), [], findings)


def _read_file(path: Path) -> Header:
    reader = FileReader(path)
    try:
        return parse(reader)
    except InvalidGGUFError as error:
        raise InvalidGGUFError(
            f"{path.name}: {error.said[0]}", field=error.field, offset=error.offset, remedy=error.said[1]
        ) from None
    finally:
        reader.close()


def _shard_paths(path: Path, parts: list[Path]) -> list[Path]:
    if parts:
        return sorted({p.expanduser() for p in [path, *parts]}, key=lambda p: p.name)
    match = _SHARD.match(path.name)
    if match is None or not path.exists():
        return [path]
    count = int(match["count"])
    if not 1 <= count <= 4096:
        return [path]
    found = [path.with_name(f"{match['stem']}-{i:05d}-of-{count:05d}.gguf") for i in range(1, count + 1)]
    missing = [p.name for p in found if not p.exists()]
    if missing:
        raise SourceError(
            f"{path.name} is one of {count} parts, and {len(missing)} of them are missing: "
            f"{', '.join(missing[:4])}.",
            remedy=f"Put all parts into {path.parent or '.'}.",
        )
    return found


def _checked(headers: list[Header], paths: list[Path]) -> list[Header]:
    """Return the shards in order; raises where they do not belong together."""
    if len(headers) == 1:
        return headers
    for number, (header, path) in enumerate(zip(headers, paths, strict=True)):
        for key, type_, want in (("split.no", "u16", number), ("split.count", "u16", len(headers))):
            _expect(header, path, key, type_, want)
    where: dict[str, Path] = {}
    for header, path in zip(headers, paths, strict=True):
        for name in (t.name for t in header.tensors):
            if name in where:
                raise InvalidGGUFError(
                    f"The tensor {name!r} stands in two parts, {where[name].name} and {path.name}.",
                    field=f"tensor {name}",
                    remedy="One of them has the content of another: download all parts again.",
                )
        where.update({t.name: path for t in header.tensors})
    _expect(headers[0], paths[0], "split.tensors.count", "i32", sum(len(h.tensors) for h in headers))
    return headers


def _expect(header: Header, path: Path, key: str, type_: str, want: Any) -> None:
    found = header.values.get(key)
    if header.types.get(key) != type_ or found != want:
        shown = "missing" if found is None else f"{found!r} ({header.types[key]})"
        raise InvalidGGUFError(
            f"{path.name}: {key} is {shown}; expected {want} ({type_}).",
            field=key,
            offset=header.places.get(key),
            remedy="The parts are not of one model, or one is missing: download all parts again.",
        )
