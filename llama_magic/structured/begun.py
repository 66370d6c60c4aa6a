"""A constraint on an answer whose beginning is given."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llama_magic.errors import BackendError, StructuredOutputError

if TYPE_CHECKING:
    from llama_magic.request.matcher import CarriedConstraint, Matcher


class Begun:
    """The same constraint, whose answers begin with `tokens`.

    Raises `StructuredOutputError` where no answer begins so; `text` is what they say. JSON may be begun in
    any layout.
    """

    def __init__(self, constraint: CarriedConstraint, tokens: Sequence[int], text: str) -> None:
        self.inner = constraint
        self._tokens = tuple(tokens)
        self._how: dict[str, Any] = {}
        if not self._takes() and hasattr(type(constraint), "writing"):  # asking the object would compile it
            self._how = {"loose": True}
        if not self._takes():
            raise StructuredOutputError(
                f"No answer begins with {text!r:.200}.",
                text=text,
                remedy="Begin it as the schema, regex or grammar has it, or leave the beginning out.",
            )

    @property
    def kind(self) -> str:
        return self.inner.kind

    @property
    def schema(self) -> Any:
        return self.inner.schema

    def start(self) -> Matcher:
        matcher = self.inner.start(**self._how)
        for token in self._tokens:
            matcher.accept(token)
        return matcher

    def _takes(self) -> bool:
        try:
            self.start()
        except BackendError:
            return False
        return True
