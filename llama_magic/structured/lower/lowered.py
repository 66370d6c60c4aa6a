"""Lower a bundled schema to what the mask's compiler (llguidance) can enforce.

A rewrite is exact or it allows more; it never allows less. What it allows more is named in
`checked` and left to the check after the answer. Nothing is dropped without being named.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from llama_magic.errors import SchemaError
from llama_magic.structured.lower.marks import without_rules
from llama_magic.structured.schema.bundle import Bundle
from llama_magic.structured.schema.finite import finite
from llama_magic.structured.schema.schemas import Keyword, check_reachable, simplified, ways
from llama_magic.structured.schema.tree import Path, pointer
from llama_magic.structured.schema.written import KEY


@dataclass
class Loosening:
    """What the mask's compiler turned out not to take: leave it to the check after the answer."""

    patterns: set[str] = field(default_factory=set)
    kinds: set[str] = field(default_factory=set)  # the names in `_LADDER` of grammar/grammar.py


class Site(NamedTuple):
    """Where a rule is at work: a keyword of a schema, and what becomes of that schema.

    `out` is the lowered schema so far, `extra` what goes into its `allOf` in the end.
    """

    path: Path
    node: Any
    keyword: str
    out: dict[str, Any]
    extra: list[Any]

    @property
    def value(self) -> Any:
        """What stands under the keyword."""
        return self.node[self.keyword]

    def writes(self, narrower: dict[str, Any]) -> None:
        """Note the keywords that hold where an answer is written, in place of those of the same names."""
        self.out[KEY] = {**self.out.get(KEY, {}), **narrower}


class TooWideError(Exception):
    """Rewriting made so many branches at once that compiling them would take too long."""


_MAX_WAYS = 24
_MAX_STEPS = 60_000  # schemas lowered, rewrites among them: about a second
_MAX_LEVEL = 150  # each takes about five calls of Python's stack


class Lowered:
    """`schema` for the mask, and the lists of keywords that it enforces or leaves to be checked."""

    def __init__(self, bundle: Bundle, loosening: Loosening, by_keyword: Rules) -> None:
        self.bundle = bundle
        self.loosening = loosening
        self.by_keyword = by_keyword  # the rules by which it is lowered
        self.enforced: list[Keyword] = []
        self.checked: list[Keyword] = []
        self.rules: list[Keyword] = []  # enforced where they can be written as a Lark rule
        self.impossible: list[str] = []  # why a part of the schema has no value, where that is known
        self.patterns: set[str] = set()
        self.any_order = False  # set where the grammar takes keys in any order
        self.names: dict[str, str] = {}
        self.defs: dict[str, Any] = {}
        self.depth = 0
        self._level = 0
        self._steps = 0
        check_reachable(bundle)
        lowered, defs = self.lower((), bundle.root), self.defs
        self.schema, self.defs = finite(lowered, defs)
        if self.defs is not defs:  # a rule may refer to what is gone
            self.without_rules()
        if self.defs and self.schema is not False:
            root = self.schema if isinstance(self.schema, dict) else {}
            self.schema = {**root, "$defs": self.defs}

    def lower(self, path: Path, node: Any) -> Any:
        """Lower one schema; every 20th level becomes a definition, as llguidance reads 128 levels."""
        self._level += 1
        self._steps += 1
        try:
            if self._steps > _MAX_STEPS or self._level > _MAX_LEVEL:
                raise self._too_much(path)
            lowered = self._lower_one(path, node)
            if self._level % 20 or not isinstance(lowered, dict):
                return lowered
            name = f"h{len(self.defs)}"
            self.defs[name] = lowered
            return {"$ref": f"#/$defs/{name}"}
        finally:
            self._level -= 1

    def _lower_one(self, path: Path, node: Any) -> Any:
        if isinstance(node, bool):
            return node
        out: dict[str, Any] = {}
        extra: list[Any] = []
        for keyword in sorted(node, key=_late):
            rule = self.by_keyword.get(keyword)
            if rule is not None:
                rule(self, Site(path, node, keyword, out, extra))
        if extra:
            out["allOf"] = [*out.get("allOf", ()), *extra]
        if (
            len(out.get("allOf", ())) > 1
            and "negation" not in self.loosening.kinds
            and ways(out, 0) > _MAX_WAYS
        ):
            raise TooWideError
        if "unions" in self.loosening.kinds:
            self._fewer_ways(path, out)
        return simplified(out)

    def _too_much(self, path: Path) -> Exception:
        if self._steps > _MAX_STEPS and "negation" not in self.loosening.kinds:
            return TooWideError()  # the schema itself has fewer: it is the rewrites
        limit = (
            f"has more than {_MAX_STEPS:,} parts"
            if self._steps > _MAX_STEPS
            else f"is nested deeper than {_MAX_LEVEL} schemas, references followed"
        )
        return SchemaError(
            f"The schema {limit}, at {pointer(path) or 'the root'}.",
            pointer=pointer(path),
            remedy="Ask for a part of it at a time.",
        )

    def _fewer_ways(self, path: Path, out: Any) -> None:
        """Leave unions to the check after the answer where they multiply to more than can be compiled."""
        kept: list[Any] = []
        for part in out.get("allOf", ()):
            if ways({"allOf": [*kept, part]}, 0) <= _MAX_WAYS:
                kept.append(part)
            else:
                self.leave(path, "allOf", "too many combinations")
        if kept:
            out["allOf"] = kept
        else:
            out.pop("allOf", None)

    def without_rules(self) -> None:
        """Leave to the check after the answer what only a rule could enforce."""
        if self.rules:
            self.schema, self.defs = without_rules(self.schema), without_rules(self.defs)
        self.checked += self.rules
        self.rules.clear()

    def ruled(self, path: Path, keyword: str) -> None:
        self.rules.append(Keyword(pointer(path), keyword))

    def enforce(self, path: Path, keyword: str, note: str = "") -> None:
        self.enforced.append(Keyword(pointer(path), keyword, note))

    def leave(self, path: Path, keyword: str, note: str = "") -> None:
        self.checked.append(Keyword(pointer(path), keyword, note))

    def quiet(self, path: Path, node: Any) -> Any:
        """Lower a schema that we wrote ourselves: its keywords are not the user's."""
        enforced, checked = len(self.enforced), len(self.checked)
        result = self.lower(path, node)
        del self.enforced[enforced:]
        unsure = self.checked[checked:]
        del self.checked[checked:]
        self.checked += [keyword for keyword in unsure if keyword not in self.checked]
        return result


def _late(keyword: str) -> int:
    """Order: patterns of keys first, other keys and sets last; each looks at what came before."""
    return _ORDER.get(keyword, 1)


_SETS = ("uniqueItems", "contains", "minContains", "maxContains")
_LATE = ("additionalProperties", "enum", "const", *_SETS)
_ORDER = {"patternProperties": 0, **dict.fromkeys(_LATE, 2)}

Rule = Callable[[Lowered, Site], None]
Rules = Mapping[str, Rule]
