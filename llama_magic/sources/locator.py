"""Say what a source is without fetching it, and read a remote one in place."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llama_magic.doors import escaped, option
from llama_magic.errors import SourceError
from llama_magic.sources.faults import plain_errors
from llama_magic.sources.hub.cache import cached_hub, is_offline
from llama_magic.sources.resolver import (
    bytes_of,
    from_cache,
    hub_origin,
    kind_of,
    local_files,
    name_of,
    parsed_source,
)
from llama_magic.sources.types import Located, ParsedSource, RemoteFile, total

if TYPE_CHECKING:
    from llama_magic.sources.http.ranges import RangeReader


@plain_errors()
def locate(
    source: Any = None,
    *,
    revision: str | None = None,
    offline: bool | None = None,
    base: Path | None = None,
) -> Located:
    """Return what `source` is, with its size where that is known; download nothing large.

    A URL costs one request for its first kilobyte, a hub repository its file list and one
    request without a body for each shard. Parameters and errors are those of `resolve`.
    """
    parsed = parsed_source(source, None, base, revision)
    if parsed.kind == "url":
        return _locate_url(parsed, is_offline(offline))
    if parsed.kind == "hub":
        return _locate_hub(parsed, revision, is_offline(offline))
    parts = local_files(parsed)
    return Located(kind_of(parsed), name_of(parsed, parts[0]), escaped(str(parts[0])), bytes_of(parts), parts)


def _locate_url(parsed: ParsedSource, offline: bool) -> Located:
    from llama_magic.sources.http.url import cached_url, locate_url

    assert parsed.url is not None
    if (parts := cached_url(parsed.url)) is not None:
        return Located(kind_of(parsed), name_of(parsed, parts[0]), parsed.text, bytes_of(parts), parts)
    if offline:
        raise SourceError(
            f"{parsed.text} is not in the cache, and offline mode is on.",
            remedy=f"Unset HF_HUB_OFFLINE, or leave {option('offline')} out, to look at it.",
        )
    files, notes = locate_url(parsed)
    return Located(
        kind_of(parsed),
        name_of(parsed, Path(files[0].name)),
        parsed.text,
        total(file.size for file in files),
        (),
        tuple(files),
        notes,
    )


def _locate_hub(parsed: ParsedSource, revision: str | None, offline: bool) -> Located:
    from llama_magic.sources.http.client import UnreachableError
    from llama_magic.sources.hub import hub as _hub

    why = "offline mode is on"
    if not offline:
        hub = _hub.Hub(parsed, revision)
        try:
            plan = hub.plan()
            files = tuple(RemoteFile(f.name, f.size, f.sha256, hub.url_of(f.name, f.commit)) for f in plan)
            origin = f"hf:{parsed.repo}/{plan[0].name}@{plan[0].commit[:12]}"
            parts = cached_hub(replace(parsed, file=plan[0].name), plan[0].commit)
            name = name_of(parsed, Path(plan[0].name))
            size = total(file.size for file in files)
            return Located(kind_of(parsed), name, origin, size, parts, files, tuple(hub.notes))
        except UnreachableError as err:
            why = str(err)
    parts = from_cache(parsed, revision, None, why)
    note = f"The cached copy is used: {why}."
    return Located(
        kind_of(parsed),
        name_of(parsed, parts[0]),
        hub_origin(parsed, parts[0]),
        bytes_of(parts),
        parts,
        (),
        (note,),
    )


@plain_errors()
def open_parts(source: Any, *, revision: str | None = None) -> list[RangeReader]:
    """Return a `RangeReader` over each shard of a URL or hub source, in order.

    Raises `SourceError` where the source is no remote one, offline mode is on, or the server
    serves no byte ranges. A hub source is looked up first (its list, one request without a body).
    """
    from llama_magic.sources.http.client import UnreachableError
    from llama_magic.sources.http.ranges import BLOCK, FAR_BLOCK, RangeReader
    from llama_magic.sources.http.url import shard_urls
    from llama_magic.sources.hub import hub as _hub

    parsed = parsed_source(source, None, None, revision)
    if parsed.kind not in ("url", "hub"):
        raise SourceError(f"{parsed.text} is not on a server.", remedy="Open the file itself.")
    if is_offline(None):
        raise SourceError(
            f"{parsed.text} cannot be read: offline mode is on.", remedy="Unset HF_HUB_OFFLINE."
        )
    if parsed.kind == "url":
        assert parsed.url is not None
        first, *others = shard_urls(parsed.url)
        return [RangeReader(first), *(RangeReader(url, block=FAR_BLOCK) for url in others)]
    hub = _hub.Hub(parsed, revision)
    try:
        files = hub.plan()
    except UnreachableError as err:
        raise SourceError(f"{parsed.text} cannot be read: {err}.", remedy="Check the network.") from None
    readers: list[RangeReader] = []
    for file in files:  # the first shard holds the vocabulary, the others little more than names
        block = FAR_BLOCK if readers else BLOCK
        readers.append(hub.at_commit(file, _reader(hub.headers(), file.name, block)))
    return readers


def _reader(headers: dict[str, str], name: str, block: int) -> Callable[[str], RangeReader]:
    from llama_magic.sources.http.ranges import RangeReader

    return lambda url: RangeReader(url, headers, name=name, block=block)
