"""Reads a whole answer: whether it is an instance, and which."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from llama_magic.structured.answer.decimals import Decimals, has_decimals
from llama_magic.structured.answer.strictjson import NotJSONError, loads

Why = Callable[[str], str | None]  # text -> None, or why it is not an instance


class JsonReader:
    """The check of a JSON answer (strict JSON, every keyword, then the type's validators), and its value."""

    def __init__(self, check: Callable[[Any], str | None], adapter: Any, schema: Any) -> None:
        self._check = check
        self._adapter = adapter
        self._decimals = Decimals(schema) if adapter is not None and has_decimals(schema) else None

    def why(self, text: str) -> str | None:
        return self.read(text)[1]

    def read(self, text: str) -> tuple[Any, str | None]:
        """Return (the instance, or the value where there is no type; why it is none). Validators run once."""
        try:
            value = loads(text)
        except NotJSONError as error:
            return None, str(error)
        reason = self._check(value)
        if reason is not None or self._adapter is None:
            return value, reason
        return self._validated(text if self._decimals is None else self._decimals.exact(text))

    def _validated(self, text: str) -> tuple[Any, str | None]:
        import pydantic

        try:
            return self._adapter.validate_json(text), None
        except pydantic.ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = "".join(f"/{part}" for part in first["loc"])
            return None, f"{first['msg']} (at {place or 'the root'})"
        except Exception as error:  # a validator of the user's raised something else than ValueError
            return None, f"a validator raised {type(error).__name__}: {error!s:.200}"


def full_match(pattern: re.Pattern[str]) -> Why:
    """Return the check that a whole answer matches a pattern."""
    return lambda text: (
        None if pattern.fullmatch(text) else f"the text does not match {pattern.pattern!r:.200}"
    )
