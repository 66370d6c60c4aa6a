"""A context in memory, whose next token depends on all that a sequence holds: wrong cells, wrong token."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from fake_memory import FakeMemory, FakeState

from llama_magic.engine import core
from llama_magic.engine.ahead import Ahead
from llama_magic.engine.core import Core, EngineOptions
from llama_magic.engine.job import Job
from llama_magic.engine.lanes import running
from llama_magic.engine.lanes.lane import Lane
from llama_magic.engine.native import ContextOptions, DecodeStatus
from llama_magic.request.events import EndEvent, Event, TokenEvent
from llama_magic.request.request import Request
from llama_magic.request.sampling import Sampling

N_VOCAB = 16


def next_token(tokens: Sequence[int]) -> int:
    """Return the token that follows, in every context that holds exactly `tokens`."""
    return sum((i + 3) * (token + 1) * (token + 7) for i, token in enumerate(tokens)) % N_VOCAB


def answer(prompt: Sequence[int], length: int) -> list[int]:
    """Return the tokens that a fresh engine would write."""
    tokens = list(prompt)
    for _ in range(length):
        tokens.append(next_token(tokens))
    return tokens[len(prompt) :]


def fake_weights(*, recurrent: bool = False, window: int = 0) -> Any:
    """As `native.Weights`, of a vocabulary whose tokens are all written `x`."""
    vocab = SimpleNamespace(eog_ids=(), piece=lambda token, special=False: b"x", n_tokens=N_VOCAB)
    return SimpleNamespace(
        recurrent=recurrent,
        attends=True,
        n_swa=window,
        vocab=vocab,
        must_generate=lambda: None,
        options=SimpleNamespace(gpu_layers=0),
    )


class FakeContext(FakeMemory):
    """As `native.Context`, of `size` cells and `sequences`."""

    def __init__(self, size: int, sequences: int, window: int = 0, batch: int = 8) -> None:
        super().__init__(size, window)
        self.weights = fake_weights(recurrent=isinstance(self, FakeState), window=window)
        self.options = SimpleNamespace(sequences=sequences)
        self.n_ctx, self.n_batch = size, batch
        self.n_outputs = batch
        self.buffers = {"KV": 1000 * size, "compute": 7}
        self.rows: dict[int, Any] = {}
        self.most_used = 0
        self.decoded = 0  # tokens

    def decode(self, tokens: Any, positions: Any, sequences: Any, outputs: Any) -> DecodeStatus:
        assert 0 < len(tokens) <= self.n_batch
        if len(tokens) > sum(not cell.sequences for cell in self.cells):
            return DecodeStatus.NO_CELLS
        self.rows = {}
        self.decoded += len(tokens)
        for i, (token, position, sequence) in enumerate(zip(tokens, positions, sequences, strict=True)):
            assert position == self.span(sequence)[1] + 1
            assert self.write(sequence, position, [token])
            if i in outputs:
                self.rows[i] = np.zeros(N_VOCAB, np.float32)
                self.rows[i][next_token([held for _, held in self.held(sequence)])] = 1
        self.most_used = max(self.most_used, self.used())
        return DecodeStatus.DONE

    def logits(self, index: int) -> Any:
        return self.rows[index]

    def watch(self, flag: Any) -> None:
        pass

    def close(self) -> None:
        pass


class FakeRecurrentContext(FakeContext, FakeState):
    """As a context of a recurrent model."""


class GreedyChain:
    """As `native.SamplerChain`: the likeliest token."""

    looks_back = False
    plain_greedy = True
    closed = False

    def __init__(self, *given: Any, **options: Any) -> None:
        pass

    def close(self) -> None:
        self.closed = True


class Asked:
    """A job, and what came of it."""

    def __init__(
        self, prompt: list[int], length: int, n: int = 1, *, reuse: bool = True, exact: bool = False
    ) -> None:
        self.events: list[Event] = []
        request = Request(prompt, length, Sampling(), 0, exact=exact, n=n, reuse=reuse)
        self.job = Job.of(request, self.events.append)
        self.expected = [answer(prompt, length)] * n

    @property
    def written(self) -> list[list[int]]:
        """The tokens of each sample."""
        tokens = [event for event in self.events if isinstance(event, TokenEvent)]
        return [[event.token for event in tokens if event.sample == i] for i in range(self.job.request.n)]

    @property
    def error(self) -> BaseException | None:
        """What the job ended with, told once."""
        (end,) = [event for event in self.events if isinstance(event, EndEvent)]
        return end.error


def lane_of(kind: Callable[..., Lane], context: Any, **how: Any) -> Any:
    """Return a lane of this kind over a context in memory."""
    return kind(context, 10**6, Ahead(), **how)


def quiet(times: int) -> Callable[[], bool]:
    """Return what says so many times that nobody has rung."""
    left = iter(range(times))
    return lambda: next(left, None) is not None


def run(lane: Any, most: int = 10_000) -> None:
    """Step until nothing is left to do, each time a little further than the last, and again from one decode.

    The cells that are counted are those that are held.
    """
    for turn in range(most):
        if not lane.busy:
            return
        lane.step(quiet(turn % 5))
        assert lane.kv.used == sum(bool(c.sequences - {*lane.kv.helpers}) for c in lane.context.cells)
    raise AssertionError("The lane does not come to an end.")


def core_over(
    monkeypatch: pytest.MonkeyPatch, cells: int = 512, made: type[FakeContext] = FakeContext, **options: Any
) -> Core:
    """Return a core whose lanes are over contexts in memory, and draw greedily."""
    monkeypatch.setattr(running, "SamplerChain", GreedyChain)
    monkeypatch.setattr(core, "Context", lambda _weights, o: made(o.cells, o.sequences, batch=o.batch))
    monkeypatch.setattr(core, "rows_alike", lambda _context: False)
    weights = fake_weights(recurrent=issubclass(made, FakeState))
    return Core(weights, EngineOptions(ContextOptions(cells=cells), **options))


def answered(core: Core, prompt: Sequence[int], length: int = 2, *, exact: bool = False, n: int = 1) -> Asked:
    """Let a job run to its end."""
    one = Asked(list(prompt), length, n, exact=exact)
    core.accept(one.job)
    run(core.lane(exact=exact))
    assert one.written == one.expected
    return one
