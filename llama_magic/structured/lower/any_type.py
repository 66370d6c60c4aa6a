"""Lower what is of no one type: references, types, and values named one by one."""

from __future__ import annotations

from typing import Any

from llama_magic.errors import SchemaError
from llama_magic.structured.lower.lowered import Lowered, Rules, Site
from llama_magic.structured.lower.marks import RULE
from llama_magic.structured.lower.numbers import in_range
from llama_magic.structured.schema.negate import type_list
from llama_magic.structured.schema.regex_least import MAX_LEAST
from llama_magic.structured.schema.tree import pointer, ref_path
from llama_magic.structured.schema.values import is_number, same_value


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
    """Say both keywords at the first of them: of the values of `enum` those that `const` is."""
    keywords = [name for name in ("enum", "const") if name in site.node]
    if site.keyword != keywords[0]:
        return
    values = list(site.node["enum"]) if "enum" in site.node else [site.node["const"]]
    if len(keywords) > 1:
        values = [value for value in values if same_value(value, site.node["const"])]
        if not values:
            where = pointer(site.path) or "the root"
            lowered.impossible.append(f"the const at {where} is none of the values of its enum")
    wide = [value for value in values if is_number(value) and not in_range(value)]
    if wide:
        _wide_numbers(lowered, site, wide, [v for v in values if not any(v is other for other in wide)])
    else:
        site.out["enum"] = values
    for keyword in keywords:
        (lowered.ruled if wide else lowered.enforce)(site.path, keyword)
    if any(isinstance(value, str) and len(value) > MAX_LEAST for value in values):
        where = pointer(site.path) or "the root"
        raise SchemaError(
            f"{site.keyword} at {where} holds a text of more than {MAX_LEAST:,} characters.",
            pointer=pointer(site.path),
            keyword=site.keyword,
            remedy="Let a shorter text stand for it.",
        )


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
