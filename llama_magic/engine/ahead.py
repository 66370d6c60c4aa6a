"""Masks computed while the next batch is decoded."""

from __future__ import annotations

import queue
from collections.abc import Sequence
from typing import TYPE_CHECKING

from llama_magic.errors import BackendError
from llama_magic.threads import Latch, start_thread

if TYPE_CHECKING:
    from llama_magic.request.matcher import Matcher


class Ahead:
    """A thread that prepares matchers while llama.cpp decodes; both release the GIL.

    `start()` comes right before a decode and `wait()` right after it, so the compute thread and
    this one never hold the same matcher. Made at the first constrained request.
    """

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Sequence[Matcher] | None] = queue.SimpleQueue()
        self._done: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._ended: Latch | None = None  # of the thread that runs

    def start(self, matchers: Sequence[Matcher]) -> None:
        """Begin to compute the masks of `matchers`."""
        if self._ended is None:
            ended = Latch()
            try:
                start_thread(lambda: self._run(ended), "llama_magic masks")
            except BackendError:  # no thread is left: masks are computed when they are applied
                self._done.put(None)
                return
            self._ended = ended
        self._jobs.put(matchers)

    def wait(self) -> None:
        """Return when the masks that were begun are there."""
        self._done.get()

    def close(self) -> None:
        """End the thread; idempotent."""
        ended, self._ended = self._ended, None
        if ended is not None:
            self._jobs.put(None)
            ended.wait_long()

    def _run(self, ended: Latch) -> None:
        while (matchers := self._jobs.get()) is not None:
            for matcher in matchers:
                try:
                    matcher.prepare()
                except BaseException:
                    # Whatever it is, it comes again when the mask is applied, for the right request.
                    continue
            del matchers  # an idle thread keeps no grammar alive
            self._done.put(None)
        ended.set()
