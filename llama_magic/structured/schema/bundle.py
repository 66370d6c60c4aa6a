"""Bring any JSON schema into one document with plain `#/…` references.

The bundle is what the answer is checked against, and what the mask is lowered from. It keeps
the shape of the user's schema, so that every JSON pointer in a message is one into their text.
"""

from __future__ import annotations

import copy
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from llama_magic.errors import InputTypeError, SchemaError
from llama_magic.structured.schema.effort import Effort
from llama_magic.structured.schema.keywords import ASSERTIONS, Ignored, without_effect
from llama_magic.structured.schema.size import check_size
from llama_magic.structured.schema.tree import IN_PLACE, Path, children, pointer, ref_path, walk

DRAFTS = {"draft-03": 3, "draft-04": 4, "draft-06": 6, "draft-07": 7, "2019-09": 2019, "2020-12": 2020}
_SINCE = {
    "const": 6,
    "contains": 6,
    "propertyNames": 6,
    "if": 7,
    "then": 7,
    "else": 7,
    "dependentRequired": 2019,
    "dependentSchemas": 2019,
    "minContains": 2019,
    "maxContains": 2019,
    "unevaluatedItems": 2019,
    "unevaluatedProperties": 2019,
    "$recursiveRef": 2019,
    "prefixItems": 2020,
    "$dynamicRef": 2020,
}
_UNTIL = {"dependencies": 7, "additionalItems": 2019, "$recursiveRef": 2019}


class Bundle:
    """A schema whose references are all of the form `#/pointer`.

    `root` is the rewritten schema, `draft` the draft it names (0: none, every keyword counts),
    `ignored` the keywords without effect: of other drafts, of none, or about values of another type.
    `original` is the schema as it came; `dynamic` says that it holds references whose target depends on
    the way that led to them, which stay in `root` as they are.
    Raises `SchemaError` for what cannot be resolved.
    """

    def __init__(self, schema: Any) -> None:
        if not isinstance(schema, (dict, bool)):
            raise InputTypeError(f"A JSON schema is an object, true or false; got {type(schema).__name__}.")
        check_size(schema)
        self.original = schema
        self.root: Any = copy.deepcopy(schema)
        self.draft = _draft(schema)
        self.ignored: list[Ignored] = []
        self.dynamic = False
        self._anchors: Counter[str] = Counter()  # of references that are resolved on the way
        self._effort = 20_000
        self._places: dict[str, tuple[Path, Any]] = {}  # absolute URI or URI#anchor -> where it stands
        self._bases: dict[int, str] = {}  # id of a schema dict -> its base URI
        self._walked: set[int] = set()
        self._targets: dict[str, Any] = {}
        if self.draft == 0 and isinstance(schema, dict) and "$schema" in schema:
            reason = f"{schema['$schema']!r:.80} is no draft that is known here; 2020-12 is taken"
            self.ignored.append(Ignored("", "$schema", reason))
        self._index((), self.root, "")
        self._rewrite((), self.root)
        if self.dynamic:
            self.original = copy.deepcopy(schema)
        self.wide_multiple = self._measure()

    def spend(self) -> bool:
        """Say whether proofs about this schema may take one more step; they stop at 20,000."""
        self._effort -= 1
        return self._effort > 0

    def target(self, ref: str) -> Any:
        """Return the schema that a rewritten reference (`#/…`) points to."""
        return self._targets[ref]

    def _index(self, path: Path, node: Any, base: str) -> None:
        if not isinstance(node, dict):
            return
        key = "id" if self.draft in (3, 4) else "$id"
        name = node.get(key, node.get("id") if self.draft == 0 and not path else None)
        ref_hides = "$ref" in node and 0 < self.draft <= 7
        if isinstance(name, str) and not ref_hides:
            if name.startswith("#"):
                self._places.setdefault(base + name, (path, node))
            else:
                base = urldefrag(urljoin(base, name))[0]
                self._places.setdefault(base, (path, node))
        for anchor in ("$anchor", "$dynamicAnchor"):
            if isinstance(node.get(anchor), str):
                self._places.setdefault(f"{base}#{node[anchor]}", (path, node))
                self._anchors[node[anchor]] += anchor == "$dynamicAnchor"
        self._anchors["#"] += node.get("$recursiveAnchor") is True
        self._bases[id(node)] = base
        for relative, sub in children(node):
            self._index(path + relative, sub, base)

    def _rewrite(self, path: Path, root: Any) -> None:
        stack = [(path, root)]
        while stack:
            here, node = stack.pop()
            if not isinstance(node, dict) or id(node) in self._walked:
                continue
            self._walked.add(id(node))
            self._drop_unknown(here, node)
            for keyword in ("$dynamicRef", "$recursiveRef"):
                if keyword in node:
                    self._dynamic(keyword, node)
            if "$ref" in node:
                where, target = self._resolve(here, node)
                node["$ref"] = "#" + pointer(where)
                self._targets[node["$ref"]] = target
                stack.append((where, target))
            stack += [(here + relative, sub) for relative, sub in children(node)]

    def _dynamic(self, keyword: str, node: dict[str, Any]) -> None:
        """Make a plain reference of one that has a single target, whatever led to it."""
        anchor = str(node[keyword]).partition("#")[2] or "#"
        if "$ref" in node or self._anchors[anchor] > 1:
            self.dynamic = True
        else:
            node["$ref"] = node.pop(keyword)

    def _drop_unknown(self, path: Path, node: dict[str, Any]) -> None:
        for keyword in ("$schema", "$id", "$anchor", "$dynamicAnchor", "$recursiveAnchor", "$vocabulary"):
            node.pop(keyword, None)
        if self.draft in (0, 3, 4) and isinstance(node.get("id"), str):
            node.pop("id")
        if "$ref" in node and 0 < self.draft <= 7:
            gone = [key for key in node if key not in ("$ref", "$defs", "definitions") and key in ASSERTIONS]
            reason = "in this draft nothing counts beside $ref"
        else:
            gone = [key for key in node if self.draft and not self._knows(key)]
            reason = "the draft that the schema names does not have it"
        for keyword in gone:
            self.ignored.append(Ignored(pointer(path), keyword, reason))
            node.pop(keyword)
        self.ignored += [Ignored(pointer(path), keyword, why) for keyword, why in without_effect(node)]

    def _knows(self, keyword: str) -> bool:
        return _SINCE.get(keyword, 0) <= self.draft <= _UNTIL.get(keyword, 9999)

    def _resolve(self, path: Path, node: dict[str, Any]) -> tuple[Path, Any]:
        ref = node["$ref"]
        if not isinstance(ref, str):
            raise SchemaError(
                f"$ref at {_show(path)} is {ref!r}; expected a text such as '#/$defs/Name'.",
                pointer=pointer(path),
                keyword="$ref",
            )
        base = self._bases.get(id(node), "")
        uri, fragment = urldefrag(urljoin(base, ref) if not ref.startswith("#") else base + ref)
        for resource in (uri, "") if ref.startswith("#") else (uri,):
            start = self._places.get(resource) or (((), self.root) if resource == "" else None)
            if start is not None:
                found = self._follow(start, resource, unquote(fragment))
                if found is not None:
                    return found
        raise SchemaError(
            *self._not_found(path, ref, uri),
            pointer=pointer(path),
            keyword="$ref",
            remedy=("Put the definition into the schema, under $defs, and point to it with '#/$defs/Name'."),
        )

    def _not_found(self, path: Path, ref: str, uri: str) -> tuple[str]:
        if ref.startswith("#") or uri in self._places:
            return (
                f"$ref at {_show(path)} points to {ref!r}, and there is nothing in the schema at that place.",
            )
        return (
            f"$ref at {_show(path)} points to {ref!r}, outside the schema; nothing is fetched for a schema.",
        )

    def _follow(self, start: tuple[Path, Any], resource: str, fragment: str) -> tuple[Path, Any] | None:
        path, node = start
        if fragment and not fragment.startswith("/"):
            return self._places.get(f"{resource}#{fragment}")
        for part in ref_path(fragment):
            if isinstance(node, dict) and part in node:
                node = node[part]
            elif isinstance(node, list) and re.fullmatch("0|[1-9][0-9]*", part) and int(part) < len(node):
                node = node[int(part)]
            else:
                return None
            path = (*path, part)
        return (path, node) if isinstance(node, (dict, bool)) else None

    def _measure(self) -> bool:
        """Refuse circles and too much work; say whether `multipleOf` must be left out of the mask."""
        effort = Effort(self._in_place)
        for path, node in walk(self.root):
            effort.count(path, node)
        return effort.wide_multiple

    def _in_place(self, path: Path, node: dict[str, Any]) -> Iterator[tuple[Path, Any]]:
        """Yield the schemas that hold for the same value as this one, with their paths."""
        for relative, sub in children(node):
            if relative[0] in IN_PLACE:
                yield path + relative, sub
        if "$ref" in node:
            yield ref_path(node["$ref"]), self.target(node["$ref"])


def _draft(schema: Any) -> int:
    name = schema.get("$schema") if isinstance(schema, dict) else None
    if not isinstance(name, str):
        return 0
    return next((draft for mark, draft in DRAFTS.items() if mark in name), 0)


def _show(path: Path) -> str:
    return pointer(path) or "the root"
