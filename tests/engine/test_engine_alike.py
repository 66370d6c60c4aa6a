"""A row has the same bits whatever is decoded beside it, where that is said of a context."""

from __future__ import annotations

import platform
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from llama_magic.engine.lanes.exact import ExactLane
from llama_magic.engine.lanes.together import TogetherLane
from llama_magic.engine.native import Context, alike, rows_alike

LONG = 530  # tokens: from 512 cells on llama.cpp would split a row that is alone over the threads


def _bits(context: Any, length: int, others: int, chunk: int = 60) -> bytes:
    """Return the logits of a row behind `length` tokens, decoded beside `others`, whose cells lie before."""
    context.clear()
    for start in range(0, length, chunk):
        size = min(chunk, length - start)
        tokens = [(7 * i + 5) % 9000 for i in range(start, start + size)]
        assert context.decode(tokens, range(start, start + size), [0] * size, []).name == "DONE"
        if others and not start:
            assert context.decode([3] * others, [0] * others, range(1, others + 1), []).name == "DONE"
    rows = [*range(1, others + 1), 0]
    positions = [1 if row else length for row in rows]
    assert context.decode([11] * len(rows), positions, rows, range(len(rows))).name == "DONE"
    return bytes(context.logits(others).tobytes())


@pytest.mark.parametrize("length", [40, LONG])
def test_a_row_is_the_same_alone_and_beside_others(loaded: Callable[..., Any], length: int) -> None:
    """With two threads, few cells and many, also where others were read in the middle of its prompt.

    And whether a short prompt was read at once, in small pieces, or token by token, as if written.
    """

    def look(core: Any) -> list[bytes]:
        context = Context(core.weights, replace(core.options.contexts.exact, threads=2))
        try:
            assert rows_alike(context)
            rows = [
                _bits(context, length, others) for others in ((0, 1, 6, 15) if length < LONG else (0, 15))
            ]
            return [
                *rows,
                *(_bits(context, length, 2, chunk) for chunk in ((1, 7) if length < LONG else ())),
            ]
        finally:
            context.close()

    if platform.machine() in ("x86_64", "AMD64"):  # elsewhere products may go by pairs of rows
        assert len(set(loaded("short").backend.call(look))) == 1  # its blocks have each type of the 30


def test_it_is_not_said_where_it_is_not_so(loaded: Callable[..., Any]) -> None:
    """Weights repacked for the CPU are multiplied by four rows at once, with other sums.

    Then attention is left to go as it likes, and seeded requests are decoded one at a time. The same where
    attention is not the fused one, whose sums go over the cells of others, too.
    """

    def look(core: Any) -> tuple[bool, bool]:
        context = Context(core.weights, core.options.contexts.exact)
        try:
            said = rows_alike(context)
            return said, len({alike.row_beside(context, others) for others in (0, 2, 15)}) == 1
        finally:
            context.close()

    for name in ("short", "windowed"):
        said, is_so = loaded(name).backend.call(look)
        assert said <= is_so
    assert not loaded("short", flash_attn="off").backend.call(look)[0]


def test_the_lane_is_made_by_that(loaded: Callable[..., Any]) -> None:
    """Together where rows are alike, else one at a time."""

    def lane(core: Any) -> tuple[Any, bool]:
        made = core.lane(exact=True)
        context = Context(core.weights, core.options.contexts.exact)
        try:
            return type(made), rows_alike(context)
        finally:
            context.close()

    kinds = [loaded(name).backend.call(lane) for name in ("short", "windowed")]
    assert all(kind is (TogetherLane if said else ExactLane) for kind, said in kinds)
