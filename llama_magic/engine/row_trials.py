"""Whether rows of a model are alike, as trials found it: remembered beside the crash checks' verdicts.

A trial decodes 40 rows before the first token of the first answer that asks for it. What it finds depends on
file, build, processor and options, and on nothing else, so it is tried once for each of these.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llama_magic.engine import crash_check
from llama_magic.engine.contexts import TRIAL_CELLS
from llama_magic.engine.native import RowByRow
from llama_magic.errors import BackendError
from llama_magic.sources.disk.cache import write_json

if TYPE_CHECKING:
    from llama_magic.engine.native import Context, ContextOptions

Attempt = Callable[["Context"], bool]


@dataclass(frozen=True)
class RowTrials:
    """The trials of one file's weights; `store` is where they are remembered, None for nowhere.

    `facts` are what tells these weights, this build and this processor from others.
    """

    store: Path | None = None
    facts: Any = None
    found: dict[str, bool] = field(default_factory=dict, compare=False)  # in this process

    @classmethod
    def of(cls, store: Path, header: str, paths: Sequence[str], weights: Any) -> RowTrials:
        """Return those of weights that are held so (`WeightsOptions`), from files with that header."""
        files = crash_check.stamp(paths)
        return cls(store, [header, files, asdict(weights), crash_check.loaded_build(), crash_check.cpu()])

    def tried(self, options: ContextOptions, make: Callable[[], Context], attempt: Attempt) -> bool:
        """Return what is known of contexts of these options, else what `attempt` finds in one for that.

        Also False where there is no memory for it.
        """
        known = self.known(options)
        if known is None:
            with contextlib.suppress(BackendError), contextlib.closing(make()) as context:
                return self.alike(context, options, attempt)
        return bool(known)

    def alike(self, context: Context, options: ContextOptions, attempt: Attempt) -> bool:
        """Return what is known of a fresh context of these options, else what `attempt` finds.

        It is brought to where rows are alike; `options` may be of another size.
        """
        known = self.known(options)
        if known is None or (known and not RowByRow(context).ask(True)):
            known = self.found[self._key(options)] = attempt(context)
            if self.store is not None:
                _remember(self.store, self._key(options), known)
        return known

    def known(self, options: ContextOptions) -> bool | None:
        """Return what was found in a context of these options, whatever its size; None where nothing was."""
        key = self._key(options)
        if key not in self.found and self.store is not None:
            found = _read(self.store).get(key)
            if isinstance(found, bool):
                self.found[key] = found
        return self.found.get(key)

    def _key(self, options: ContextOptions) -> str:
        # A trial looks at the first cells only, however many there are.
        facts = [self.facts, asdict(replace(options, cells=min(options.cells, TRIAL_CELLS)))]
        return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()[:32]


def _remember(store: Path, key: str, found: bool) -> None:
    # A disk that is full or read-only costs the trial again in the next process, nothing more. Of two
    # processes that write at once the last one wins, whole.
    with contextlib.suppress(OSError):
        store.parent.mkdir(parents=True, exist_ok=True)
        write_json(store, {**_read(store), key: found})


def _read(store: Path) -> dict[str, Any]:
    try:
        found = json.loads(store.read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
