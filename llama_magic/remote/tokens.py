"""Tokens of a server: asked of it where it tells them, else estimated, and said to be."""

from __future__ import annotations

import itertools
import re
import threading
from collections.abc import Iterable, Sequence
from typing import Protocol

from llama_magic.request.tokenizer import TooManyTokensError

_LONGEST = 512  # bytes; no vocabulary in use has a longer token
_BOUNDED = 1 << 20  # bytes of a text below which the server is asked, whatever its bound


class Tokens(Protocol):
    """What a server with a tokenizer is asked."""

    def tokenize(self, text: str, *, begins: bool, parse_special: bool) -> list[tuple[int, bytes | None]]:
        """Return ids, with the bytes of each where the server tells them."""

    def detokenize(self, ids: Sequence[int]) -> str: ...


class _NoMasks:
    """What constrained decoding asks of a vocabulary: a server keeps constraints by itself."""

    longest = 0
    user_defined_ids: frozenset[int] = frozenset()

    def token_bytes(self, token: int) -> bytes:
        return b""

    def apart(self, text: str) -> int | None:
        return None  # which places are such is not told


class ServerTokenizer(_NoMasks):
    """The tokenizer of a server that has `/tokenize`: exact, asked by HTTP, and remembered by token."""

    exact = True

    def __init__(
        self,
        server: Tokens,
        *,
        n_tokens: int,
        fingerprint: str,
        bos: str,
        eos: str,
        marks: Iterable[str],
        tells_special: bool = True,
    ) -> None:
        self._server = server
        self._tells_special = tells_special  # it can tokenize a mark as ordinary text
        self._pieces: dict[int, bytes] = {}
        self._unnumbered: dict[str, int] = {}
        self._lock = threading.Lock()
        self.n_tokens = n_tokens
        self.fingerprint = fingerprint
        self._special: dict[str, int] = {}
        for text in dict.fromkeys((bos, eos, *marks)):
            token = self._single(text) if text else None
            if token is not None:
                self._special[text] = token
        self.bos_id = self._special.get(bos)
        self.eos_id = self._special.get(eos, 0)
        self.eog_ids: Sequence[int] = (self.eos_id,) if eos in self._special else ()
        self.control_ids = frozenset(self._special.values())
        self.control_texts = frozenset(self._special)
        begun = self._ids("a", begins=True, parse_special=False)
        self.add_bos = self.bos_id is not None and begun[:1] == [self.bos_id]

    def _single(self, text: str) -> int | None:
        """Return the token that a text is as a control token, None where it is ordinary text."""
        ids = self._ids(text, begins=False, parse_special=True)
        if len(ids) != 1:
            return None
        if self._tells_special and len(self._ids(text, begins=False, parse_special=False)) == 1:
            return None
        return ids[0]

    def _ids(self, text: str, *, begins: bool, parse_special: bool) -> list[int]:
        found = self._server.tokenize(text, begins=begins, parse_special=parse_special)
        self._pieces.update((token, piece) for token, piece in found if piece is not None)
        return [token for token, _ in found]

    def learn(self, token: int, piece: bytes) -> None:
        """Remember the bytes of a token that an answer told."""
        self._pieces.setdefault(token, piece)

    def known(self, text: str) -> int:
        """Return a number for a piece whose id was not told: above all ids, the same each time."""
        with self._lock:
            if text not in self._unnumbered:
                self._unnumbered[text] = self.n_tokens + len(self._unnumbered)
                self._pieces[self._unnumbered[text]] = text.encode("utf-8", "replace")
            return self._unnumbered[text]

    def encode(self, text: str, most: int | None = None) -> list[int]:
        self._check(text, most)
        ids = self._ids(text, begins=True, parse_special=True)
        return ids[1:] if self.add_bos and ids[:2] == [self.bos_id] * 2 else ids

    def encode_parts(
        self, parts: Iterable[tuple[str, bool]], most: int | None = None, *, begins: bool = True
    ) -> list[int]:
        runs: list[tuple[str, bool]] = []
        for text, literal in parts:
            if runs and not literal and not runs[-1][1]:
                runs[-1] = (runs[-1][0] + text, False)
            elif text:
                runs.append((text, literal))
        self._check("".join(text for text, _ in runs), most)
        ids: list[int] = []
        for i, (text, literal) in enumerate(runs):
            ids += self._ids(text, begins=i == 0, parse_special=not literal)
        if self.add_bos and ids[:2] == [self.bos_id] * 2:
            ids = ids[1:]
        return ids

    def _check(self, text: str, most: int | None) -> None:
        if most is not None and (least := self.at_least(text)) > most:
            raise TooManyTokensError(least)

    def at_least(self, text: str) -> int:
        return len(text) // _LONGEST if len(text) > _BOUNDED else 0

    def decode(self, tokens: Sequence[int], *, special: bool = True) -> str:
        kept = [t for t in tokens if special or t not in self.control_ids]
        if self.add_bos and kept[:1] == [self.bos_id]:
            kept = kept[1:]
        if all(token in self._pieces for token in kept):
            return b"".join(self._pieces[token] for token in kept).decode("utf-8", "replace")
        return self._server.detokenize(kept)

    def piece(self, token: int) -> bytes:
        if token not in self._pieces:
            self._pieces[token] = self._server.detokenize([token]).encode("utf-8", "replace")
        return self._pieces[token]

    def text(self, token: int) -> str:
        return self.piece(token).decode("utf-8", "replace")

    def special_id(self, text: str) -> int | None:
        return self._special.get(text)

    def is_control(self, token: int) -> bool:
        return token in self.control_ids

    def tokenize(self, text: str) -> list[int]:
        return self._ids(text, begins=False, parse_special=False)


_WORD = re.compile(r"\s?\w{1,6}|\s?[^\w\s]|\s")


class EstimatedTokens(_NoMasks):
    """Stands for a tokenizer that a server does not tell: counts are estimates, pieces what it sends."""

    exact = False
    bos_id: int | None = None
    add_bos = False
    eos_id = 0
    eog_ids: Sequence[int] = ()
    control_ids: frozenset[int] = frozenset()
    control_texts: frozenset[str] = frozenset()

    def __init__(self, fingerprint: str) -> None:
        self.fingerprint = fingerprint
        self.n_tokens = 1 << 31
        self._ids: dict[str, int] = {}
        self._texts: dict[int, str] = {}
        self._free = itertools.count(1)
        self._lock = threading.Lock()

    def id_of(self, text: str) -> int:
        """Return a number for a piece of text, the same each time."""
        with self._lock:
            token = self._ids.get(text)
            if token is None:
                token = self._ids[text] = next(self._free)
                self._texts[token] = text
            return token

    def encode(self, text: str, most: int | None = None) -> list[int]:
        if most is not None and len(text) // 64 > most:
            raise TooManyTokensError(len(text) // 64)
        return [self.id_of(word) for word in _WORD.findall(text)]

    def encode_parts(
        self, parts: Iterable[tuple[str, bool]], most: int | None = None, *, begins: bool = True
    ) -> list[int]:
        return self.encode("".join(text for text, _ in parts), most)

    def at_least(self, text: str) -> int:
        return 0

    def decode(self, tokens: Sequence[int], *, special: bool = True) -> str:
        return "".join(self._texts.get(token, "") for token in tokens)

    def piece(self, token: int) -> bytes:
        return self._texts.get(token, "").encode("utf-8", "replace")

    def text(self, token: int) -> str:
        return self._texts.get(token, "")

    def special_id(self, text: str) -> int | None:
        return None

    def is_control(self, token: int) -> bool:
        return False

    def tokenize(self, text: str) -> list[int]:
        return self.encode(text)
