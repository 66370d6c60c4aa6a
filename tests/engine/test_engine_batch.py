"""What goes into one decode, and how one that is under way is stopped."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from llama_magic.engine.lanes.batch import Batch
from llama_magic.engine.lanes.flight import Flights


def sample(sequence: int, tokens: list[int], past: int, matcher: object = None) -> Any:
    """Return what a batch asks of a running sample."""
    return SimpleNamespace(
        slot=SimpleNamespace(sequence=sequence, tokens=tokens[:past]),
        tokens=tokens,
        matcher=matcher,
        job=f"job of {sequence}",
    )


def test_a_batch_has_the_next_tokens_of_each_sample() -> None:
    """Their positions and sequences go along; logits are wanted where a sample is through, and no further."""
    batch = Batch(8)
    matcher, unused = object(), object()
    batch.add(sample(3, [10, 11, 12], 2, matcher), 8)
    batch.add(sample(5, [20, 21, 22, 23, 24], 1, unused), 3)
    batch.narrow(2)
    batch.add(sample(6, [30, 31, 32, 33], 0, unused), 8)
    batch.add(sample(7, [40], 0), 8)
    assert batch.tokens == [12, 21, 22, 23, 30, 31]
    assert batch.positions == [2, 1, 2, 3, 0, 1]
    assert batch.sequences == [3, 5, 5, 5, 6, 6]
    assert batch.outputs == [0]
    assert batch.matchers == [matcher]
    assert [part for _, part, _ in batch.parts] == [[12], [21, 22, 23], [30, 31]]
    assert batch.jobs == {"job of 3", "job of 5", "job of 6"}
    assert batch.room == 0


def test_narrowing_never_makes_room() -> None:
    """A batch that has less room keeps it."""
    batch = Batch(3)
    batch.narrow(100)
    batch.add(sample(0, [1, 2, 3, 4, 5], 0), 5)
    assert batch.tokens == [1, 2, 3]


class Watches:
    """A context that is told which flag to watch."""

    def __init__(self) -> None:
        self.flags: list[Any] = []

    def watch(self, flag: Any) -> None:
        self.flags.append(flag)


class Job:
    cancelled = False


def test_cancelling_stops_the_decode_that_a_job_is_in() -> None:
    """Others go on; the next batch, without it, has a flag of its own."""
    context = Watches()
    all_of = Flights(context)
    a, b, c = Job(), Job(), Job()
    all_of.take_off(frozenset([a, b]))
    all_of.take_off(frozenset([a, b]))
    assert len(context.flags) == 1
    all_of.cancel(c)
    assert not context.flags[0].is_set
    a.cancelled = True
    all_of.cancel(a)
    assert context.flags[0].is_set
    all_of.take_off(frozenset([b]))
    assert [flag.is_set for flag in context.flags] == [True, False]


def test_a_job_cancelled_before_it_takes_off_is_stopped() -> None:
    """So is everything after a halt."""
    context = Watches()
    all_of = Flights(context)
    a, b = Job(), Job()
    a.cancelled = True
    all_of.take_off(frozenset([a]))
    assert context.flags[-1].is_set
    all_of.halt()
    all_of.take_off(frozenset([b]))
    assert context.flags[-1].is_set
