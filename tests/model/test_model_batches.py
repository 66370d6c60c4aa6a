"""Several prompts at once, and answers that are cut: what is written is kept, and said to be what it is."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
import json
import pickle
import signal
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, field_validator
from settled import WATCHDOG

import llama_magic as lm
from llama_magic.engine.native import Context
from llama_magic.request.request import row_seed, sample_seed
from llama_magic.testing import scripted_model

PROMPTS = ["Great!", "Terrible!", "I hate it", "Love"]
seen: list[str] = []


class Picky(BaseModel):
    """A validator that takes the first and the last of four answers."""

    word: Literal["good", "bad"]

    @field_validator("word")
    @classmethod
    def _pick(cls, value: str) -> str:
        seen.append(value)
        if len(seen) in (2, 3):
            raise ValueError(f"answer {len(seen)} is not wanted")
        return value


@pytest.fixture
def model(loaded: Callable[..., Any]) -> Any:
    seen.clear()
    return loaded("short", ctx=1024)


def test_a_bad_row_costs_no_other(model: Any) -> None:
    """The error names the first bad row and how many more; all completions are there, in order."""
    with pytest.raises(
        lm.StructuredOutputError, match=r"^Row 2 of 4 \(1 more failed, too\).*answer 2"
    ) as caught:
        model.structured(PROMPTS, Picky, max_tokens=20, seed=1)
    error = caught.value
    assert error.row == 1
    assert [type(one.parsed) for one in error.completions] == [Picky, type(None), type(None), Picky]
    for prompt, one in zip(PROMPTS, error.completions, strict=True):
        assert one.messages[-2]["content"] == prompt
        assert one.text.startswith('{"word"')
    assert error.completion is error.completions[1]


def test_a_bad_row_in_a_loop_of_tasks(model: Any) -> None:
    """`astructured` keeps the rows as `structured` does."""
    with pytest.raises(lm.StructuredOutputError, match=r"^Row ") as caught:
        asyncio.run(model.astructured(PROMPTS, Picky, max_tokens=20, seed=1))
    assert sorted(one.parsed is None for one in caught.value.completions) == [False, False, True, True]


def test_a_row_that_does_not_fit(model: Any) -> None:
    """It is named by its number, keeps its own error type, and the others are answered."""
    with pytest.raises(lm.ContextOverflowError, match=r"^Row 2 of 3: ") as caught:
        model.structured(["a", "word " * 3000, "b"], bool, max_tokens=10, seed=1)
    first, second, third = caught.value.completions
    assert second is None
    assert {type(first.parsed), type(third.parsed)} == {bool}


@contextlib.contextmanager
def _pressed_at_decode(number: int) -> Iterator[None]:
    """Press Ctrl-C when that decode begins; it goes on when this thread has heard."""
    decodes, heard, main = itertools.count(1), threading.Event(), threading.get_ident()
    decode = Context.decode

    def hear(_number: int, _frame: object) -> None:
        heard.set()
        raise KeyboardInterrupt

    def counted(self: Context, *batch: Any) -> Any:
        if next(decodes) == number:
            signal.pthread_kill(main, signal.SIGINT)
            heard.wait(WATCHDOG)
        return decode(self, *batch)

    before = signal.signal(signal.SIGINT, hear)
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Context, "decode", counted)
            yield
    finally:
        signal.signal(signal.SIGINT, before)


def test_an_interrupt_keeps_finished_rows(model: Any) -> None:
    """What is finished stays finished, what was begun or not is marked, all in order; the model goes on."""
    text = Annotated[str, Field(min_length=150, max_length=200)]

    class Stopping(BaseModel):
        value: bool

        @field_validator("value")
        @classmethod
        def _stop(cls, value: bool) -> bool:
            seen.append("row")
            if len(seen) == 2:  # the second row is finished: stop while the next ones are written
                signal.raise_signal(signal.SIGINT)
            return value

    with pytest.raises(lm.GenerationInterrupted, match=r"2 of 4 rows|3 of 4 rows|4 of 4 rows") as caught:
        model.structured(PROMPTS, Stopping, max_tokens=20, seed=1)
    rows = caught.value.completion
    assert [row.messages[-2]["content"] for row in rows] == PROMPTS
    assert all(isinstance(row.parsed, Stopping) for row in rows[:2])

    with (
        _pressed_at_decode(20),
        pytest.raises(lm.GenerationInterrupted, match="of 60 rows finished") as caught,
    ):
        model.structured([f"Tell {i}." for i in range(60)], text, max_tokens=8, seed=1)
    assert len(caught.value.completion) == 60
    begun = [row for row in caught.value.completion if row is not None]
    assert begun[0].finish_reason != begun[-1].finish_reason == "interrupted"
    assert model.complete("a", max_tokens=1, seed=1).token_ids


def test_times_of_rows(each_lane: Any) -> None:
    """Each row has its own time from its own start; what it waited stands apart.

    Where seeded rows run one at a time, the later ones wait for the others.
    """
    began = time.perf_counter()
    rows = each_lane.structured(
        ["a"] * 4, Annotated[str, Field(min_length=30, max_length=40)], max_tokens=60, seed=1
    )
    whole = time.perf_counter() - began
    times = [row.timings for row in rows]
    assert all(0 < t.first_token_s <= t.total_s <= t.waiting_s + t.total_s <= whole for t in times)
    if not each_lane.backend.call(lambda core: core.lane(exact=True).together):
        assert sum(t.total_s for t in times) <= whole  # each its own: cumulative ones would be two and a half
        assert times[3].waiting_s > times[0].waiting_s


def test_constrained_answers_are_data(model: Any) -> None:
    """They pickle, copy and go into a table; `xray` of a copy says what it cannot do."""
    import pandas as pd

    for answer in (
        model.structured("x", bool, max_tokens=10, seed=1),
        model.complete("x", regex="[a-c]{3}", max_tokens=10, seed=1),
        model.complete("x", choices=["one", "two"], max_tokens=10, seed=1),
    ):
        for other in (pickle.loads(pickle.dumps(answer)), copy.deepcopy(answer)):
            assert other == answer
            assert other.parsed == answer.parsed
            with pytest.raises(lm.OptionError, match="this process"):
                other.xray(0)
        assert pd.DataFrame([answer]).text[0] == answer.text
    constraint = model.constraint(bool)
    assert copy.deepcopy(constraint) is constraint
    with pytest.raises(TypeError, match="Pickle the schema"):
        pickle.dumps(constraint)


@pytest.mark.parametrize("limit", [1, 2, 3])
def test_a_cut_number_is_no_answer(limit: int) -> None:
    """2 of 2014 is not handed over as the year; nor a choice that others begin with."""
    model = scripted_model(["2014", "a" * 40])
    with pytest.raises(lm.StructuredOutputError, match="cut after") as caught:
        model.structured("In which year did the first world war begin?", int, max_tokens=limit, seed=1)
    assert caught.value.completion.parsed is None
    assert caught.value.text == "2014"[:limit]
    with pytest.raises(lm.StructuredOutputError, match="cut after"):
        model.complete("x", choices=["a", "a" * 40], max_tokens=1, seed=1)


def test_a_number_cut_by_a_stop_text_is_no_answer() -> None:
    """Nor is 2 of 2026, which a stop text ended; a regular expression that might go on has a note."""
    model = scripted_model(["2026", "2026", "2026", "[2026]"])
    with pytest.raises(lm.StructuredOutputError, match='stop text "0" ended the answer'):
        model.structured("A year?", int, stop="0")
    cut = model.complete("A year:", regex=r"\d+", max_tokens=2)
    assert cut.finish_reason == "length"
    assert cut.notes[-1] == "The answer was cut after 2 tokens; the regular expression lets it go on."
    whole = model.complete("A year:", regex=r"\d{4}", max_tokens=4)
    assert not any("go on" in note for note in whole.notes)
    assert model.structured("Years?", list[int], stop="3").parsed == [2026]


@pytest.mark.parametrize("row", [None, 5, float("nan"), [{"role": "user", "content": "b"}]], ids=str)
def test_a_prompt_of_a_list_that_is_no_text_is_named(row: Any) -> None:
    """Not as the message of a conversation: a gap of a column says its number."""
    with pytest.raises(lm.InputTypeError, match=r"^Row 2 of 3 prompts is .*expected a text"):
        scripted_model(["1"]).structured(["a", row, "c"], int)


def test_numbers_that_end_are_answers(model: Any) -> None:
    """Under a bounded mask a number ends by itself; 12 seeds of each are whole and valid."""
    for schema in (float, int, Annotated[float, Field(ge=0, le=1)]):
        for seed in range(4):
            answer = model.structured("How tall is Mount Everest in km?", schema, max_tokens=64, seed=seed)
            assert answer.finish_reason == "stop"
            assert isinstance(answer.parsed, (int, float))


def test_the_schema_can_be_read(model: Any) -> None:
    """`show_schema` puts descriptions, and nothing else, at the end of the last turn."""

    class Cat(BaseModel):
        name: str = Field(description="what the cat hears to", max_length=8)

    plain = model.structured("A cat.", Cat, max_tokens=40, seed=1)
    shown = model.structured("A cat.", Cat, max_tokens=40, seed=1, show_schema=True)
    assert "hears to" not in plain.prompt
    content = shown.messages[-2]["content"]
    assert content.startswith("A cat.\n\n")
    assert "what the cat hears to" in content
    assert "title" not in content
    assert content in shown.prompt


def test_rows_of_a_seeded_batch_draw_their_own_numbers(model: Any) -> None:
    """The same prompt many times gives different answers under one seed, each again alone by the seed in
    its receipt, the first by the call's own; samples of rows have no seed in common.
    """
    rows = model.structured(["Say a word."] * 6, Literal["a", "b", "c", "d"], seed=9, temperature=3.0)
    assert len({row.text for row in rows}) > 1
    assert rows[0].seed == 9
    assert len({row.seed for row in rows}) == 6
    for row in rows[:3]:
        again = model.structured("Say a word.", Literal["a", "b", "c", "d"], seed=row.seed, temperature=3.0)
        assert again.text == row.text
    tasks = model.astructured(["Say a word."] * 6, Literal["a", "b", "c", "d"], seed=9, temperature=3.0)
    assert [row.text for row in asyncio.run(tasks)] == [row.text for row in rows]
    seeds = [sample_seed(row_seed(9, row), sample) for row in range(100) for sample in range(50)]
    assert len(set(seeds)) == len(seeds)


def test_a_receipt_has_what_was_asked(model: Any) -> None:
    """Stops, overflow, reuse and the constraint as data stand in it; what was left alone does not."""
    plain = model.complete("a", max_tokens=1, seed=1).receipt
    assert "asked" not in plain
    asked = model.complete(
        "a", max_tokens=1, seed=1, stop=["x", "."], overflow="truncate-prompt", reuse=False
    ).receipt["asked"]
    assert asked == {"stop": ["x", "."], "overflow": "truncate-prompt", "reuse": False}
    schema = {"type": "integer", "minimum": 0, "maximum": 9}
    structured = model.structured("A digit?", schema, seed=1).receipt["asked"]["constraint"]
    assert structured["schema"] == json.dumps(schema)  # as text: files sort keys, and their order matters
    again = model.structured("A digit?", structured["schema"], seed=1)
    assert again.receipt["asked"]["constraint"] == structured
    for held in ({"regex": "a{2}b"}, {"choices": ["yes", 5]}, {"grammar": 'root ::= "a" | "b"'}):
        answer = model.complete("a", seed=1, max_tokens=9, **held)
        constraint = dict(answer.receipt["asked"]["constraint"])
        assert constraint.pop("kind") in ("regex", "choices", "gbnf")
        assert constraint == held


def test_a_receipt_has_all_that_was_given(model: Any) -> None:
    """What did not fit and was left out or cut stands in it whole, and only then."""
    old = [{"role": "user", "content": "old " * 2040}, {"role": "assistant", "content": "ok"}]
    messages = [*old, {"role": "user", "content": "Hi"}]
    cut = model.chat(messages, seed=1, max_tokens=4, overflow="drop-oldest").receipt
    assert cut["asked"] == {"overflow": "drop-oldest", "messages": messages}
    assert len(cut["messages"]) == 2
    text = "word " * 2000
    # Little is read: most of the window is kept for an answer that ends at once.
    cut = model.complete(text, seed=1, max_tokens=950, choices=["ok"], overflow="truncate-prompt").receipt
    assert cut["asked"]["prompt"] == text
    assert len(cut["prompt"]) < len(text)
    whole = model.chat(messages[2:], seed=1, max_tokens=2, overflow="drop-oldest").receipt
    assert whole["asked"] == {"overflow": "drop-oldest"}


def test_a_receipt_has_what_an_equal_answer_needs(model: Any) -> None:
    """Retries, template variables, the beginning, the sample are in it; time and tag stand beside it."""
    hi = [{"role": "user", "content": "Hi"}]
    retried = model.structured("A digit?", {"enum": [1, 2]}, seed=1, retries=2, tag="t")
    assert retried.receipt["asked"]["retries"] == 2
    assert (retried.tag, retried.receipt | {"tag": "t"} == retried.receipt) == ("t", False)
    assert datetime.now(UTC) - datetime.fromisoformat(retried.time) < timedelta(hours=1)
    begun = model.chat(
        [*hi, {"role": "assistant", "content": "Hello th"}], seed=1, max_tokens=2, timeout=99.0
    )
    assert begun.receipt["asked"] == {"prefill": "Hello th", "timeout": 99.0}
    odd = model.chat(hi, seed=1, max_tokens=2, template_variables={"who": ("me",)})
    asked = json.loads(json.dumps(odd.receipt))["asked"]
    assert asked == {"template_variables": '{"who": ["me"]}'}
    samples = model.complete("a", seed=5, n=3, max_tokens=2)
    assert [(r.receipt.get("sample", 0), r.receipt["asked"]) for r in samples] == [
        (i, {"n": 3, "seed": 5}) for i in range(3)
    ]
    assert [sample_seed(5, i) for i in range(3)] == [r.seed for r in samples]
