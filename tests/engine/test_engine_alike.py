"""A row has the same bits whatever is decoded beside it, where that is said of a context."""

from __future__ import annotations

import io
import json
import os
import platform
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

import llama_magic as lm
from llama_magic.engine import core, crash_check
from llama_magic.engine.lanes.exact import ExactLane
from llama_magic.engine.lanes.together import TogetherLane
from llama_magic.engine.native import Context, ContextOptions, WeightsOptions, alike, rows_alike
from llama_magic.engine.native.weights import Adapter
from llama_magic.engine.row_trials import RowTrials
from llama_magic.engine.scoring import score
from llama_magic.errors import BackendError

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


# --- what is remembered of that -----------------------------------------------------------------

OPTIONS = ContextOptions(cells=4096, sequences=18, batch=64, ubatch=64, threads=1)
HELD = WeightsOptions()


class Attempts:
    """Trials that end as they are told to, and are counted. Contexts are not looked at where they fail."""

    def __init__(self, *, found: bool = False) -> None:
        self.found, self.made = found, 0

    def __call__(self, context: Any) -> bool:
        self.made += 1
        return self.found


def _tried(attempts: Attempts, trials: RowTrials, options: ContextOptions = OPTIONS) -> bool:
    """Ask for a trial in a context that is not looked at."""
    return trials.tried(options, lambda: cast("Any", io.BytesIO()), attempts)


def test_what_a_trial_found_is_remembered_by_all_that_it_depends_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another header, file, way of holding weights, option, build or processor is tried; another size not."""
    file = tmp_path / "model.gguf"
    file.write_bytes(b"weights")
    store, attempts = tmp_path / "rows_alike.json", Attempts()

    def trials(header: str = "a", held: WeightsOptions = HELD) -> RowTrials:
        return RowTrials.of(store, header, [str(file)], held)

    for _ in range(2):
        assert not _tried(attempts, trials())
        assert not _tried(attempts, trials(), replace(OPTIONS, cells=512))
    assert attempts.made == 1
    lora = Adapter(file, 1.0, (1, 2), "f")
    for made, other in enumerate(
        ({"threads": 2}, {"flash_attn": "on"}, {"type_k": "q8_0"}, {"adapters": (lora,)}), 2
    ):
        for _ in range(2):
            _tried(attempts, trials(), replace(OPTIONS, **other))
        assert attempts.made == made
    _tried(attempts, trials("b"))
    _tried(attempts, trials(held=replace(HELD, use_extra_bufts=False)))
    assert attempts.made == 7
    for name in ("loaded_build", "cpu"):
        with monkeypatch.context() as another:
            another.setattr(crash_check, name, lambda: "another")
            _tried(attempts, trials())
    assert attempts.made == 9
    os.utime(file, ns=(1, 1))
    _tried(attempts, trials())
    assert attempts.made == 10


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[1]", b"\xff\xfe", b'{"K": 0}', b'{"K": "false"}', b'{"K": null}']
)
def test_what_is_remembered_wrongly_is_tried_again(tmp_path: Path, content: bytes) -> None:
    """A damaged store costs a trial, and is written anew."""
    store, attempts = tmp_path / "rows_alike.json", Attempts()
    trials = RowTrials.of(store, "a", [], HELD)
    _tried(attempts, trials)
    (key,) = json.loads(store.read_text())
    store.write_bytes(content.replace(b"K", key.encode()))
    for _ in range(2):
        assert not _tried(attempts, RowTrials.of(store, "a", [], HELD))
    assert attempts.made == 2
    assert json.loads(store.read_text()) == {key: False}


def test_a_store_that_cannot_be_written_costs_a_trial_in_each_process(tmp_path: Path) -> None:
    """And only there: an engine does not try twice."""
    store, attempts = tmp_path / "rows_alike.json", Attempts()
    store.mkdir()
    for made in (1, 2):
        trials = RowTrials.of(store, "a", [], HELD)
        for _ in range(2):
            assert not _tried(attempts, trials)
        assert attempts.made == made


def test_want_of_memory_is_not_remembered(tmp_path: Path) -> None:
    """A trial that could not be made says nothing of the rows."""

    def fails() -> Any:
        raise BackendError("No memory for that.")

    trials = RowTrials.of(tmp_path / "rows_alike.json", "a", [], HELD)
    assert not trials.tried(OPTIONS, fails, Attempts(found=True))
    assert trials.known(OPTIONS) is None


def test_a_context_is_brought_to_where_rows_are_known_to_be_alike(
    loaded: Callable[..., Any], tmp_path: Path
) -> None:
    """Without a trial it computes as one that was tried; its rows have the same bits beside others."""
    never = Attempts()

    def look(core: Any) -> None:
        options = core.options.contexts.trial
        found = []
        for attempt in (rows_alike, never):
            trials = RowTrials.of(tmp_path / "rows_alike.json", "a", [], core.weights.options)
            context = Context(core.weights, options)
            try:
                found.append(trials.alike(context, options, attempt))
                rows = {alike.row_beside(context, others) for others in (0, 15)}
                assert len(rows) == 1 or not found[-1]
            finally:
                context.close()
        assert found[0] == found[1]

    loaded("short").backend.call(look)
    assert never.made == 0


def test_a_model_that_is_loaded_again_makes_no_trial(
    scripted_file: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At first answers that are certain or seeded, nor when texts are scored; all is as with one."""
    monkeypatch.setenv("LLAMA_MAGIC_CACHE", str(tmp_path / "cache"))
    made: list[Any] = []

    def counted(context: Any) -> bool:
        made.append(context.options)
        return rows_alike(context)

    for module in (core, score):
        monkeypatch.setattr(module, "rows_alike", counted)
    answers = []
    for _ in range(2):
        with lm.load(scripted_file.path, ctx=512, threads=1) as model:
            scored = score.score(model.backend, [([1], [[2, 3], [4]])])
            certain, seeded = (
                model.complete("a", max_tokens=2, **how).text for how in ({"temperature": 0}, {"seed": 1})
            )
            answers.append((scored, certain, seeded))
    assert answers[0] == answers[1]
    assert len(made) == len({*map(str, made)}) == 2
