"""What fails while a context is made leaves none behind, and what another thread logs is not ours."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from scripted_gguf import Scripted

from llama_magic.engine import core
from llama_magic.engine.native import Context, Weights, WeightsOptions, backend
from llama_magic.engine.row_trials import RowTrials
from llama_magic.engine.scoring import score
from llama_magic.engine.scoring.reader import Holding
from llama_magic.errors import BackendError

ROWS = [([5, 6, 7], [(8, 9), (9,)])]


def _refuse(*_given: Any) -> Any:
    raise BackendError("No memory for that.")


def test_a_seeded_lane_that_cannot_be_tried_frees_its_context(
    scripted: Any, answers: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call is an error, its context is freed, and the next call makes another."""
    made: list[Context] = []
    question, answer = next(iter(answers.items()))

    def noted(*given: Any) -> Context:
        made.append(Context(*given))
        return made[-1]

    monkeypatch.setattr(core, "Context", noted)
    with monkeypatch.context() as failing:
        failing.setattr(RowTrials, "alike", _refuse)
        with pytest.raises(BackendError, match="No memory"):
            scripted.complete(question, seed=1, max_tokens=12)
    assert len(made) == 1
    with pytest.raises(BackendError, match="closed"):
        made[0].pointer  # noqa: B018 - to ask is to raise
    assert scripted.complete(question, seed=1, max_tokens=12).text == answer
    assert len(made) == 2


@pytest.mark.parametrize("fails", [0, 1])
def test_scoring_whose_context_cannot_be_made_is_no_worse_off_later(
    scripted: Any, monkeypatch: pytest.MonkeyPatch, fails: int
) -> None:
    """Neither a context of the wrong kind nor a closed one is kept: the next call gives the same odds."""
    engine = scripted.backend

    class Failing(Holding):
        made = 0

        def __init__(self, *given: Any) -> None:
            Failing.made += 1
            if Failing.made > fails:
                _refuse()
            super().__init__(*given)

    with monkeypatch.context() as failing:
        failing.setattr(RowTrials, "alike", lambda *_given: False)
        failing.setattr(score, "Holding", Failing)
        with pytest.raises(BackendError, match="No memory"):
            score.score(engine, ROWS)
    assert engine.side_contexts == ()
    found = score.score(engine, ROWS)
    assert [len(text) for text in found[0]] == [2, 1]
    assert score.score(engine, ROWS) == found


def test_a_model_that_is_loaded_beside_adds_nothing_to_what_is_logged(scripted_file: Scripted) -> None:
    """Of llama.cpp's lines those of this thread are collected: another load's buffers are not ours."""
    heard: list[list[str]] = []

    def load() -> None:
        with backend.captured_log() as log:
            Weights([scripted_file.path], WeightsOptions(mmap=False)).close()
        heard.append(log)

    with backend.captured_log() as ours:
        beside = threading.Thread(target=load)
        beside.start()
        beside.join()
    assert backend.buffer_sizes(heard[0])["model"] > 0
    assert ours == []
