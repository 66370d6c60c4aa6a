"""From a source to a file: one road for each kind."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from llama_magic.doors import escaped, option
from llama_magic.errors import InputTypeError, InvalidGGUFError, OptionError, SourceError
from llama_magic.sources.disk.cache import cache_note
from llama_magic.sources.disk.demo import require_demo
from llama_magic.sources.disk.local import check_magic, local_parts
from llama_magic.sources.disk.shards import short_name
from llama_magic.sources.faults import plain_errors
from llama_magic.sources.hub.cache import cached_hub, is_offline, verify_cached
from llama_magic.sources.notation import check_revision, parse
from llama_magic.sources.redaction import redact
from llama_magic.sources.types import Fits, Kind, ParsedSource, Resolved, total
from llama_magic.words.progress import Progress, ProgressCallback


@plain_errors()
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
    parsed = parsed_source(source, default, base, revision)
    if progress is not None:
        progress(Progress("resolve", 0, None, parsed.text))
    if parsed.kind == "url":
        return _resolve_url(parsed, offline, sha256, progress)
    if parsed.kind == "hub":
        return _resolve_hub(parsed, revision, offline, sha256, progress, fits)
    parts = local_files(parsed)
    _verify_given(parts, sha256, progress)
    note = cache_note()
    return _resolved(parsed, parts, str(parts[0]), [note] if note else [])


def doubt(found: Resolved) -> str:
    """Note that a model that was resolved turned out to be no sound file; return what the next load does.

    A download by URL is asked for again at the next load. In the hub's cache, which is not ours, lies what a
    mirror without digests sent; a file of the user's own is left to the user, and the text is empty.
    """
    from llama_magic.sources.http.url import doubt as doubt_url

    if found.kind == "hub":
        return f"Remove {found.path}, and the next load fetches it."
    return "The next load asks the server for it again." if doubt_url(found.parts) else ""


@contextmanager
def doubting(found: Resolved) -> Iterator[None]:
    """Put a file in doubt that turns out to be no sound one; its `InvalidGGUFError` says what comes next."""
    try:
        yield
    except InvalidGGUFError as error:
        again = doubt(found)
        if not again:
            raise
        remedy = f"{error.said[1] or ''} {again}".strip()
        raise InvalidGGUFError(error.said[0], field=error.field, offset=error.offset, remedy=remedy) from None


def check(source: Any, *, revision: str | None = None, sha256: str | None = None) -> ParsedSource:
    """Return the parsed source where it and what is said of it could be meant; no network is asked.

    Raises `SourceError` and `OptionError`.
    """
    _checked_sha256(sha256)
    return parsed_source(source, None, None, revision)


def parsed_source(source: Any, default: str | None, base: Path | None, revision: str | None) -> ParsedSource:
    """Return the parsed source, `default` in place of None, its revision checked against the option."""
    parsed = parse(default if source is None else source, base=base)
    if revision is None:
        return parsed
    check_revision(revision)
    if parsed.kind != "hub":
        raise OptionError(
            f"A revision was given, and {parsed.text} is no hub repository.",
            remedy=f"Leave {option('revision')} out.",
        )
    if parsed.revision not in (None, revision):
        raise OptionError(
            f"Two revisions were given: {parsed.revision} and {revision}.", remedy="Leave one out."
        )
    return parsed


def _checked_sha256(sha256: str | None) -> str | None:
    if sha256 is None:
        return None
    if not isinstance(sha256, str):
        raise InputTypeError(f"The SHA-256 is {sha256!r:.60}; expected 64 hex digits as text.")
    digest = sha256.strip().lower().removeprefix("sha256:")
    if not re.fullmatch(r"[0-9a-f]{64}", digest):
        raise OptionError(
            f"A SHA-256 has 64 hex digits; {len(digest)} characters were given.",
            remedy="Copy the whole digest.",
        )
    return digest


def local_files(parsed: ParsedSource) -> tuple[Path, ...]:
    """Return all shards of a demo or local source, each looked at."""
    return (require_demo(),) if parsed.kind == "demo" else local_parts(parsed)


def _verify_given(parts: tuple[Path, ...], sha256: str | None, progress: ProgressCallback | None) -> None:
    if sha256 is None:
        return
    from llama_magic.sources.disk.verify import check_one_digest, verify_once

    check_one_digest(sha256, len(parts))

    verify_once(parts[0], sha256, progress)


def _resolve_url(
    parsed: ParsedSource, offline: bool | None, sha256: str | None, progress: ProgressCallback | None
) -> Resolved:
    from llama_magic.sources.http.url import fetch_url

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
    from llama_magic.sources.http.client import UnreachableError
    from llama_magic.sources.hub import hub as _hub

    if is_offline(offline):
        parts = from_cache(parsed, revision, progress, "offline mode is on")
        _verify_given(parts, sha256, progress)
        return _resolved(parsed, parts, hub_origin(parsed, parts[0]), ["Offline: the cached copy is used."])
    hub = _hub.Hub(parsed, revision)
    try:
        files = hub.plan(fits)
    except UnreachableError as err:
        parts = from_cache(parsed, revision, progress, str(err))
        _verify_given(parts, sha256, progress)
        note = f"{err}; the cached copy is used, which may not be the newest."
        return _resolved(parsed, parts, hub_origin(parsed, parts[0]), [*hub.notes, note])
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
    return _resolved(parsed, parts, hub_origin(parsed, parts[0]), hub.notes)


def _expect(files: list[Any], sha256: str) -> list[Any]:
    """Refuse by the hub's own digest before anything is fetched; a file without one takes the user's."""
    from llama_magic.sources.disk.verify import check_one_digest

    check_one_digest(sha256, len(files))
    known = files[0].sha256
    if known not in (None, sha256):
        raise SourceError(
            f"{files[0].name} has SHA-256 {known} on the hub, not {sha256} as you gave.",
            remedy="Check the digest, the file name and the revision. Nothing was downloaded.",
        )
    return [replace(files[0], sha256=sha256)]


def _fetch_hub(hub: Any, files: list[Any], progress: ProgressCallback | None) -> Iterable[Path]:
    from llama_magic.sources.http.meter import TransferMeter

    whole = total(file.size for file in files)
    before = 0
    for number, file in enumerate(files, 1):
        label = f"{file.name} ({number} of {len(files)})" if len(files) > 1 else file.name
        path = hub.fetch(file, label, TransferMeter(progress, label, before=before, whole=whole), progress)
        before += path.stat().st_size
        yield path


def from_cache(
    parsed: ParsedSource, revision: str | None, progress: ProgressCallback | None, why: str
) -> tuple[Path, ...]:
    """Return a hub model's files from the cache, verified; raise `SourceError` that says `why` otherwise."""
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


def hub_origin(parsed: ParsedSource, path: Path) -> str:
    """Return `hf:owner/repo/file@commit` of a file in the hub's cache (`…/snapshots/<commit>/file`)."""
    place = path.parts[len(path.parts) - path.parts[::-1].index("snapshots") :]
    return f"hf:{parsed.repo}/{'/'.join(place[1:])}@{place[0][:12]}"


def _resolved(
    parsed: ParsedSource, parts: tuple[Path, ...], origin: str, notes: Iterable[str] = ()
) -> Resolved:
    return Resolved(
        parts[0],
        parts,
        kind_of(parsed),
        name_of(parsed, parts[0]),
        escaped(redact(origin)),
        bytes_of(parts),
        tuple(escaped(redact(note)) for note in dict.fromkeys(notes)),
    )


def kind_of(parsed: ParsedSource) -> Kind:
    """Return the kind to report: what the user wrote was an alias, where it was one."""
    return "alias" if parsed.alias is not None else parsed.kind


def name_of(parsed: ParsedSource, path: Path) -> str:
    """Return the short name: the alias, or the file's stem."""
    if parsed.alias is not None or parsed.kind == "demo":
        return parsed.alias or parsed.text
    return escaped(short_name(path))


def bytes_of(parts: tuple[Path, ...]) -> int:
    """Return the bytes of all files."""
    return sum(part.stat().st_size for part in parts)
