"""Masks beside the decode: which thread computes them, and whom an error reaches."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from settled import WATCHDOG, joined

from llama_magic.request.events import EndEvent, FinishEvent, TokenEvent
from llama_magic.request.request import Request
from llama_magic.request.sampling import Sampling


class Parity:
    """A matcher that lets only tokens through whose id leaves a remainder of `rest` by two."""

    def __init__(self, rest: int, n_vocab: int, length: int, fails: bool = False) -> None:
        self._rest, self._length, self._fails = rest, length, fails
        self._mask: Any = None
        self._allowed = np.arange(n_vocab) % 2 == rest
        self.prepared_by: list[str] = []
        self.taken: list[int] = []

    def prepare(self) -> None:
        if self._mask is None:
            self.prepared_by.append(threading.current_thread().name)
            if self._fails and len(self.taken) == 2:
                raise ArithmeticError("no mask for the third token")
            self._mask = self._allowed

    def apply(self, logits: Any) -> None:
        self.prepare()
        logits[~self._mask] = -np.inf

    def allowed_bits(self) -> Any:
        return np.packbits(self._allowed, bitorder="little")

    def accept(self, token: int) -> None:
        self.taken.append(token)
        self._mask = None

    def forced(self) -> list[int]:
        return []

    @property
    def finished(self) -> bool:
        return len(self.taken) == self._length


def _start(model: Any, matcher: Parity, *, exact: bool) -> Callable[[], tuple[list[Any], Any]]:
    """Start a request under a matcher; returns what waits for its events and its error."""
    events: queue.SimpleQueue[Any] = queue.SimpleQueue()
    prompt = model.tokenize("One two three four")
    constraint = SimpleNamespace(kind="parity", schema=None, start=lambda: matcher)
    request = Request(prompt, 12, Sampling(temperature=0.0), 1, exact=exact, constraint=constraint)
    model.backend.submit(request, events.put)

    def wait() -> tuple[list[Any], Any]:
        seen = []
        while not isinstance(event := events.get(timeout=WATCHDOG), EndEvent):
            seen.append(event)
        return seen, event.error

    return wait


@pytest.mark.parametrize("exact", [False, True])
def test_masks_are_computed_beside_the_decode(loaded: Callable[..., Any], exact: bool) -> None:
    """Every mask is made by the thread for masks, and every drawn token is one that it allows."""
    model = loaded("short")
    matcher = Parity(1, model.backend.weights.vocab.n_tokens, 6)
    events, error = _start(model, matcher, exact=exact)()
    assert error is None
    drawn = [event.token for event in events if isinstance(event, TokenEvent)]
    assert drawn == matcher.taken
    assert [token % 2 for token in drawn] == [1] * 6
    assert matcher.prepared_by == ["llama_magic masks"] * 6


def test_a_mask_that_fails_ends_its_own_request(loaded: Callable[..., Any]) -> None:
    """An error in one request's mask comes out of that request; one decoded beside it is finished."""
    model = loaded("short")
    n_vocab = model.backend.weights.vocab.n_tokens
    bad = _start(model, Parity(0, n_vocab, 6, fails=True), exact=False)
    good = _start(model, Parity(1, n_vocab, 6), exact=False)
    events, error = bad()
    assert isinstance(error, ArithmeticError)
    assert len([event for event in events if isinstance(event, TokenEvent)]) == 2
    events, error = good()
    assert error is None
    assert [event.reason for event in events if isinstance(event, FinishEvent)] == ["stop"]


def test_the_thread_for_masks_ends_with_its_model(loaded: Callable[..., Any], path_of: Any) -> None:
    """Closing a model leaves no thread behind."""
    import llama_magic as lm

    loaded("short")  # the threads that all models share are there
    before = set(threading.enumerate())
    model = lm.load(path_of("short"), ctx=512, threads=1)
    assert model.structured("Red?", {"enum": ["red"]}, max_tokens=8).parsed == "red"
    assert {thread.name for thread in set(threading.enumerate()) - before} >= {"llama_magic masks"}
    model.close()
    joined(*set(threading.enumerate()) - before)  # they have ended; the interpreter is told a moment later
