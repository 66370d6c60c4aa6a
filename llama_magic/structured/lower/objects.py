"""Lower what a schema says of objects: properties, other keys, patterns of keys, counts of keys."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from llama_magic.structured import _written
from llama_magic.structured.lower.strings import mask_pattern
from llama_magic.structured.schema import regex as _regex
from llama_magic.structured.schema.bundle import Path
from llama_magic.structured.schema.schemas import simplified

if TYPE_CHECKING:
    from llama_magic.structured.lower.lower import Lowered


_MAX_NAMES = 200
_LITERAL_KEY = re.compile(r"\^([A-Za-z0-9_ -]+)\$")


def _properties(lowered: Lowered, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
    properties = {name: lowered.lower((*path, keyword, name), sub) for name, sub in node[keyword].items()}
    for name, sub in out.get(keyword, {}).items():  # from a pattern that is one name
        properties[name] = simplified({"allOf": [properties[name], sub]}) if name in properties else sub
    out[keyword] = properties
    lowered.enforce(path, keyword)


def _additional(lowered: Lowered, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
    if keyword not in out:
        out[keyword] = lowered.lower((*path, keyword), node[keyword])
        lowered.enforce(path, keyword)
    elif out[keyword] is True and node[keyword] is not True:
        # Every undeclared key was left open for the sake of patternProperties.
        lowered.leave(path, keyword, "keys that fit no pattern")
    else:  # it is within the rewrite of propertyNames
        lowered.enforce(path, keyword)


def _pattern_properties(lowered: Lowered, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
    kept: dict[str, Any] = {}
    loose = []
    for pattern, sub in node[keyword].items():
        masked, note = mask_pattern(lowered, (*path, keyword, pattern), pattern, keyword)
        schema = lowered.lower((*path, keyword, pattern), sub)
        one = _LITERAL_KEY.fullmatch(pattern)
        if one:
            out.setdefault("properties", {})[one.group(1)] = schema
            continue
        if note is None and masked is not None and "patternProperties" not in lowered.loosening.kinds:
            kept[masked] = schema
        else:
            loose.append(pattern)
    if loose:  # which keys these are cannot be told: leave every undeclared key open
        lowered.leave(path, keyword, f"keys like {loose[0]!r:.60}")
        out["additionalProperties"] = True
    elif "overlap" in lowered.loosening.kinds and len(kept) > 1:
        together = "|".join(f"(?:{pattern})" for pattern in kept)
        out[keyword] = {together: {"anyOf": list(kept.values())}}
        lowered.leave(path, keyword, "keys that several patterns fit")
    else:
        if kept:
            out[keyword] = kept
        lowered.enforce(path, keyword)


def _property_names(lowered: Lowered, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
    names = node[keyword]
    simple = isinstance(names, dict) and "patternProperties" not in node
    keys = set(names) - {"type", "title", "description", "$comment"} if isinstance(names, dict) else set()
    pattern = None
    if simple and keys == {"pattern"} and "properties" not in node:
        pattern = names["pattern"]
    elif simple and keys == {"enum"} and "properties" not in node:
        few = list(dict.fromkeys(name for name in names["enum"] if isinstance(name, str)))
        if len(few) <= _MAX_NAMES:  # each comes once then
            rest = lowered.quiet(path, node.get("additionalProperties", True))
            out["properties"], out["additionalProperties"] = dict.fromkeys(few, rest), False
            lowered.enforce(path, keyword, "rewritten")
            return
        pattern = "^(?:" + "|".join(map(_regex.literal, few)) + ")$"
    elif simple and "properties" not in node:
        _write_names(lowered, path, node, names, out)
    masked = mask_pattern(lowered, path, pattern, keyword) if pattern is not None else (None, "")
    if names is True:
        return
    if masked[0] is None or masked[1] is not None or "overlap" in lowered.loosening.kinds:
        lowered.leave(path, keyword)
        return
    rest = node.get("additionalProperties", True)
    out["patternProperties"] = {masked[0]: lowered.quiet(path, rest)}
    out["additionalProperties"] = False
    lowered.enforce(path, keyword, "rewritten")


def _write_names(lowered: Lowered, path: Path, node: Any, names: Any, out: Any) -> None:
    """Let only such keys be written as have the format that is asked of them."""
    said = names.get(_written.SAID, {})
    pattern = said.get("pattern") or _written.pattern_of_key(str(names.get("format")))
    rest = node.get("additionalProperties", True)
    if "enum" in said:
        known = dict.fromkeys(said["enum"], lowered.quiet(path, rest))
        out[_written.KEY] = {"properties": known, "additionalProperties": False}
    elif pattern is not None:
        written = {pattern: lowered.quiet(path, rest)}
        out[_written.KEY] = {"patternProperties": written, "additionalProperties": False}


def _counts(lowered: Lowered, path: Path, node: Any, keyword: str, out: Any, extra: Any) -> None:
    if keyword == "minProperties" and node[keyword] <= len(set(node.get("required", ()))):
        lowered.enforce(path, keyword)
        return
    props = node.get("properties", {})
    optional = [name for name in props if name not in node.get("required", ())]
    if "counts" in lowered.loosening.kinds:
        lowered.leave(path, keyword)
    elif not optional:
        out[keyword] = int(node[keyword])
        lowered.enforce(path, keyword)
    elif keyword == "minProperties" and node[keyword] == 1 and _closed(node) and len(optional) <= 32:
        extra.append({"anyOf": [{"required": [name]} for name in optional]})
        lowered.enforce(path, keyword, "rewritten")
    else:
        lowered.leave(path, keyword)


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
