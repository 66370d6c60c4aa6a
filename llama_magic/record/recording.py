"""Every answer of this process into a record, as it ends, and what a replay of it will ask for."""

from __future__ import annotations

import contextlib
import hashlib
import warnings
from collections.abc import Sequence
from typing import Any

from llama_magic.errors import SourceError
from llama_magic.model import hearing
from llama_magic.model.hearing import Heard, Parts
from llama_magic.model.journal import journal
from llama_magic.model.results import Completion
from llama_magic.record import facts
from llama_magic.record.record import Record
from llama_magic.record.saved import as_text
from llama_magic.record.vocabulary import text_key
from llama_magic.weakly import WeakTable
from llama_magic.words.counting import counted

_AT_ONCE = 5000  # pieces written by one statement


class Recording:
    """Keeps what is generated from now on, until `stop`; `tag` goes to answers that have none.

    An answer that cannot be kept is a warning: it is not lost to whoever asked for it.
    """

    def __init__(self, record: Record, tag: str | None = None) -> None:
        self.record = record
        self.tag = tag
        self._stopped = False
        self._lost = 0
        self._models: WeakTable[Heard, bool] = WeakTable()  # those that are written down
        self._pieces: dict[str, set[int]] = {}  # of each vocabulary, the tokens that are written down
        journal.listen(self.hear, earlier=False)
        hearing.listen(self.text)

    def hear(self, *made: Completion[Any]) -> None:
        """Keep the answers of a call; those that came out of a record are kept there."""
        new = [one for one in made if not one.replayed]
        if not new or self._stopped:
            return
        try:
            self.record.add(*new, tag=self.tag)
        except SourceError as error:
            self._lost += len(new)  # counted, as Python shows a warning of equal words only once
            which = "The last answer is" if self._lost == 1 else f"{counted(self._lost, 'answer')} are"
            warnings.warn(f"{which} not in the record. {error}", stacklevel=2)

    def text(self, heard: Heard, how: str, parts: Parts, tokens: list[int] | int) -> None:
        """Keep what a text was cut into, and of whom."""
        if not self._stopped:
            with contextlib.suppress(SourceError):  # the answer to it says so
                self._text(heard, how, parts, tokens)

    def stop(self) -> None:
        """Keep nothing more, and close the file."""
        self._stopped = True
        self.record.close()

    def _text(self, heard: Heard, how: str, parts: Parts, tokens: list[int] | int) -> None:
        write = self.record.database.write
        self._model(heard)
        if isinstance(tokens, list):
            self._write_pieces(heard, tokens)
        values = (heard.key, text_key(how, parts), as_text(tokens))
        write("INSERT OR IGNORE INTO texts (vocabulary, text, tokens) VALUES (?, ?, ?)", values)

    def _model(self, heard: Heard) -> None:
        if self._models.get(heard):
            return
        known, own = as_text(facts.of_model(heard)), as_text(facts.of_vocabulary(heard))
        name = hashlib.blake2b(known.encode(), digest_size=16).hexdigest()
        write = self.record.database.write
        write("INSERT OR IGNORE INTO vocabularies (id, facts) VALUES (?, ?)", (heard.key, own))
        sql = "INSERT OR IGNORE INTO models (id, vocabulary, facts) VALUES (?, ?, ?)"
        write(sql, (name, heard.key, known))
        self._models.put(heard, True)

    def _write_pieces(self, heard: Heard, tokens: Sequence[int]) -> None:
        known = self._pieces.setdefault(heard.key, set())
        new = sorted(set(tokens) - known)
        for start in range(0, len(new), _AT_ONCE):
            few = new[start : start + _AT_ONCE]
            values = [v for t in few for v in (heard.key, t, heard.inner.piece(t), heard.inner.text(t))]
            places = ", ".join(["(?, ?, ?, ?)"] * len(few))
            sql = f"INSERT OR IGNORE INTO pieces (vocabulary, token, piece, written) VALUES {places}"
            self.record.database.write(sql, values)
        known.update(new)
