"""Whom a thread wakes for what it does, and how often."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fake_context import Asked, FakeContext, GreedyChain, lane_of

from llama_magic.engine.lanes import running
from llama_magic.engine.lanes.shared import SharedLane
from llama_magic.model.mail import Mail
from llama_magic.request.events import TokenEvent
from llama_magic.threads import afterwards, gathered


def test_calls_are_made_at_the_end_of_what_gathers_them() -> None:
    """In their order, after an error, too; outside of it at once."""
    made: list[int] = []

    def fail() -> None:
        with gathered:
            afterwards(lambda: made.append(1))
            afterwards(lambda: made.append(2))
            assert made == []
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()
    assert made == [1, 2]
    afterwards(lambda: made.append(3))
    assert made == [1, 2, 3]


def test_a_step_of_many_answers_wakes_a_loop_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the tokens of all of them are told."""
    monkeypatch.setattr(running, "SamplerChain", GreedyChain)

    async def told() -> tuple[list[Any], int]:
        loop = asyncio.get_running_loop()
        mail, box, woken = Mail(loop), asyncio.Queue[Any](), []
        monkeypatch.setattr(loop, "call_soon_threadsafe", woken.append)
        lane = lane_of(SharedLane, FakeContext(64, 8))
        asked = [Asked([first, 2], 4) for first in (1, 2, 3, 4)]
        for one in asked:
            sink = one.job.sink
            one.job.sink = lambda event, sink=sink: (mail.put(box, event), sink(event))
            lane.submit(one.job)
        lane.step()
        while woken:
            woken.pop()()
        while not box.empty():
            box.get_nowait()
        lane.step()
        times = len(woken)
        woken.pop()()
        return [box.get_nowait() for _ in range(box.qsize())], times

    events, times = asyncio.run(told())
    assert [type(event) for event in events] == [TokenEvent] * 4
    assert times == 1


def test_who_tells_a_loop_that_was_closed_hears_of_it() -> None:
    """Also where it is closed between the telling and the end of the step: then at the next telling."""

    async def mail_of() -> Mail:
        return Mail(asyncio.get_running_loop())

    loop = asyncio.new_event_loop()
    mail, box = loop.run_until_complete(mail_of()), asyncio.Queue[int]()
    with gathered:
        mail.put(box, 1)
        loop.close()
    with pytest.raises(RuntimeError):
        mail.put(box, 2)
