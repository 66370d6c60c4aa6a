"""From a source to a file: one road for each kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llama_magic.errors import OptionError, SourceError
from llama_magic.results import Progress, ProgressCallback
from llama_magic.sources._demo import require_demo
from llama_magic.sources._local import check_magic, local_parts
from llama_magic.sources._parse import check_revision, parse
from llama_magic.sources._redact import redact
from llama_magic.sources._shards import short_name
from llama_magic.sources._types import Kind, Located, ParsedSource, RemoteFile, Resolved

if TYPE_CHECKING:
    from llama_magic.sources._range import RangeReader

Fits = Callable[[int], bool]


def resolve(
    source: Any = None,
    *,
    revision: str | None = None,
    offline: bool | None = None,
    sha256: str | None = None,
    progress: ProgressCallback | None = None,
    default: str | None = None,
    fits: Fits | None = None,
    base: Path | None = None,
) -> Resolved:
    """Return a complete, checked model file on this disk; download it where needed.

    `source` is read as `parse` says; None means `default`, or else the demo model. `offline`
    forbids the network (as `HF_HUB_OFFLINE` does, read now). `sha256` is 64 hex digits. `fits`
    tells whether a model of so many bytes would fit, and is used in the list of choices.
    `base` is where relative paths start. Raises `SourceError`, and `InvalidGGUFError` for a
    local file that does not begin as a GGUF does.
    """
    sha256 = _checked_sha256(sha256)
    parsed = _parsed(source, default, base, revision)
    if progress is not None:
        progress(Progress("resolve", 0, None, parsed.text))
    if parsed.kind == "url":
        return _resolve_url(parsed, offline, sha256, progress)
    if parsed.kind == "hub":
        return _resolve_hub(parsed, revision, offline, sha256, progress, fits)
    parts = _local(parsed)
    _verify_given(parts, sha256, progress)
    return _resolved(parsed, parts, str(parts[0]))


def locate(
    source: Any = None,
    *,
    revision: str | None = None,
    offline: bool | None = None,
    default: str | None = None,
    fits: Fits | None = None,
    base: Path | None = None,
) -> Located:
    """Return what `source` is, with its size where that is known; download nothing large.

    A URL costs one request for its first kilobyte, a hub repository its file list and one
    request without a body for each shard. Parameters and errors are those of `resolve`.
    """
    from llama_magic.sources._hub import is_offline

    parsed = _parsed(source, default, base, revision)
    if parsed.kind == "url":
        return _locate_url(parsed, is_offline(offline))
    if parsed.kind == "hub":
        return _locate_hub(parsed, revision, is_offline(offline), fits)
    parts = _local(parsed)
    return Located(_kind(parsed), _name(parsed, parts[0]), str(parts[0]), _bytes(parts), parts)


def _parsed(source: Any, default: str | None, base: Path | None, revision: str | None) -> ParsedSource:
    parsed = parse(default if source is None else source, base=base)
    if revision is None:
        return parsed
    check_revision(revision)
    if parsed.kind != "hub":
        raise OptionError(
            f"A revision was given, and {parsed.text} is no hub repository.", remedy="Leave --revision out."
        )
    if parsed.revision not in (None, revision):
        raise OptionError(
            f"Two revisions were given: {parsed.revision} and {revision}.", remedy="Leave one out."
        )
    return parsed


def _checked_sha256(sha256: str | None) -> str | None:
    if sha256 is None:
        return None
    digest = sha256.strip().lower().removeprefix("sha256:")
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise OptionError(
            f"A SHA-256 has 64 hex digits; {len(digest)} characters were given.",
            remedy="Copy the whole digest.",
        )
    return digest


def _local(parsed: ParsedSource) -> tuple[Path, ...]:
    return (require_demo(),) if parsed.kind == "demo" else local_parts(parsed)


def _verify_given(parts: tuple[Path, ...], sha256: str | None, progress: ProgressCallback | None) -> None:
    if sha256 is None:
        return
    from llama_magic.sources._verify import check_one_digest, verify_once

    check_one_digest(sha256, len(parts))

    verify_once(parts[0], sha256, progress)


def _resolve_url(
    parsed: ParsedSource, offline: bool | None, sha256: str | None, progress: ProgressCallback | None
) -> Resolved:
    from llama_magic.sources._hub import is_offline
    from llama_magic.sources._url import fetch_url

    parts = fetch_url(parsed, offline=is_offline(offline), sha256=sha256, progress=progress)
    return _resolved(parsed, parts, parsed.text)


def _resolve_hub(
    parsed: ParsedSource,
    revision: str | None,
    offline: bool | None,
    sha256: str | None,
    progress: ProgressCallback | None,
    fits: Fits | None,
) -> Resolved:
    from llama_magic.sources import _hub
    from llama_magic.sources._http import UnreachableError

    if _hub.is_offline(offline):
        parts = _from_cache(parsed, revision, progress, "offline mode is on")
        _verify_given(parts, sha256, progress)
        return _resolved(parsed, parts, _hub_origin(parsed, parts[0]), ["Offline: the cached copy is used."])
    hub = _hub.Hub(parsed, revision)
    try:
        files = hub.plan(fits)
    except UnreachableError as err:
        parts = _from_cache(parsed, revision, progress, str(err))
        _verify_given(parts, sha256, progress)
        note = f"{err}; the cached copy is used, which may not be the newest."
        return _resolved(parsed, parts, _hub_origin(parsed, parts[0]), [*hub.notes, note])
    if sha256 is not None:
        files = _expect(files, sha256)
    try:
        parts = tuple(_fetch_hub(hub, files, progress))
    except UnreachableError as err:
        raise SourceError(
            f"{parsed.text} could not be fetched: {err}.",
            remedy="What came so far is kept; run it again to go on.",
        ) from None
    for part in parts:
        check_magic(part)
    _verify_given(parts, sha256, progress)
    return _resolved(parsed, parts, _hub_origin(parsed, parts[0]), hub.notes)


def _expect(files: list[Any], sha256: str) -> list[Any]:
    """Refuse by the hub's own digest before anything is fetched; a file without one takes the user's."""
    from llama_magic.sources._verify import check_one_digest

    check_one_digest(sha256, len(files))
    known = files[0].sha256
    if known not in (None, sha256):
        raise SourceError(
            f"{files[0].name} has SHA-256 {known} on the hub, not {sha256} as you gave.",
            remedy="Check the digest, the file name and the revision. Nothing was downloaded.",
        )
    return [replace(files[0], sha256=sha256)]


def _fetch_hub(hub: Any, files: list[Any], progress: ProgressCallback | None) -> Iterable[Path]:
    from llama_magic.sources._transfer import Meter

    sizes = [file.size for file in files]
    whole = None if None in sizes else sum(sizes)
    before = 0
    for number, file in enumerate(files, 1):
        label = f"{file.name} ({number} of {len(files)})" if len(files) > 1 else file.name
        path = hub.fetch(file, label, Meter(progress, label, before=before, whole=whole), progress)
        before += path.stat().st_size
        yield path


def _from_cache(
    parsed: ParsedSource, revision: str | None, progress: ProgressCallback | None, why: str
) -> tuple[Path, ...]:
    from llama_magic.sources._hub import cached_hub, verify_cached

    parts = cached_hub(parsed, revision)
    if not parts:
        raise SourceError(
            f"{parsed.text} is not in the cache, and {why}.",
            remedy="Fetch it once while the hub can be reached, or name a local file.",
        )
    for part in parts:
        verify_cached(part, progress)
        check_magic(part)
    return parts


def _locate_url(parsed: ParsedSource, offline: bool) -> Located:
    from llama_magic.sources._url import cached_url, locate_url

    assert parsed.url is not None
    if (parts := cached_url(parsed.url)) is not None:
        return Located(_kind(parsed), _name(parsed, parts[0]), parsed.text, _bytes(parts), parts)
    if offline:
        raise SourceError(
            f"{parsed.text} is not in the cache, and offline mode is on.",
            remedy="Unset HF_HUB_OFFLINE, or leave --offline out, to look at it.",
        )
    files, notes = locate_url(parsed)
    return Located(
        _kind(parsed), _name(parsed, Path(files[0].name)), parsed.text, _total(files), (), tuple(files), notes
    )


def _locate_hub(parsed: ParsedSource, revision: str | None, offline: bool, fits: Fits | None) -> Located:
    from llama_magic.sources import _hub
    from llama_magic.sources._http import UnreachableError

    why = "offline mode is on"
    if not offline:
        hub = _hub.Hub(parsed, revision)
        try:
            plan = hub.plan(fits)
            files = tuple(RemoteFile(f.name, f.size, f.sha256, hub.url_of(f.name, f.commit)) for f in plan)
            origin = f"hf:{parsed.repo}/{plan[0].name}@{plan[0].commit[:12]}"
            parts = _hub.cached_hub(replace(parsed, file=plan[0].name), plan[0].commit)
            name = _name(parsed, Path(plan[0].name))
            return Located(_kind(parsed), name, origin, _total(files), parts, files, tuple(hub.notes))
        except UnreachableError as err:
            why = str(err)
    parts = _from_cache(parsed, revision, None, why)
    note = f"The cached copy is used: {why}."
    return Located(
        _kind(parsed),
        _name(parsed, parts[0]),
        _hub_origin(parsed, parts[0]),
        _bytes(parts),
        parts,
        (),
        (note,),
    )


def _hub_origin(parsed: ParsedSource, path: Path) -> str:
    """Return `hf:owner/repo/file@commit` of a file in the hub's cache (`…/snapshots/<commit>/file`)."""
    place = path.parts[len(path.parts) - path.parts[::-1].index("snapshots") :]
    return f"hf:{parsed.repo}/{'/'.join(place[1:])}@{place[0][:12]}"


def _resolved(
    parsed: ParsedSource, parts: tuple[Path, ...], origin: str, notes: Iterable[str] = ()
) -> Resolved:
    return Resolved(
        parts[0],
        parts,
        _kind(parsed),
        _name(parsed, parts[0]),
        redact(origin),
        _bytes(parts),
        tuple(redact(note) for note in dict.fromkeys(notes)),
    )


def _kind(parsed: ParsedSource) -> Kind:
    return "alias" if parsed.alias is not None else parsed.kind


def _name(parsed: ParsedSource, path: Path) -> str:
    if parsed.alias is not None or parsed.kind == "demo":
        return parsed.alias or parsed.text
    return short_name(path)


def _bytes(parts: tuple[Path, ...]) -> int:
    return sum(part.stat().st_size for part in parts)


def _total(files: Iterable[RemoteFile]) -> int | None:
    sizes = [file.size for file in files]
    return None if None in sizes else sum(size for size in sizes if size is not None)


def open_remote(source: Any, *, revision: str | None = None, fits: Fits | None = None) -> RangeReader:
    """Return a `RangeReader` over the first shard of a URL or hub source.

    Raises `SourceError` where the source is no remote one, offline mode is on, or the server
    serves no byte ranges. A hub source is looked up first (its list, one request without a body).
    """
    from llama_magic.sources import _hub
    from llama_magic.sources._http import UnreachableError
    from llama_magic.sources._range import RangeReader
    from llama_magic.sources._url import shard_urls

    parsed = _parsed(source, None, None, revision)
    if parsed.kind not in ("url", "hub"):
        raise SourceError(f"{parsed.text} is not on a server.", remedy="Open the file itself.")
    if _hub.is_offline(None):
        raise SourceError(
            f"{parsed.text} cannot be read: offline mode is on.", remedy="Unset HF_HUB_OFFLINE."
        )
    if parsed.kind == "url":
        assert parsed.url is not None
        return RangeReader(shard_urls(parsed.url)[0])
    hub = _hub.Hub(parsed, revision)
    try:
        file = hub.plan(fits)[0]
    except UnreachableError as err:
        raise SourceError(f"{parsed.text} cannot be read: {err}.", remedy="Check the network.") from None
    return hub.at_commit(file, lambda url: RangeReader(url, hub.headers(), name=file.name))
