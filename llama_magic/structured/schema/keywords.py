"""The keywords that assert, and those without effect: of another draft, misspelt, of another type."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NamedTuple

from llama_magic.structured.schema.formats import CHECKS
from llama_magic.words import names

_OF_TYPE = {
    "string": ("minLength", "maxLength", "pattern"),
    "array": ("items", "prefixItems", "additionalItems", "contains", "minContains", "maxContains", "minItems",
              "maxItems", "uniqueItems", "unevaluatedItems"),
    "object": ("properties", "patternProperties", "additionalProperties", "propertyNames", "required",
               "minProperties", "maxProperties", "dependentRequired", "dependentSchemas", "dependencies",
               "unevaluatedProperties"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}  # fmt: skip
TYPE_OF = {keyword: kind for kind, keywords in _OF_TYPE.items() for keyword in keywords}
_ANY_TYPE = ("type", "enum", "const", "format", "allOf", "anyOf", "oneOf", "not", "if", "then", "else")
_REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef", "$defs", "definitions")
_NAMES = ("$schema", "$id", "id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary", "$comment")
_NOTES = (
    "title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly",
    "contentEncoding", "contentMediaType", "contentSchema", "discriminator", "x-write",  # the last is our own
)  # fmt: skip
ASSERTIONS = frozenset((*TYPE_OF, *_ANY_TYPE, "$dynamicRef", "$recursiveRef"))
_KNOWN = frozenset((*TYPE_OF, *_ANY_TYPE, *_REFERENCES, *_NAMES, *_NOTES))
_PLAIN_FORMATS = {name.replace("-", ""): name for name in CHECKS}
_PLAIN = {name.lower().strip("$"): name for name in (*TYPE_OF, *_ANY_TYPE, *_REFERENCES)}


# What other schema languages (OpenAPI, pydantic, Cerberus, Joi) call them.
_CALLED_ELSEWHERE = {
    "nullable": "type", "optional": "required", "property": "properties", "fields": "properties",
    "keys": "properties", "min": "minimum", "max": "maximum", "ge": "minimum", "le": "maximum",
    "gt": "exclusiveMinimum", "lt": "exclusiveMaximum", "choices": "enum", "options": "enum",
    "allowed": "enum", "values": "enum", "literal": "const", "regex": "pattern", "match": "pattern",
    "unique": "uniqueItems", "length": "maxLength", "kind": "type", "elements": "items", "extra":
    "additionalProperties", "strict": "additionalProperties",
}  # fmt: skip
_NEEDS = {"then": "if", "else": "if", "minContains": "contains", "maxContains": "contains"}


class Ignored(NamedTuple):
    """A keyword without effect; `reason` is "" where it is simply unknown."""

    pointer: str
    keyword: str
    reason: str = ""

    @property
    def note(self) -> str:
        return f"the schema's {self.keyword!r} at {self.pointer or 'the root'} has no effect: {self.reason}"


def is_known(keyword: object) -> bool:
    """Tell whether a draft of JSON Schema has this keyword, or may have it."""
    return keyword in _KNOWN or (isinstance(keyword, str) and keyword.startswith(("$", "x-")))


def without_effect(node: dict[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield (keyword, reason) of what no draft has, and of what says nothing of the named type."""
    types = node.get("type")
    named = [types] if isinstance(types, str) else types if isinstance(types, list) else []
    names = {name for name in named if isinstance(name, str)}
    for keyword in node:
        kind = TYPE_OF.get(keyword)
        if kind is not None and names and kind not in names and not (kind == "number" and "integer" in names):
            yield keyword, f"it says something of {kind}s, and the type here is {' or '.join(sorted(names))}"
        elif keyword in _NEEDS and _NEEDS[keyword] not in node:
            yield keyword, f"it says something only beside {_NEEDS[keyword]!r}"
        elif keyword not in _KNOWN:
            near = nearest(keyword)
            yield keyword, f"JSON Schema has no such keyword; did you mean {near!r}?" if near else ""
    if near := _format_meant(node.get("format")):
        yield "format", f"no such format is known; did you mean {near!r}?"


def _format_meant(value: object) -> str | None:
    """Return the format that a misspelt one was to be; others that are not known are remarks."""
    if not isinstance(value, str) or value in CHECKS:
        return None
    plain = "".join(filter(str.isalnum, value.lower()))
    found = names.nearest({"url": "uri"}.get(plain, plain), _PLAIN_FORMATS, cutoff=0.85)
    return _PLAIN_FORMATS[found[0]] if found else None


@functools.lru_cache(maxsize=1024)
def nearest(keyword: str) -> str | None:
    """Return the keyword that was likely meant, None where none is near."""
    if keyword in _CALLED_ELSEWHERE:
        return _CALLED_ELSEWHERE[keyword]
    plain = keyword.lower().replace("_", "").replace("-", "").strip("$")
    found = names.nearest(plain, _PLAIN, cutoff=0.8)
    return _PLAIN[found[0]] if found and not keyword.startswith(("x-", "_")) else None
