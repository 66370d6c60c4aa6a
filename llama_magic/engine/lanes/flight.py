"""Stopping a decode that is under way, without a lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llama_magic.engine.native import StopFlag

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from llama_magic.engine.job import Job
    from llama_magic.engine.native import Context


class Flight:
    """The jobs that are decoded together, and the flag that stops their decode.

    A flag is never cleared: once it is set one of these jobs is cancelled, and the next batch is
    another flight. So one that is set late, by a thread that slept, stops nobody else.
    """

    def __init__(self, jobs: frozenset[Job]) -> None:
        self.jobs = jobs
        self.flag = StopFlag()


class Flights:
    """The flights of one context, one after the other: `take_off` on the compute thread, the rest on any."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._flight = Flight(frozenset())
        self._halted = False

    def take_off(self, jobs: AbstractSet[Job]) -> None:
        """Say which jobs are about to be decoded, so that `cancel()` can stop them.

        It takes no lock: either it finds the new flight, or its flag is seen here.
        """
        flight = self._flight
        if jobs != flight.jobs:
            self._flight = flight = Flight(frozenset(jobs))
            self._context.watch(flight.flag)
        stop = self._halted
        for job in jobs:
            stop = stop or job.cancelled
        if stop:
            flight.flag.set()

    def cancel(self, job: Job) -> None:
        """Stop what is decoded, if `job` (marked as cancelled before) is in it."""
        flight = self._flight
        if job in flight.jobs:
            flight.flag.set()

    def halt(self) -> None:
        """Stop what is decoded, for good."""
        self._halted = True
        self._flight.flag.set()
