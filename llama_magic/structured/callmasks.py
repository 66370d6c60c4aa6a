"""Masks of answers that may call tools: a call once begun is held to its form; or none can begin."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from llama_magic.errors import BackendError
from llama_magic.request.tokenizer import Tokenizer
from llama_magic.structured.calls import CallConstraint
from llama_magic.structured.mask.matcher import GrammarMatcher
from llama_magic.structured.mask.vocab import Trie, trie_for

_MAX_KEPT = 256


class AnswerReader(Protocol):
    """What reads an answer of the family as it grows (`formatters.ReplyReader`)."""

    @property
    def state(self) -> str: ...

    def feed(self, delta: str) -> Sequence[Any]: ...


@dataclass(frozen=True)
class MayCall:
    """An answer in which the model may call a tool; a constraint of the kind "tools".

    `rest` is what may follow the mark that opens a call, None where calls are not held to a form. Unless
    `many`, an answer ends after its first call.
    """

    reader: Callable[[], AnswerReader]
    rest: CallConstraint | None
    tokenizer: Tokenizer
    many: bool
    kind: str = "tools"
    schema: Any = None

    def start(self) -> CallWatcher:
        return CallWatcher(self)


class CallWatcher:
    """The state of one answer of `MayCall`: free until a call begins."""

    def __init__(self, may: MayCall) -> None:
        self._may = may
        self._reader = may.reader()
        self._call: GrammarMatcher | None = None  # the call being written, where it is held to its form
        self._calling = self._over = False

    def prepare(self) -> None:
        if self._call is not None:
            self._call.prepare()

    def apply(self, logits: NDArray[np.float32]) -> None:
        if self._call is not None:
            self._call.apply(logits)

    def allowed_bits(self) -> NDArray[np.uint8] | None:
        return None if self._call is None else self._call.allowed_bits()

    def accept(self, token: int) -> None:
        piece = self._may.tokenizer.piece(token).decode("utf-8", "replace")
        if self._call is not None:
            self._call.accept(token)
        before = self._reader.state
        pieces = self._reader.feed(piece)
        if self._call is None and before != "tool_call" and self._reader.state == "tool_call":
            self._begin("".join(p.text for p in pieces if p.kind == "tool_call"))
        elif self._calling and (self._reader.state != "tool_call" or self._ended):
            self._call, self._calling = None, False
            self._over = not self._may.many

    @property
    def _ended(self) -> bool:
        return self._call is not None and self._call.finished

    def _begin(self, written: str) -> None:
        """Hold a call to its form, unless what was written of it with its mark is of another one."""
        self._calling = True
        if self._may.rest is None:
            return
        call = self._may.rest.start()
        try:
            for token in self._may.tokenizer.tokenize(written) if written else ():
                call.accept(token)
        except BackendError:
            return
        self._call = call

    def forced(self) -> list[int]:
        return [] if self._call is None else self._call.forced()

    @property
    def finished(self) -> bool:
        return self._over


@dataclass(frozen=True)
class NoCalls:
    """An answer in which no mark of a call (`texts`) can be written; a constraint of the kind "tools".

    `before` is the end of the prompt, where a mark may have been begun.
    """

    texts: tuple[str, ...]
    tokenizer: Tokenizer
    before: str = ""
    kind: str = "tools"
    schema: Any = None

    def start(self) -> TextAvoider:
        return TextAvoider(self.texts, self.tokenizer, self.before)


class TextAvoider:
    """The state of one answer of `NoCalls`: the tokens that would complete one of the texts are forbidden."""

    def __init__(self, texts: Sequence[str], tokenizer: Tokenizer, before: str = "") -> None:
        self._texts = [text.encode() for text in texts]
        self._tokenizer = tokenizer
        self._trie = trie_for(tokenizer)
        self._keep = max(map(len, self._texts), default=1) - 1
        self._tail = before.encode("utf-8", "replace")  # the last bytes that were written
        self._forbidden: NDArray[np.intp] | None = None

    def prepare(self) -> None:
        if self._forbidden is None:
            begun = {
                (text, size)
                for text in self._texts
                for size in range(1, min(len(text), len(self._tail) + 1))
                if self._tail.endswith(text[:size])
            }
            found = [_completing(self._trie, self._tokenizer, text, size) for text, size in begun]
            whole = [_completing(self._trie, self._tokenizer, text, 0) for text in self._texts]
            self._forbidden = np.unique(np.concatenate([*whole, *found]))

    def apply(self, logits: NDArray[np.float32]) -> None:
        self.prepare()
        assert self._forbidden is not None
        logits[self._forbidden] = -np.inf

    def allowed_bits(self) -> NDArray[np.uint8]:
        self.prepare()
        assert self._forbidden is not None
        allowed = np.ones(self._trie.n_tokens, dtype=np.uint8)
        allowed[self._forbidden] = 0
        return np.packbits(allowed, bitorder="little")

    def accept(self, token: int) -> None:
        self._tail = (self._tail + self._tokenizer.piece(token))[-self._keep :] if self._keep else b""
        self._forbidden = None

    def forced(self) -> list[int]:
        return []

    @property
    def finished(self) -> bool:
        return False


def _completing(trie: Trie, tokenizer: Tokenizer, text: bytes, size: int) -> NDArray[np.intp]:
    """Return the tokens that complete `text` after its first `size` bytes, or with 0 hold all of it."""
    key = (text, size)
    found: NDArray[np.intp] | None = trie.completing.get(key)
    if found is None:
        rest = text[size:]
        own = tokenizer.special_id(text.decode()) if not size else None
        tokens = [] if own is None else [own]
        tokens += [
            token
            for token, piece in enumerate(trie.plain)
            if (piece.startswith(rest) if size else rest in piece)
        ]
        found = trie.completing[key] = np.array(sorted(set(tokens)), dtype=np.intp)
        while len(trie.completing) > _MAX_KEPT:
            trie.completing.popitem(last=False)
    return found
