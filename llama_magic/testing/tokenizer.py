"""A tokenizer of words, whose counts a reader can check by hand."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Iterable, Sequence

from llama_magic.request.tokenizer import checked_ids

_WORD = re.compile(r"\s*\S+|\s+")


class WordTokenizer:
    """One token a word with the blanks before it, one for each control text, one for each byte.

    Under a constraint answers are written byte by byte: those tokens alone are known to the masks.
    """

    exact: bool = True
    eos_id: int = 256
    bos_id: int | None = None
    add_bos: bool = False
    user_defined_ids: frozenset[int] = frozenset()
    longest: int = 0  # a word may have any length

    def __init__(self, controls: Iterable[str] = (), n_tokens: int = 8192) -> None:
        self.n_tokens = n_tokens
        marks = list(dict.fromkeys(("</s>", *controls)))
        self._special = {text: 256 + i for i, text in enumerate(marks)}
        self.control_ids = frozenset(self._special.values())
        self.control_texts = frozenset(self._special)
        self.eog_ids: Sequence[int] = (self.eos_id,)
        self.fingerprint = f"words:{n_tokens}:{marks}"
        self._texts = {token: text for text, token in self._special.items()}
        self._words: dict[str, int] = {}
        self._free = itertools.count(256 + len(marks))
        self._lock = threading.Lock()
        longest_first = sorted(marks, key=len, reverse=True)
        self._marks = re.compile("(" + "|".join(map(re.escape, longest_first)) + ")")

    def encode(self, text: str, most: int | None = None) -> list[int]:
        return self.encode_parts([(text, False)], most)

    def apart(self, text: str) -> int | None:
        return 0  # no word reaches from one part into the next

    def encode_parts(
        self, parts: Iterable[tuple[str, bool]], most: int | None = None, *, begins: bool = True
    ) -> list[int]:
        tokens: list[int] = []
        for text, literal in parts:
            for piece in [text] if literal else self._marks.split(text):
                if not literal and piece in self._special:
                    tokens.append(self._special[piece])
                else:
                    tokens += [token for word in _WORD.findall(piece) for token in self._word(word)]
        return tokens

    def encode_held(self, text: str) -> list[int]:
        """Return the tokens of an answer under a constraint that knows marks: these, bytes between them."""
        tokens: list[int] = []
        for piece in self._marks.split(text):
            tokens += [self._special[piece]] if piece in self._special else self.tokenize(piece)
        return tokens

    def at_least(self, text: str) -> int:
        return 0

    def _word(self, word: str) -> list[int]:
        with self._lock:
            if word not in self._words:
                token = next(self._free)
                if token >= self.n_tokens:
                    return self.tokenize(word)
                self._words[word] = token
                self._texts[token] = word
            return [self._words[word]]

    def decode(self, tokens: Sequence[int], *, special: bool = True) -> str:
        kept = (t for t in checked_ids(self, tokens, "The list") if special or t not in self.control_ids)
        return b"".join(self.piece(token) for token in kept).decode("utf-8", "replace")

    def piece(self, token: int) -> bytes:
        return bytes([token]) if token < 256 else self._texts.get(token, "").encode("utf-8", "replace")

    def text(self, token: int) -> str:
        return f"<0x{token:02X}>" if token < 256 else self._texts.get(token, "")

    def special_id(self, text: str) -> int | None:
        return self._special.get(text)

    def token_bytes(self, token: int) -> bytes:
        return bytes([token]) if token < 256 else b""

    def is_control(self, token: int) -> bool:
        return token >= 256

    def tokenize(self, text: str) -> list[int]:
        return list(text.encode("utf-8", "replace"))
