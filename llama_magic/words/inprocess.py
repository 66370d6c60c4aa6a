"""What lives in one process alone: copying or pickling it is refused in words, not for some lock in it."""

from __future__ import annotations

from typing import ClassVar, NoReturn

from llama_magic.errors import InputTypeError


class InProcess:
    """Something that runs: `_what` names it, `_instead` says what to do in place of a copy."""

    __slots__ = ()
    _what: ClassVar[str]
    _instead: ClassVar[str]

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise InputTypeError(
            f"{self._what} lives in this process; it cannot be copied or pickled.", remedy=self._instead
        )
