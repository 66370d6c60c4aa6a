"""Answers asked again by their receipts, and two answers side by side."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import llama_magic as lm
from llama_magic import display
from llama_magic.experiments.finding import find_model
from llama_magic.record.record import Record
from llama_magic.testing import Script, scripted_model

HI = [{"role": "user", "content": "Hi"}]
COLOUR = {"enum": ["red", "green"]}
CITY = {"type": "object", "properties": {"name": COLOUR, "country": COLOUR}, "required": ["name", "country"],
        "additionalProperties": False}  # fmt: skip
TOOL = {"type": "function", "function": {"name": "paint", "description": "Paint.", "parameters": CITY}}


def every_kind(model: Any) -> list[Any]:
    """Return seeded answers of every kind of call."""
    answer = model.complete(
        "Once upon a time", max_tokens=12, seed=3, stop=["zzz"], temperature=1.3, logprobs=2
    )
    chat = model.chat([{"role": "system", "content": "Be brief."}, *HI], max_tokens=9, seed=5)
    return [
        answer,
        *model.complete("The sea", n=3, max_tokens=6, seed=9),
        chat,
        model.chat([*HI, {"role": "assistant", "content": "Well"}], max_tokens=6, seed=1),
        model.chat(HI, prefill="Well", max_tokens=6, seed=1),
        model.complete("Say hi.", instruct=True, system="Be brief.", max_tokens=6, seed=1),
        model.structured("A colour?", COLOUR, seed=2, max_tokens=9, show_schema=True, pressure=True),
        model.complete("Say: ", regex="[a-z]{3,9}", seed=2, max_tokens=9),
        model.complete("Say: ", choices=["yes it is", "no"], seed=2, max_tokens=9),
        model.complete("Say: ", grammar='root ::= "a" | "b"', seed=2, max_tokens=9),
        # The room kept for an answer leaves 76 tokens of it, which are read three times.
        model.complete("long " * 3000, seed=2, max_tokens=180, regex="[a-z ]{9}", overflow="truncate-prompt"),
        model.chat([{"role": "user", "content": "old " * 2500}, {"role": "assistant", "content": "ok"}, *HI],
                   seed=2, max_tokens=4, overflow="drop-oldest"),
        model.structured("A city?", CITY, seed=2, max_tokens=30),
        model.chat(HI, tools=[TOOL], tools_as_text=True, tool_choice="paint", seed=2, max_tokens=60),
        answer.fork(4, " dark", max_tokens=6),
        chat.fork(2, "!", max_tokens=6, seed=8).fork(1, "", max_tokens=4),
    ]  # fmt: skip


def test_every_kind_comes_out_equal(loaded: Any) -> None:
    """From the completion, and from its receipt with keys sorted as a notebook saves it: the same answer."""
    model = loaded("short", ctx=256)
    for answer in every_kind(model):
        for given in (answer, json.loads(json.dumps(answer.receipt, sort_keys=True))):
            again = lm.rerun(given)
            assert again.token_ids == answer.token_ids
            assert again.receipt == answer.receipt
            assert again.parsed == answer.parsed


def test_receipts_of_before_are_read(loaded: Any) -> None:
    """A schema that stands in a receipt as it is, not as text, means the same."""
    answer = loaded("short", ctx=256).structured("A city?", CITY, seed=2, max_tokens=30)
    receipt = json.loads(json.dumps(answer.receipt))
    receipt["asked"]["constraint"]["schema"] = CITY
    assert lm.rerun(receipt).receipt == answer.receipt


def test_a_record_and_the_history_are_run_again(loaded: Any, tmp_path: Path) -> None:
    """Rows of a record, lines of an export and entries of a history are answers as well."""
    model = loaded("short")
    answer = model.complete("The sea", max_tokens=6, seed=9)
    record = Record(tmp_path / "r.sqlite")
    record.add(answer)
    line = json.loads(record.export(tmp_path / "x.jsonl").read_text("utf-8"))
    from llama_magic.session.history import HistoryEntry

    for given in (record[0], line, HistoryEntry(answer, 1)):
        assert lm.rerun(given).token_ids == answer.token_ids


def test_changes_are_options_of_the_call(loaded: Any) -> None:
    """What is changed is another, what is not is as it was; all samples where their number is changed."""
    model = loaded("short")
    answer = model.complete("The sea", n=2, max_tokens=6, seed=9, stop="zzz")[1]
    assert lm.rerun(answer).seed == answer.seed
    other = lm.rerun(answer, seed=10, max_tokens=3, temperature=0.2)
    assert (other.seed != answer.seed, other.usage.completion_tokens) == (True, 3)
    assert (other.sampling.temperature, other.sampling.top_k) == (0.2, answer.sampling.top_k)
    assert other.receipt["asked"] == {"stop": ["zzz"], "n": 2, "seed": 10}
    many = lm.rerun(answer, n=3)
    assert [one.sample for one in many] == [0, 1, 2]
    assert many[1].token_ids == answer.token_ids
    stream = model.rerun(answer, stream=True, n=1)
    assert "".join(chunk.delta for chunk in stream) == stream.completion.text
    drawn = model.complete("The sea", max_tokens=4)
    again = lm.rerun(drawn)
    assert (again.seed, again.seeded) == (drawn.seed, True)


def test_which_model_is_asked() -> None:
    """The one that wrote it, another that is given, and none where it is not here."""
    one, other = scripted_model(["a", "b"]), scripted_model(["c", "d"], name="other")
    answer = one.complete("Q", seed=1)
    assert lm.rerun(answer, model=other).text == "c"
    assert lm.rerun(answer, model=one).text == "b"
    assert find_model(answer.receipt, other) is other
    with pytest.raises(lm.OptionError, match="scripted, is not loaded"):
        lm.rerun(answer)
    for wrong in ("text", 3, {"samples": []}, {}):
        with pytest.raises(lm.InputTypeError):
            lm.rerun(wrong)


# --- diff ---------------------------------------------------------------------------------------


def test_where_two_answers_part(loaded: Any) -> None:
    """The first token that differs, what both share and held likely there, and what was asked otherwise."""
    model = loaded("short")
    one = model.complete("Once upon a time there was", max_tokens=12, seed=3)
    other = one.fork(5, one.alternatives(5)[2], max_tokens=7, temperature=0.1)
    found = lm.diff(one, other, names=("1", "2"))
    assert (found.step, found.equal) == (5, False)
    assert found.shared == "".join(one.pieces()[:5])
    assert [side.there for side in found.sides] == [one.pieces()[5], other.pieces()[5]]
    assert [side.tokens for side in found.sides] == [12, 13]
    assert found.sides[0].likely == one.alternatives(5)
    assert [a.token_id for a in found.sides[1].likely][:2] == [a.token_id for a in one.alternatives(5)][:2]
    names = {name: (a, b) for name, a, b in found.settings}
    assert names["sampling temperature"] == (one.sampling.temperature, 0.1)
    assert names["max_tokens"] == (12, 7)
    text = display.to_text(found)
    assert "1 and 2 part at token 6 (step 5), of 12 and 13" in text
    there, likeliest = found.sides[0].there, found.sides[0].likely[0]
    assert f"“{there.replace(' ', '·')}”" in text
    assert f"“{likeliest.text.replace(' ', '·')}” {likeliest.probability:.0%}, “" in text
    same = lm.diff(one, lm.rerun(one))
    assert (same.step, same.equal, same.settings) == (None, True, ())
    assert "A and B are equal: 12 tokens" in display.to_markdown(same)


def test_one_answer_goes_on_where_the_other_ends() -> None:
    """The place is the first token that only one has; without a vocabulary words are compared."""
    model = scripted_model(["red green", "red green blue", "red grey"])
    short, long, grey = (model.complete("Q", max_tokens=9, seed=i) for i in range(3))
    found = lm.diff(short, long)
    assert (found.step, found.shared) == (2, "red green")
    assert [side.there for side in found.sides] == ["", " blue"]
    assert "(the end)" in display.to_text(found)
    read = lm.diff(json.loads(json.dumps(short.receipt)), json.loads(json.dumps(grey.receipt)))
    assert (read.step, read.shared) == (1, "red")
    assert [side.there for side in read.sides] == [" green", " grey"]
    assert ("seed", 0, 2) in read.settings
    assert "not known any more" in display.to_text(read)


def test_answers_of_two_files_are_compared() -> None:
    """Other tokenizers, other files: each side is told in its own tokens."""
    one, other = scripted_model(["a b"]), scripted_model([Script("a c")], name="other")
    found = lm.diff(one.complete("Q", seed=1, logprobs=1), other.complete("Q", seed=1))
    assert ("model", "scripted", "other") in found.settings
    assert found.sides[0].likely[0].probability == pytest.approx(0.9)
    assert found.sides[1].likely == ()


def test_what_was_asked_is_not_changed_by_a_rerun() -> None:
    """Options are changed; another prompt is another call, and that is said in place of a list of options."""
    model = scripted_model(["a"])
    answer = model.complete("x")
    for name in ("prompt", "messages"):
        with pytest.raises(lm.OptionError, match="rerun asks it again"):
            lm.rerun(answer, model=model, **{name: "y"})
