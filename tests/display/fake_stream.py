"""A stream without a model: chunks from a plain thread, at a set rate, with a real completion at the end."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from llama_magic.model.results import Budget, BudgetPart, Chunk, Completion, Timings, Usage
from llama_magic.request.sampling import Sampling
from llama_magic.words.progress import Progress

PARTS = (
    BudgetPart("template", "template", 12),
    BudgetPart("system", "system", 20),
    BudgetPart("prompt", "prompt", 68),
)


def completion(
    text: str = "A dragon opened a bakery.",
    *,
    mode: str = "chat",
    seed: int = 42,
    seeded: bool = True,
    finish_reason: Any = "stop",
    n: int | None = None,
    max_tokens: int = 256,
    cached: int = 0,
    speed: float = 78.0,
    **more: Any,
) -> Completion:
    """Return a completion of `text`, 100 prompt tokens in a window of 4,096."""
    written = len(text.split()) if n is None else n
    return Completion(
        text=text,
        prompt="<|im_start|>user\nHi<|im_end|>\n",
        prompt_token_ids=tuple(range(100)),
        token_ids=tuple(range(written)),
        finish_reason=finish_reason,
        usage=Usage(100, cached, written),
        timings=Timings(0.0, 0.05, 0.1, 1.0, speed),
        seed=seed,
        seeded=seeded,
        sampling=Sampling(),
        model="smollm2",
        budget=Budget(4096, 100, max_tokens, PARTS, cached, written),
        raw_text=text,
        mode=mode,
        **more,
    )


class FakeStream:
    """Pieces of text at `rate` pieces a second (0: at once), after `reading` seconds of prompt reading."""

    def __init__(
        self,
        pieces: Sequence[str] | str,
        *,
        rate: float = 0,
        reading: float = 0.0,
        error: Any = None,
        partials: Sequence[Any] | None = None,
        fields: Sequence[str] = (),
        **options: Any,
    ) -> None:
        self.pieces = [pieces] if isinstance(pieces, str) else list(pieces)
        self.rate, self.reading, self.error, self.partials = rate, reading, error, partials
        self.fields = tuple(fields)
        self.options = options
        self.budget = Budget(4096, 100, options.get("max_tokens", 256), PARTS)
        self.cancelled = threading.Event()
        self.read_until = 0.0
        self._written: list[str] = []
        self._queue: queue.SimpleQueue[Any] = queue.SimpleQueue()

    @property
    def mode(self) -> str:
        """What the answer is made for."""
        return str(self.options.get("mode", "chat"))

    def progress(self) -> Progress | None:
        """Return how much of the prompt is read."""
        left = self.read_until - time.monotonic()
        if left <= 0:
            return None
        return Progress("prompt", int(100 * (1 - left / self.reading)), 100, unit="tokens")

    def _produce(self) -> None:
        if self.reading and self.cancelled.wait(self.reading):
            return
        start = time.monotonic()
        for index, piece in enumerate(self.pieces):
            due = start + index / self.rate if self.rate else 0.0
            if self.cancelled.wait(max(0.0, due - time.monotonic())):
                return
            self._queue.put((index, piece))
        self._queue.put(None)

    def __iter__(self) -> Iterator[Chunk]:
        self.read_until = time.monotonic() + self.reading
        threading.Thread(target=self._produce, daemon=True).start()
        text = ""
        while (item := self._queue.get()) is not None:
            index, piece = item
            text += piece
            self._written.append(piece)
            partial = self.partials[min(index, len(self.partials) - 1)] if self.partials else None
            yield Chunk(piece, text, (index,), partial=partial)
        if self.error is not None:
            raise self.error

    def cancel(self) -> None:
        """Stop the producer."""
        self.cancelled.set()

    @property
    def completion(self) -> Completion:
        """Return what was written so far."""
        if self.cancelled.is_set():
            self.options["finish_reason"] = "interrupted"
        return completion("".join(self._written), n=len(self._written), **self.options)
