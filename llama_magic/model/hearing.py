"""What texts were cut into, told to whoever listens: a record, which a notebook is replayed from.

A tokenizer needs the model's file. A replay has none, so what it will be asked for is told to the record.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from llama_magic.request.tokenizer import Tokenizer, TooManyTokensError
from llama_magic.weakly import WeakMethods

if TYPE_CHECKING:
    from llama_magic.model.file import LoadedFile

Parts = tuple[tuple[str, bool], ...]
# Called with who was asked, how, the parts of the text, and the tokens; or the least that there are.
Listener = Callable[["Heard", str, Parts, "list[int] | int"], Any]
_listeners = WeakMethods()


def listen(listener: Listener) -> None:
    """Call a bound method with each text that a model cuts into tokens; it is held weakly."""
    _listeners.add(listener)


class Heard:
    """The tokenizer of a model, heard by listeners. Everything else of it is the tokenizer's own.

    `key` is equal for equal vocabularies: the fingerprint of the file, or this object's own.
    """

    def __init__(self, tokenizer: Tokenizer, name: str, file: LoadedFile) -> None:
        self.inner = tokenizer
        self.name = name
        self.file = file
        self.key = str(file.made_with.get("file", {}).get("fingerprint") or uuid.uuid4().hex)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def encode(self, text: str, most: int | None = None) -> list[int]:
        return self._told("prompt", ((text, False),), lambda: self.inner.encode(text, most))

    def encode_parts(
        self, parts: Iterable[tuple[str, bool]], most: int | None = None, *, begins: bool = True
    ) -> list[int]:
        if not begins:
            return self.inner.encode_parts(parts, most, begins=False)
        given = tuple((str(text), bool(literal)) for text, literal in parts)
        return self._told("parts", given, lambda: self.inner.encode_parts(given, most))

    def apart(self, text: str) -> int | None:
        return None if _listeners else self.inner.apart(text)  # who listens is told of whole prompts

    def tokenize(self, text: str) -> list[int]:
        return self._told("text", ((text, False),), lambda: self.inner.tokenize(text))

    def _told(self, how: str, parts: Parts, cut: Callable[[], list[int]]) -> list[int]:
        if not _listeners:
            return cut()
        tokens: list[int] | int
        try:
            tokens = cut()
        except TooManyTokensError as error:
            _listeners.call(self, how, parts, error.least)
            raise
        _listeners.call(self, how, parts, tokens)
        return tokens


def hearing(tokenizer: Tokenizer, name: str, file: LoadedFile) -> Tokenizer:
    """Return the tokenizer of a model as its calls use it."""
    return Heard(tokenizer, name, file)
