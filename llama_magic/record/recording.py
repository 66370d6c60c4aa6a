"""Every answer of this process into a record, as it ends."""

from __future__ import annotations

import warnings
from typing import Any

from llama_magic.errors import SourceError
from llama_magic.model.journal import journal
from llama_magic.model.results import Completion
from llama_magic.record.record import Record


class Recording:
    """Keeps what is generated from now on, until `stop`; `tag` goes to answers that have none.

    An answer that cannot be kept is a warning: it is not lost to whoever asked for it.
    """

    def __init__(self, record: Record, tag: str | None = None) -> None:
        self.record = record
        self.tag = tag
        self._stopped = False
        journal.listen(self.hear, earlier=False)

    def hear(self, *made: Completion[Any]) -> None:
        """Keep the answers of a call."""
        if self._stopped:
            return
        try:
            self.record.add(*made, tag=self.tag)
        except SourceError as error:
            warnings.warn(f"The last answer is not in the record. {error}", stacklevel=2)

    def stop(self) -> None:
        """Keep nothing more, and close the file."""
        self._stopped = True
        self.record.close()
