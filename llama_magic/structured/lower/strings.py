"""Lower what a schema says of strings: patterns and formats."""

from __future__ import annotations

from llama_magic.errors import SchemaError
from llama_magic.structured.lower.lowered import Lowered, Site
from llama_magic.structured.schema import formats as _formats
from llama_magic.structured.schema import regex as _regex
from llama_magic.structured.schema import written as _written
from llama_magic.structured.schema.regex_misread import misread
from llama_magic.structured.schema.tree import Path, pointer


def _pattern(lowered: Lowered, site: Site) -> None:
    masked, note = mask_pattern(lowered, site.path, site.value, site.keyword)
    if masked is not None:
        site.out["pattern"] = masked
    if site.value in _written.FOR_PATTERNS:
        site.writes({"pattern": _written.FOR_PATTERNS[site.value]})
    if note is None:
        lowered.enforce(site.path, site.keyword)
    else:
        lowered.leave(site.path, site.keyword, note)


def mask_pattern(lowered: Lowered, path: Path, pattern: str, keyword: str) -> tuple[str | None, str | None]:
    """Return (pattern for the mask, or None; why it must be checked later, or None)."""
    if odd := misread(pattern):
        raise SchemaError(
            f"{keyword} at {pointer(path) or 'the root'} is {pattern!r:.200}, which has {odd}: no part "
            "of the syntax of JSON Schema.",
            pointer=pointer(path),
            keyword=keyword,
            remedy="Write it without; escape what is meant literally.",
        )
    masked = _regex.to_mask(pattern)
    readable = _regex.to_python(pattern) is not None
    if masked is None or masked[0] in lowered.loosening.patterns:
        if not readable:
            why = _regex.reason(pattern)
            raise SchemaError(
                f"{keyword} at {pointer(path) or 'the root'} is {pattern!r:.200}, which is not a "
                f"regular expression that can be enforced or checked{': ' + why if why else ''}.",
                pointer=pointer(path),
                keyword=keyword,
                remedy="Write it without the part that is out of the common syntax.",
            )
        return None, "the mask has no such expression"
    lowered.patterns.add(masked[0])
    return masked[0], None if masked[1] else "look-around and word boundaries"


def _format(lowered: Lowered, site: Site) -> None:
    name = site.node["format"]
    pattern = _written.pattern_of(name) if isinstance(name, str) else None
    masked = name in _formats.MASKED and "formats" not in lowered.loosening.kinds
    if masked:
        site.out["format"] = name
        lowered.enforce(site.path, "format", name)
    if pattern is not None and "pattern" not in site.node and "formats" not in lowered.loosening.kinds:
        site.out.setdefault(_written.KEY, {"pattern": pattern})
    if name in ("date", "date-time") and masked:
        lowered.leave(site.path, "format", f"{name}: that the day exists")
    elif name in _formats.CHECKS and not masked:
        lowered.leave(site.path, "format", name)


def _write(lowered: Lowered, site: Site) -> None:
    if isinstance(site.value, dict) and "formats" not in lowered.loosening.kinds:
        site.writes(site.value)


RULES = {"pattern": _pattern, "format": _format, _written.SAID: _write}
