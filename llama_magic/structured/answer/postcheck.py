"""The check after the answer: every keyword, with jsonschema, in the meaning of the named draft.

A bundle has only references of the form `#/…`, so it is checked as one opaque document. A schema with
dynamic references is checked in its original form, with its own identifiers and anchors.
"""

from __future__ import annotations

import contextvars
import functools
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any

from llama_magic.structured.answer import library
from llama_magic.structured.schema import formats as _formats
from llama_magic.structured.schema import regex as _regex
from llama_magic.structured.schema.bundle import Bundle

_Rule = Callable[[Any, Any, Any, Any], Iterator[Any]]


class Checker:
    """Checks values against a bundle, or one schema in it; `why(value)` is None or the reason in one line."""

    def __init__(self, bundle: Bundle, node: Any = None) -> None:
        library.load()
        self._bundle = bundle
        self._node = node
        self._validator: Any = None

    def why(self, value: Any) -> str | None:
        """Return what is wrong with a value and where, None if it is valid."""
        from jsonschema.exceptions import best_match

        token = _seen.set({})
        try:
            if self._validator is None:
                whole = _validator(self._bundle)
                self._validator = whole if self._node is None else whole.evolve(schema=self._node)
            error = best_match(self._validator.iter_errors(value))
        except RecursionError:
            return "the value is nested too deep to be checked"
        except Exception as error:  # an answer that is written is never lost to the library beneath
            return f"the schema cannot be checked on it ({type(error).__name__}: {error!s:.200})"
        finally:
            _seen.reset(token)
        if error is None:
            return None
        place = "".join(f"/{part}" for part in error.absolute_path)
        return f"{error.message:.300} (at {place or 'the root'}, keyword {error.validator})"


# What was found for each (value, reference) of the check that is under way: ten levels of ten
# references to each other are 10^10 checks otherwise.
_Key = tuple[int, str, tuple[str, ...]]
_seen: contextvars.ContextVar[dict[_Key, list[Any]]] = contextvars.ContextVar("seen")


def _ref(validator: Any, ref: str, instance: Any, schema: Any) -> Iterator[Any]:
    """Check a reference once for each value (equal values that are one object are equally right)."""
    from jsonschema import ValidationError

    found = _seen.get()
    # Where a dynamic reference leads depends on the resources on the way; without any there is one.
    resolver = validator._resolver
    way = dict.fromkeys((resolver._base_uri, *(uri for uri, _ in resolver.dynamic_scope())))
    key = (id(instance), ref, tuple(way))
    if key not in found:
        errors = list(validator._validate_reference(ref=ref, instance=instance))
        found[key] = [ValidationError.create_from(error) for error in errors[:1]]
        yield from errors
    else:  # one error is enough to say it again: all of them, at each level, would multiply
        yield from map(ValidationError.create_from, found[key])


def _validator(bundle: Bundle) -> Any:
    """Return jsonschema's validator of a bundle."""
    from referencing import Registry, Specification

    validator_class = _validator_class(bundle.draft == 2019, bundle.dynamic)
    if bundle.dynamic:
        return validator_class(bundle.original, registry=Registry(), format_checker=_format_checker())
    root = Specification.OPAQUE.create_resource(bundle.root)
    resolver = Registry().resolver_with_root(root)
    return validator_class(bundle.root, format_checker=_format_checker(), _resolver=resolver)


@functools.lru_cache(maxsize=4)
def _validator_class(draft_2019: bool, dynamic: bool) -> Any:
    from jsonschema import Draft201909Validator, Draft202012Validator, validators

    rules = {
        "$ref": _ref,
        "items": _items,
        "additionalItems": _nothing,
        "multipleOf": _multiple_of,
        "pattern": _pattern,
        "patternProperties": _pattern_properties,
        "additionalProperties": _additional_properties,
        "minimum": _bound("minimum", "exclusiveMinimum", lambda v, b: v < b, lambda v, b: v <= b),
        "maximum": _bound("maximum", "exclusiveMaximum", lambda v, b: v > b, lambda v, b: v >= b),
        "exclusiveMinimum": _exclusive("exclusiveMinimum"),
        "exclusiveMaximum": _exclusive("exclusiveMaximum"),
    }
    if dynamic:
        rules["$dynamicRef"] = _ref
    else:  # of other drafts the bundle has left what counts
        rules["dependencies"] = _dependencies
    if draft_2019 and dynamic:
        del rules["$dynamicRef"]
    return validators.extend(Draft201909Validator if draft_2019 else Draft202012Validator, rules)


@functools.lru_cache(maxsize=1)
def _format_checker() -> Any:
    from jsonschema import FormatChecker

    checker = FormatChecker(formats=())
    checker.checkers = {
        name: (functools.partial(_string_format, check), ()) for name, check in _formats.CHECKS.items()
    }
    return checker


def _string_format(check: Callable[[str], bool], value: Any) -> bool:
    return not isinstance(value, str) or check(value)


def _error(message: str) -> Any:
    from jsonschema import ValidationError

    return ValidationError(message)


def _nothing(validator: Any, value: Any, instance: Any, schema: Any) -> Iterator[Any]:
    return iter(())


def _items(validator: Any, items: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """Check `items` in both meanings: a schema for the rest, or (to draft 2019-09) a list of schemas."""
    if not validator.is_type(instance, "array"):
        return
    if isinstance(items, list):
        for index, (item, sub) in enumerate(zip(instance, items, strict=False)):
            yield from validator.descend(item, sub, path=index, schema_path=index)
        first, rest = len(items), schema.get("additionalItems", True)
    else:
        first, rest = len(schema.get("prefixItems", ())), items
    if rest is True:
        return
    if rest is False and len(instance) > first:
        yield _error(f"Expected at most {first} items, got {len(instance)}")
        return
    for index in range(first, len(instance)):
        yield from validator.descend(instance[index], rest, path=index)


def _dependencies(validator: Any, needs: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    for name, need in needs.items():
        if name not in instance:
            continue
        if isinstance(need, list):
            for other in need:
                if other not in instance:
                    yield _error(f"{other!r} is a dependency of {name!r}")
        else:
            yield from validator.descend(instance, need, schema_path=name)


def _multiple_of(validator: Any, step: Any, instance: Any, schema: Any) -> Iterator[Any]:
    """Check multiples in decimal, as the numbers are written: 1.11 is a multiple of 0.01."""
    if validator.is_type(instance, "number") and Fraction(str(instance)) % Fraction(str(step)):
        yield _error(f"{instance} is not a multiple of {step}")


def _pattern(validator: Any, pattern: str, instance: Any, schema: Any) -> Iterator[Any]:
    compiled = _regex.to_python(pattern)
    if isinstance(instance, str) and compiled is not None and not compiled.search(instance):
        yield _error(f"{instance!r:.100} does not match {pattern!r}")


def _pattern_properties(validator: Any, patterns: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    for pattern, sub in patterns.items():
        compiled = _regex.to_python(pattern)
        for name, value in instance.items():
            if compiled is not None and compiled.search(name):
                yield from validator.descend(value, sub, path=name, schema_path=pattern)


def _additional_properties(validator: Any, rest: Any, instance: Any, schema: Any) -> Iterator[Any]:
    if not validator.is_type(instance, "object"):
        return
    patterns = [compiled for p in schema.get("patternProperties", ()) if (compiled := _regex.to_python(p))]
    extras = [
        name
        for name in instance
        if name not in schema.get("properties", ()) and not any(p.search(name) for p in patterns)
    ]
    if rest is False and extras:
        yield _error(f"Additional properties are not allowed: {', '.join(map(repr, extras))}")
    elif rest is not True:
        for name in extras:
            yield from validator.descend(instance[name], rest, path=name)


def _bound(
    low: str, exclusive: str, out: Callable[[Any, Any], bool], out_open: Callable[[Any, Any], bool]
) -> _Rule:
    def rule(validator: Any, bound: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if not validator.is_type(instance, "number"):
            return
        test = out_open if schema.get(exclusive) is True else out  # draft 4's switch
        if test(instance, bound):
            yield _error(f"{instance!r} is beyond the {low} of {bound!r}")

    return rule


def _exclusive(keyword: str) -> _Rule:
    def rule(validator: Any, bound: Any, instance: Any, schema: Any) -> Iterator[Any]:
        if isinstance(bound, bool) or not validator.is_type(instance, "number"):
            return
        if (instance <= bound) if keyword == "exclusiveMinimum" else (instance >= bound):
            yield _error(f"{instance!r} is not inside the {keyword} of {bound!r}")

    return rule
