"""What the answers of a chat have in common is held once: prompts of turn 200 begin as those of turn 199 do.

Each answer knows its prompt, its tokens and the conversation. Held by each of 200 turns of 30 tokens these
took 20 MB, for they grow with the square of the turns.
"""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from llama_magic.request.fixed import Fixed
from llama_magic.threads import module_lock

T = TypeVar("T")
KEPT = 16  # beginnings that may go on
FROM = 256  # characters, tokens; shorter values are as small as what would be held in their place
_FEW = 8  # messages
_WRITTEN = frozenset({("role", "content")})


class _Longest:
    """The longest value that was held of those that begin alike."""

    __slots__ = ("__weakref__", "value")

    def __init__(self, value: Any) -> None:
        self.value = value


class Beginning:
    """The first so many of the longest value that begins so. Copies and pickles as what it stands for."""

    __slots__ = ("_given", "_length", "_longest")

    def __init__(self, longest: _Longest, length: int, given: Callable[[Any], Any]) -> None:
        self._longest, self._length, self._given = longest, length, given

    def whole(self) -> Any:
        return self._given(self._longest.value[: self._length])

    def __reduce__(self) -> Any:
        return _same, (self.whole(),)


def _same(value: Any) -> Any:
    return value


class Once:
    """Values of one kind that may go on from each other. `given` makes what is given out of one.

    `taken` makes what is held of the end of a value, and `plain` says whether it can be held so.
    """

    def __init__(
        self,
        least: int,
        plain: Callable[[Any], bool],
        taken: Callable[[Any], Any] = _same,
        given: Callable[[Any], Any] = _same,
    ) -> None:
        self._least, self._plain, self._taken, self._given = least, plain, taken, given
        self._kept: list[weakref.ref[_Longest]] = []
        self._lock = module_lock()

    def hold(self, value: Any) -> Any:
        """Return what stands for a value: itself, or a `Beginning`."""
        if len(value) < self._least or not self._plain(value):
            return value
        with self._lock:
            kept = [(ref, longest) for ref in self._kept if (longest := ref()) is not None]
            for ref, longest in kept:
                if self._goes_on(longest, value):
                    self._kept = [ref, *(one for one, _ in kept if one is not ref)]
                    return Beginning(longest, len(value), self._given)
            longest = _Longest(self._taken(value))
            self._kept = [weakref.ref(longest), *(one for one, _ in kept)][:KEPT]
            return Beginning(longest, len(value), self._given)

    def _goes_on(self, longest: _Longest, value: Any) -> bool:
        """Say whether one of both begins with the other; the longer is held from now on."""
        held = longest.value
        common = min(len(held), len(value))
        if held[common - 1] != value[common - 1] or held[:common] != value[:common]:
            return False
        if len(value) > common:
            longest.value = held + self._taken(value[common:])
        return True


def _copied(messages: Sequence[dict[str, Any]]) -> Fixed[dict[str, Any]]:
    return Fixed(map(dict.copy, messages))


def _are_texts(messages: Any) -> bool:
    """Say whether messages are a role and a text each, in this order: those that are equal are the same."""
    # No function of ours is called once a message: a long chat asks at each turn.
    if not ({dict}.issuperset(map(type, messages)) and _WRITTEN.issuperset(map(tuple, messages))):
        return False
    return {str}.issuperset(map(type, itertools.chain.from_iterable(map(dict.values, messages))))


TEXTS = Once(FROM, lambda value: type(value) is str)
TOKENS = Once(FROM, lambda value: type(value) is Fixed, given=Fixed)
MESSAGES = Once(_FEW, lambda value: type(value) is Fixed and _are_texts(value), _copied, _copied)


def whole(held: Any) -> Any:
    """Return the value that `hold` was given."""
    return held.whole() if type(held) is Beginning else held


class HeldOnce:
    """A field of a class whose instances hold once what they have in common; a look makes the value anew."""

    def __init__(self, kind: Once) -> None:
        self._kind, self._name = kind, ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        if instance is None:
            return self
        try:
            return whole(instance.__dict__[self._name])
        except KeyError:
            raise AttributeError(self._name) from None

    def __set__(self, instance: Any, value: Any) -> None:
        instance.__dict__[self._name] = self._kind.hold(value)


def holding_once(**fields: Once) -> Callable[[type[T]], type[T]]:
    """Decorate a dataclass: these fields of it are held once."""

    def decorate(cls: type[T]) -> type[T]:
        for name, kind in fields.items():
            held = HeldOnce(kind)
            held.__set_name__(cls, name)
            setattr(cls, name, held)
        return cls

    return decorate
