"""Lower what is of no one type: references, types, and values named one by one."""

from __future__ import annotations

from typing import Any

from llama_magic.errors import SchemaError
from llama_magic.structured.lower.lowered import Lowered, Rules, Site
from llama_magic.structured.lower.marks import RULE
from llama_magic.structured.lower.numbers import in_range
from llama_magic.structured.schema.negate import type_list
from llama_magic.structured.schema.regex_least import MAX_LEAST
from llama_magic.structured.schema.schemas import same
from llama_magic.structured.schema.tree import pointer, ref_path


def _copy(lowered: Lowered, site: Site) -> None:
    site.out[site.keyword] = site.value
    lowered.enforce(site.path, site.keyword)


def _ref(lowered: Lowered, site: Site) -> None:
    ref = site.node["$ref"]
    if ref not in lowered.names:
        name = lowered.names[ref] = f"d{len(lowered.names)}"
        lowered.defs[name] = lowered.lower(ref_path(ref), lowered.bundle.target(ref))
    # Beside other keywords llguidance takes no circular reference, inside allOf it does.
    mine = {"$ref": f"#/$defs/{lowered.names[ref]}"}
    if any(key in lowered.by_keyword and key != "$ref" for key in site.node):
        site.extra.append(mine)
    else:
        site.out.update(mine)
    lowered.enforce(site.path, "$ref")


def _enum(lowered: Lowered, site: Site) -> None:
    site.out["enum"] = [site.node["const"]] if site.keyword == "const" else list(site.node["enum"])
    if site.keyword == "enum" and "const" in site.node:
        site.out["enum"] = [item for item in site.node["enum"] if same(item, site.node["const"])]
    wide = [item for item in site.out["enum"] if _is_number(item) and not in_range(item)]
    if wide:
        del site.out["enum"]
        rest = [item for item in site.node.get("enum", ()) if not any(item is other for other in wide)]
        _wide_numbers(lowered, site, wide, rest)
        return
    if any(isinstance(item, str) and len(item) > MAX_LEAST for item in site.out["enum"]):
        where = pointer(site.path) or "the root"
        raise SchemaError(
            f"{site.keyword} at {where} holds a text of more than {MAX_LEAST:,} characters.",
            pointer=pointer(site.path),
            keyword=site.keyword,
            remedy="Let a shorter text stand for it.",
        )
    lowered.enforce(site.path, site.keyword)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _wide_numbers(lowered: Lowered, site: Site, wide: list[Any], rest: list[Any]) -> None:
    """Say it with a rule: llguidance's own constants are doubles."""
    out = site.out
    kinds = type_list(out.pop("type", "number"))
    wide = [item for item in wide if "number" in kinds or ("integer" in kinds and item == int(item))]
    options: list[Any] = [{"type": "number", RULE: {"numbers": wide}}] if wide else []
    options += [{"enum": rest, **({"type": kinds} if kinds != ["number"] else {})}] if rest else []
    if len(options) == 1 and not out:
        out.update(options[0])
    else:
        site.extra.append({"anyOf": options} if options else False)
    lowered.ruled(site.path, site.keyword)


def _later(lowered: Lowered, site: Site) -> None:
    lowered.leave(site.path, site.keyword)


RULES: Rules = {
    "$ref": _ref,
    "$dynamicRef": _later,
    "$recursiveRef": _later,
    "type": _copy,
    "enum": _enum,
    "const": _enum,
    "required": _copy,
}
