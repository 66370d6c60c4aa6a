"""A sequence of a result: fixed, as a tuple is, and at home among lists, which is what people have.

answer.prompt_token_ids == model.tokenize(prompt)
model.chat(answer.messages + [{"role": "user", "content": "And then?"}])
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, SupportsIndex, TypeVar, overload

T_co = TypeVar("T_co", covariant=True)


class Fixed(tuple[T_co, ...]):
    """A tuple that equals a list of the same, and takes one before or behind it: that gives a list."""

    __slots__ = ()
    __hash__ = tuple.__hash__

    def __new__(cls, items: Iterable[T_co] = ()) -> Fixed[T_co]:
        # One that is fixed already is the same, as of tuples: a long chat would hold its prompts twice.
        return items if type(items) is cls else super().__new__(cls, items)

    def __eq__(self, other: object) -> bool:
        return tuple.__eq__(self, tuple(other) if isinstance(other, list) else other)

    def __ne__(self, other: object) -> bool:
        return tuple.__ne__(self, tuple(other) if isinstance(other, list) else other)

    @overload
    def __getitem__(self, key: SupportsIndex) -> T_co: ...
    @overload
    def __getitem__(self, key: slice) -> Fixed[T_co]: ...
    def __getitem__(self, key: Any) -> Any:
        found = tuple.__getitem__(self, key)
        return Fixed(found) if isinstance(key, slice) else found

    def __add__(self, other: Any) -> Any:
        return [*self, *other] if isinstance(other, list) else tuple.__add__(self, other)

    def __radd__(self, other: Any) -> Any:
        return [*other, *self] if isinstance(other, list) else NotImplemented
