"""Lower what a schema says of objects: properties, other keys, patterns of keys, counts of keys."""

from __future__ import annotations

import re
from typing import Any

from llama_magic.structured.lower.lowered import Lowered, Site
from llama_magic.structured.lower.strings import mask_pattern
from llama_magic.structured.schema import regex as _regex
from llama_magic.structured.schema import written as _written
from llama_magic.structured.schema.schemas import simplified

_MAX_NAMES = 200
_LITERAL_KEY = re.compile(r"\^([A-Za-z0-9_ -]+)\$")


def _properties(lowered: Lowered, site: Site) -> None:
    properties = {
        name: lowered.lower((*site.path, site.keyword, name), sub) for name, sub in site.value.items()
    }
    for name, sub in site.out.get(site.keyword, {}).items():  # from a pattern that is one name
        properties[name] = simplified({"allOf": [properties[name], sub]}) if name in properties else sub
    site.out[site.keyword] = properties
    lowered.enforce(site.path, site.keyword)


def _additional(lowered: Lowered, site: Site) -> None:
    if site.keyword not in site.out:
        site.out[site.keyword] = lowered.lower((*site.path, site.keyword), site.value)
        lowered.enforce(site.path, site.keyword)
    elif site.out[site.keyword] is True and site.value is not True:
        # Every undeclared key was left open for the sake of patternProperties.
        lowered.leave(site.path, site.keyword, "keys that fit no pattern")
    else:  # it is within the rewrite of propertyNames
        lowered.enforce(site.path, site.keyword)


def _pattern_properties(lowered: Lowered, site: Site) -> None:
    kept: dict[str, Any] = {}
    loose = []
    for pattern, sub in site.value.items():
        masked, note = mask_pattern(lowered, (*site.path, site.keyword, pattern), pattern, site.keyword)
        schema = lowered.lower((*site.path, site.keyword, pattern), sub)
        one = _LITERAL_KEY.fullmatch(pattern)
        if one:
            site.out.setdefault("properties", {})[one.group(1)] = schema
            continue
        if note is None and masked is not None and "patternProperties" not in lowered.loosening.kinds:
            kept[masked] = schema
        else:
            loose.append(pattern)
    if loose:  # which keys these are cannot be told: leave every undeclared key open
        lowered.leave(site.path, site.keyword, f"keys like {loose[0]!r:.60}")
        site.out["additionalProperties"] = True
    elif "overlap" in lowered.loosening.kinds and len(kept) > 1:
        together = "|".join(f"(?:{pattern})" for pattern in kept)
        site.out[site.keyword] = {together: {"anyOf": list(kept.values())}}
        lowered.leave(site.path, site.keyword, "keys that several patterns fit")
    else:
        if kept:
            site.out[site.keyword] = kept
        lowered.enforce(site.path, site.keyword)


def _property_names(lowered: Lowered, site: Site) -> None:
    names = site.value
    simple = isinstance(names, dict) and "patternProperties" not in site.node
    keys = set(names) - {"type", "title", "description", "$comment"} if isinstance(names, dict) else set()
    pattern = None
    if simple and keys == {"pattern"} and "properties" not in site.node:
        pattern = names["pattern"]
    elif simple and keys == {"enum"} and "properties" not in site.node:
        few = list(dict.fromkeys(name for name in names["enum"] if isinstance(name, str)))
        if len(few) <= _MAX_NAMES:  # each comes once then
            rest = lowered.quiet(site.path, site.node.get("additionalProperties", True))
            site.out["properties"], site.out["additionalProperties"] = dict.fromkeys(few, rest), False
            lowered.enforce(site.path, site.keyword, "rewritten")
            return
        pattern = "^(?:" + "|".join(map(_regex.literal, few)) + ")$"
    elif simple and "properties" not in site.node:
        _write_names(lowered, site, names)
    masked = mask_pattern(lowered, site.path, pattern, site.keyword) if pattern is not None else (None, "")
    if names is True:
        return
    if masked[0] is None or masked[1] is not None or "overlap" in lowered.loosening.kinds:
        lowered.leave(site.path, site.keyword)
        return
    rest = site.node.get("additionalProperties", True)
    site.out["patternProperties"] = {masked[0]: lowered.quiet(site.path, rest)}
    site.out["additionalProperties"] = False
    lowered.enforce(site.path, site.keyword, "rewritten")


def _write_names(lowered: Lowered, site: Site, names: Any) -> None:
    """Let only such keys be written as have the format that is asked of them."""
    said = names.get(_written.SAID, {})
    pattern = said.get("pattern") or _written.pattern_of_key(str(names.get("format")))
    rest = site.node.get("additionalProperties", True)
    if "enum" in said:
        known = dict.fromkeys(said["enum"], lowered.quiet(site.path, rest))
        site.writes({"properties": known, "additionalProperties": False})
    elif pattern is not None:
        written = {pattern: lowered.quiet(site.path, rest)}
        site.writes({"patternProperties": written, "additionalProperties": False})


def _counts(lowered: Lowered, site: Site) -> None:
    if site.keyword == "minProperties" and site.value <= len(set(site.node.get("required", ()))):
        lowered.enforce(site.path, site.keyword)
        return
    props = site.node.get("properties", {})
    optional = [name for name in props if name not in site.node.get("required", ())]
    if "counts" in lowered.loosening.kinds:
        lowered.leave(site.path, site.keyword)
    elif not optional:
        site.out[site.keyword] = int(site.value)
        lowered.enforce(site.path, site.keyword)
    elif site.keyword == "minProperties" and site.value == 1 and _closed(site.node) and len(optional) <= 32:
        site.extra.append({"anyOf": [{"required": [name]} for name in optional]})
        lowered.enforce(site.path, site.keyword, "rewritten")
    else:
        lowered.leave(site.path, site.keyword)


def _closed(node: Any) -> bool:
    return node.get("additionalProperties") is False and not node.get("patternProperties")


RULES = {
    "properties": _properties,
    "patternProperties": _pattern_properties,
    "additionalProperties": _additional,
    "propertyNames": _property_names,
    "minProperties": _counts,
    "maxProperties": _counts,
}
