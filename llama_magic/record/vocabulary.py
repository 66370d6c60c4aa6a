"""A tokenizer that knows the texts that were cut while a record was kept, and no others."""

from __future__ import annotations

import functools
import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from llama_magic.errors import OptionError
from llama_magic.record.database import Database
from llama_magic.request.tokenizer import TooManyTokensError, at_least

_SHOWN = 60  # characters of a text in an error


def text_key(how: str, parts: Sequence[tuple[str, bool]]) -> str:
    """Return what a text is kept under: the BLAKE2b of how it was cut and of its parts, in hexadecimal."""
    said = json.dumps([how, [[text, literal] for text, literal in parts]])
    return hashlib.blake2b(said.encode(), digest_size=16).hexdigest()


class RecordedTokenizer:
    """The tokenizer of a record's model. Raises `OptionError` for a text that was not cut then."""

    exact = True

    def __init__(self, database: Database, vocabulary: str, facts: Mapping[str, Any]) -> None:
        self._database = database
        self.fingerprint = vocabulary
        self.n_tokens: int = facts["n_tokens"]
        self.bos_id: int | None = facts["bos_id"]
        self.eos_id: int = facts["eos_id"]
        self.add_bos: bool = facts["add_bos"]
        self.eog_ids: Sequence[int] = tuple(facts["eog_ids"])
        self.longest: int = facts["longest"]
        self._lost: str = facts["lost"]
        self._control: dict[int, str] = {int(token): text for token, text in facts["control"].items()}
        self._user_defined: dict[int, str] = {
            int(token): text for token, text in facts["user_defined"].items()
        }
        self._pieces: dict[int, tuple[bytes, str]] = {}
        self.control_ids = frozenset(self._control)
        self.user_defined_ids = frozenset(self._user_defined)

    @functools.cached_property
    def control_texts(self) -> frozenset[str]:
        ends = (self._written(token)[1] for token in self.eog_ids if token not in self._control)
        return frozenset(text for text in (*self._control.values(), *ends) if len(text) > 1)

    @functools.cached_property
    def _special(self) -> dict[str, int]:
        return {text: token for token, text in (*self._user_defined.items(), *self._control.items())}

    def encode(self, text: str, most: int | None = None) -> list[int]:
        return self._known("prompt", ((text, False),))

    def apart(self, text: str) -> int | None:
        return None  # prompts were recorded whole

    def encode_parts(
        self, parts: Iterable[tuple[str, bool]], most: int | None = None, *, begins: bool = True
    ) -> list[int]:
        return self._known("parts", tuple((str(text), bool(literal)) for text, literal in parts))

    def tokenize(self, text: str) -> list[int]:
        return self._known("text", ((text, False),))

    def at_least(self, text: str) -> int:
        return at_least(text, self.longest, self._lost)

    def decode(self, tokens: Sequence[int], *, special: bool = True) -> str:
        first = 1 if self.add_bos and list(tokens[:1]) == [self.bos_id] else 0
        kept = (t for t in tokens[first:] if special or t not in self.control_ids)
        return b"".join(map(self.piece, kept)).decode("utf-8", "replace")

    def piece(self, token: int) -> bytes:
        return self._written(token)[0]

    def text(self, token: int) -> str:
        if token in self._control:
            return self._control[token]
        return self._user_defined[token] if token in self._user_defined else self._written(token)[1]

    def special_id(self, text: str) -> int | None:
        return self._special.get(text)

    def token_bytes(self, token: int) -> bytes:
        return b"" if token in self.control_ids else self.piece(token)

    def is_control(self, token: int) -> bool:
        return token in self.control_ids

    def _written(self, token: int) -> tuple[bytes, str]:
        if token not in self._pieces:
            sql = "SELECT piece, written FROM pieces WHERE vocabulary = ? AND token = ?"
            rows = self._database.read(sql, (self.fingerprint, token))
            own = self._control.get(token) or self._user_defined.get(token) or ""
            piece, written = rows[0] if rows else (own.encode(), own)
            self._pieces[token] = bytes(piece), str(written)
        return self._pieces[token]

    def _known(self, how: str, parts: tuple[tuple[str, bool], ...]) -> list[int]:
        sql = "SELECT tokens FROM texts WHERE vocabulary = ? AND text = ?"
        rows = self._database.read(sql, (self.fingerprint, text_key(how, parts)))
        if not rows:
            shown = "".join(text for text, _ in parts)
            cut = shown if len(shown) <= _SHOWN else f"…{shown[-_SHOWN:]}"
            raise OptionError(
                f"The record {self._database.path.name} does not know the text {cut!r}.",
                remedy="Load the model to ask something else, or record it first.",
            )
        tokens = json.loads(rows[0][0])
        if isinstance(tokens, int):
            raise TooManyTokensError(tokens)
        return [int(token) for token in tokens]
