"""Seeded answers of a file written again: n of n, or the first token that differs and what is another."""

from __future__ import annotations

import functools
import itertools
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from scripted_gguf import EOS, chain

import llama_magic as lm
from llama_magic import command, display
from llama_magic.display.views.experiments.verification import reasons
from llama_magic.doors import Door, through
from llama_magic.experiments import finding
from llama_magic.loading.opening import loaded
from llama_magic.model.earlier import Earlier
from llama_magic.model.journal import journal
from llama_magic.record.record import Record
from llama_magic.testing import scripted_model as script
from llama_magic.words.amounts import duration

HI = [{"role": "user", "content": "Hi"}]
LONG = " ".join(f"word{i}" for i in range(90))  # more than 256 tokens: long enough for threads to matter


def notebook(path: Path, *results: Any) -> Path:
    """Write a notebook whose cells have these results as outputs, its keys sorted as nbformat sorts them."""
    cells: list[dict[str, Any]] = [
        {"cell_type": "markdown", "metadata": {}, "source": ["# Title"], "id": "a"}
    ]
    for number, result in enumerate(results):
        output = {"output_type": "display_data", "metadata": {}, "data": display.mimebundle(result)}
        cells.append(
            {"cell_type": "code", "metadata": {}, "source": [], "execution_count": None, "outputs": [output],
             "id": f"c{number}"}
        )  # fmt: skip
    whole = {"cells": cells, "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    path.write_text(json.dumps(whole, sort_keys=True), "utf-8")
    return path


@pytest.fixture(scope="module")
def answers(loaded: Callable[..., Any]) -> list[Any]:
    """Fourteen seeded answers of every kind, and two without a seed."""
    model = loaded("short")
    made: list[Any] = [model.complete("The sea", max_tokens=5, seed=seed) for seed in range(7)]
    made += [model.chat(HI, max_tokens=5, seed=1), model.complete(LONG, max_tokens=20, seed=0)]
    made += [model.structured("A colour?", {"enum": ["red", "green"]}, seed=2, max_tokens=9)]
    made += [made[0].fork(2, " so", max_tokens=3)]
    return [
        *made,
        model.complete("The sea", n=3, max_tokens=5, seed=9),
        model.complete("The sea", max_tokens=2),
    ]


@pytest.fixture(scope="module")
def of_the_demo(loaded: Callable[..., Any], short_demo: Path) -> Iterator[list[Any]]:
    """Answers of the demo model, which is found on the disk where it is to be loaded with other options."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(short_demo)
        patch.setenv("PYTHONPATH", os.pathsep.join((str(short_demo), os.environ["PYTHONPATH"])))
        model = loaded("short")
        yield [*(model.complete("The sea", max_tokens=5, seed=seed) for seed in range(7)),
               model.complete(LONG, max_tokens=20, seed=0)]  # fmt: skip


def test_all_come_out_equal(answers: list[Any], tmp_path: Path) -> None:
    """The badge counts them; history and record are not told; what has no seed is counted apart."""
    path = notebook(tmp_path / "a.ipynb", *answers)
    before = len(journal)
    found = lm.verify(path)
    assert (found.badge, found.unseeded, bool(found)) == ("14 of 14 answers come out equal here", 1, True)
    assert [verdict.where for verdict in found.verdicts][-3:] == [f"cell 13, sample {i}" for i in (1, 2, 3)]
    assert len(journal) == before
    text = display.to_text(found)
    assert text.splitlines() == [
        "verify: 14 of 14 answers come out equal here",
        "1 answer without a seed was not compared",
        f"it took {duration(found.seconds)}",
    ]
    assert found.seconds > 0


def test_a_saved_schema_keeps_the_order_of_its_fields(loaded: Callable[..., Any], tmp_path: Path) -> None:
    """Fields out of alphabetical order are written in their order when a saved notebook is verified."""
    schema = "name: Literal['Lyon', 'Rome'], country: Literal['France', 'Italy']"
    answer = loaded("short").structured("A city?", schema, seed=2, max_tokens=40)
    assert list(answer.parsed) == ["name", "country"]
    assert lm.verify(notebook(tmp_path / "a.ipynb", answer)).badge == "1 of 1 answer comes out equal here"


def test_a_schema_that_lost_its_order_is_named(loaded: Callable[..., Any], tmp_path: Path) -> None:
    """Receipts of before hold the schema itself, and a notebook sorted its fields: that is what differs."""
    schema = "name: Literal['Lyon', 'Rome'], country: Literal['France', 'Italy']"
    model = loaded("short")
    whole, one = (
        model.structured("A city?", s, seed=2, max_tokens=40).receipt for s in (schema, "name: int")
    )
    for receipt in (whole, one):
        receipt["asked"]["constraint"]["schema"] = json.loads(receipt["asked"]["constraint"]["schema"])
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(json.dumps({"receipt": r}, sort_keys=True) for r in (whole, one)), "utf-8")
    first, second = lm.verify(path, model=model).verdicts
    assert second.equal
    assert first.reasons[0][0] == "order of the schema's fields"
    assert "order of the schema's fields: lost in this file, saved by an earlier version" in reasons(first)


def test_our_own_notebooks_keep_the_order_of_fields() -> None:
    """Receipts in them hold each schema as text: none was saved before that was so."""
    for path in (Path(__file__).parents[2] / "notebooks").glob("*.ipynb"):
        receipts = re.findall(r'"constraint": \{.*?"schema": (.)', path.read_text("utf-8"), re.DOTALL)
        assert set(receipts) <= {'"'}, path.name


def test_records_exports_and_answers_are_verified_too(answers: list[Any], tmp_path: Path) -> None:
    """A record by path or as it is, its export, a list: each with the place of its answers."""
    record = Record(tmp_path / "r.sqlite")
    record.add(*answers[:3])
    export = record.export(tmp_path / "x.jsonl")
    for of, where in (
        (record, "answer 3"),
        (record.path, "answer 3"),
        (export, "line 3"),
        (answers[:3], "answer 3"),
    ):
        found = lm.verify(of)
        assert (found.equal, found.total, found.verdicts[-1].where) == (3, 3, where)
    assert lm.verify(answers[0]).badge == "1 of 1 answer comes out equal here"
    assert lm.verify(answers[-1]).badge == "No seeded answer in these answers"
    assert lm.verify(answers[-1])


@pytest.mark.parametrize("field", ["token_ids", "text", "both", "cut"])
def test_a_receipt_that_was_changed_differs(answers: list[Any], tmp_path: Path, field: str) -> None:
    """Whatever of an answer was changed in a file, its tokens or its text alone, it is another."""
    saved = json.loads(notebook(tmp_path / "a.ipynb", answers[0], answers[1]).read_text("utf-8"))
    bundle = saved["cells"][-1]["outputs"][0]["data"]
    receipt = bundle["application/vnd.llama-magic.v1+json"]
    if field in ("token_ids", "both"):
        receipt["token_ids"][2] += 1
    if field in ("text", "both"):
        receipt["text"] = receipt["text"].replace(" ", " not ", 1) + "."
    if field == "cut":
        receipt["token_ids"].pop()
    (tmp_path / "a.ipynb").write_text(json.dumps(saved), "utf-8")
    found = lm.verify(tmp_path / "a.ipynb")
    assert [verdict.equal for verdict in found.verdicts] == [True, False]
    if field in ("token_ids", "cut"):
        assert found.verdicts[1].step == (2 if field == "token_ids" else 4)


def ways(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to each value of JSON data, at most three steps long."""
    if way:
        yield way
    if isinstance(value, dict) and len(way) < 3:
        for key in value:
            yield from ways(value[key], (*way, key))


def test_a_damaged_receipt_costs_no_other(answers: list[Any], tmp_path: Path) -> None:
    """Whatever stands in a field, or if it is missing, it is judged, and so is what comes after it."""
    sound = answers[9].receipt
    data = json.loads(notebook(tmp_path / "a.ipynb", answers[0]).read_text("utf-8"))
    deep: Any = []
    for _ in range(500):
        deep = [deep]
    missing = object()
    for way, value in itertools.product(ways(sound), (missing, None, -1, 2**70, "x", ["x"], {"a": 1}, deep)):
        changed = json.loads(json.dumps(sound))
        place = functools.reduce(lambda data, step: data[step], way[:-1], changed)
        if value is missing:
            del place[way[-1]]
        else:
            place[way[-1]] = value
        output = {"data": {"application/vnd.llama-magic.v1+json": {**changed, "seeded": True}}}
        data["cells"].insert(-1, {"outputs": [output]})
    (tmp_path / "a.ipynb").write_text(json.dumps(data), "utf-8")
    found = lm.verify(tmp_path / "a.ipynb")
    assert len(found.verdicts) == len(data["cells"]) - 1 > 300
    assert found.verdicts[-1].equal
    said = [verdict.error for verdict in found.verdicts if verdict.error.startswith("The receipt is damaged")]
    assert "The receipt is damaged: its token_ids is missing." in said
    assert f"The receipt is damaged: its seed is {2**70}; expected a whole number." in said


def test_a_receipt_says_of_which_text_and_sample_it_is(scripted: Any) -> None:
    """One of a text that lost its prompt, and one of a sample that its call has not, are named, by both."""
    sound = scripted.complete("a", n=2, seed=1, max_tokens=2)[1].receipt
    lost = {name: value for name, value in sound.items() if name != "prompt"}
    for damaged, said in ((lost, "its prompt is missing"), ({**sound, "sample": 7}, "sample 7 (from 0)")):
        (verdict,) = lm.verify([damaged], model=scripted).verdicts
        assert said in verdict.error
        with pytest.raises(lm.LlamaMagicError, match=re.escape(said)):
            lm.rerun(damaged, model=scripted)


def test_the_number_of_threads_is_no_reason_where_rows_are_alike(
    of_the_demo: list[Any], path_of: Callable[[str], Path]
) -> None:
    """Attention then looks at each row by itself, and no sum is split over the threads."""
    with lm.load(path_of("short"), ctx=2048, threads=2) as model:
        alike = model.backend.call(lambda core: core.lane(exact=True).together)
    assert bool(lm.verify(of_the_demo, threads=2)) >= alike


def test_what_is_another_is_named(of_the_demo: list[Any], path_of: Callable[[str], Path]) -> None:
    """Another KV type: the first token that differs, and that as the reason."""
    option, reason = {"kv_type": "q8_0"}, ("KV type", "f16", "q8_0")
    found = lm.verify(of_the_demo[:-1], **option)
    verdict = next(v for v in found.verdicts if not v.equal)
    assert (bool(found), verdict.reasons) == (False, (reason,))
    then = of_the_demo[int(verdict.where.removeprefix("answer ")) - 1]
    with lm.load(path_of("short"), **{"ctx": 2048, "threads": 1, **option}) as model:
        now = lm.rerun(then, model=model)
    assert verdict.step == next(i for i, (a, b) in enumerate(zip(then.token_ids, now.token_ids)) if a != b)  # noqa: B905 - as far as both go
    assert (verdict.expected, verdict.found) == (then.pieces()[verdict.step], now.pieces()[verdict.step])
    assert f"{reason[0]}: {reason[1]}, here {reason[2]}" in display.to_text(found)


def test_another_file_is_named(scripted_model: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that is not here is not replaced in silence: who answers in its place is another file."""
    one = scripted_model(chain("a", "b", "c", EOS))
    answer = one.complete("a", seed=1, max_tokens=4)
    other = scripted_model(chain("a", "b", "d", EOS))
    one.close()
    (verdict,) = lm.verify([answer], model=other).verdicts
    assert (verdict.step, verdict.expected, verdict.found) == (0, "bc", "bd")  # other vocabularies: words
    assert [reason[0] for reason in verdict.reasons] == ["file"]
    assert "scripted-0.gguf" in verdict.reasons[0][1]
    said = display.to_text(lm.verify([answer, answer], model=other)).replace("\n", " ")
    assert f"2 answers are of {verdict.reasons[0][1]}, which was not found here: load it" in said
    monkeypatch.setattr(finding, "models_here", lambda: [other])
    assert lm.verify([answer]).verdicts[0].reasons == verdict.reasons
    monkeypatch.setattr(finding, "models_here", list)
    (verdict,) = lm.verify([answer]).verdicts
    assert "scripted-0.gguf, is not on this disk" in verdict.error
    assert verdict.error.endswith("the model to ask: model=PATH.")
    with through(Door.SHELL):
        assert lm.verify([answer]).verdicts[0].error.endswith("the model to ask: --model PATH.")
    text = display.to_text(lm.verify([answer, answer]))
    assert text.count("model to ask") == text.count("and 1 more") == 1


def test_another_template_is_named(scripted_file: Any) -> None:
    """The tokens may even be equal: the prompt is another, and that is said first."""
    with lm.load(scripted_file.path, ctx=512, threads=1, formatter="chatml") as other:
        chatml = other.formatter
    with lm.load(scripted_file.path, ctx=1024, threads=1) as model:
        answer = model.chat(HI, seed=1, max_tokens=9)
        model.formatter = chatml
        (verdict,) = lm.verify([answer]).verdicts
    assert (verdict.equal, verdict.reasons[0][0]) == (False, "prompt")


def test_what_was_stopped_is_compared_as_far_as_it_went(scripted: Any) -> None:
    """An interrupted answer is equal where all that it has is equal."""
    stream = scripted.complete(chr(0x4E00), seed=1, max_tokens=1000, ignore_eos=True, stream=True)
    next(stream)
    stream.cancel()
    assert stream.completion.finish_reason == "interrupted"
    assert lm.verify([stream.completion])


def test_turns_of_a_chat_are_put_together(tmp_path: Path) -> None:
    """A turn that refers to turns saved before it is asked with these; missing ones are told of."""
    model = script(lambda request: f"said after {len(request.messages)}")
    first = model.chat(HI, seed=1)
    second = model.chat([*first.messages, {"role": "user", "content": "And?"}], seed=2)
    path = notebook(tmp_path / "a.ipynb", first)
    whole = json.loads(path.read_text("utf-8"))
    saved = display.mimebundle(second, earlier=Earlier(first.messages, 2, first))
    whole["cells"].append(
        {**whole["cells"][1], "outputs": [{**whole["cells"][1]["outputs"][0], "data": saved}]}
    )
    path.write_text(json.dumps(whole), "utf-8")
    assert [(v.where, v.equal) for v in lm.verify(path, model=model).verdicts] == [
        ("cell 2", True),
        ("cell 3", True),
    ]
    del whole["cells"][1]
    path.write_text(json.dumps(whole), "utf-8")
    (verdict,) = lm.verify(path, model=model).verdicts
    assert "not in this file" in verdict.error
    with pytest.raises(lm.InputTypeError, match="refers to answers"):
        lm.rerun(saved["application/vnd.llama-magic.v1+json"])


@pytest.mark.parametrize("text", ["", "no notebook", "[1, 2]", '{"cells": 3}', '{"a": 1}\n{"b": 2}'])
def test_files_that_hold_no_answers(tmp_path: Path, text: str) -> None:
    """They are refused by name, and so is what is no file and no answer."""
    path = tmp_path / "x.ipynb"
    path.write_text(text, "utf-8")
    with pytest.raises(lm.SourceError, match=r"x\.ipynb"):
        lm.verify(path)
    with pytest.raises(lm.SourceError, match="cannot be read"):
        lm.verify(tmp_path / "missing.ipynb")
    with pytest.raises(lm.InputTypeError):
        lm.verify(3)


def test_the_command(of_the_demo: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Exit status 0 where all are equal, 1 where one differs, 2 for no such file; --badge leaves a line."""
    path = notebook(tmp_path / "a.ipynb", *of_the_demo[:7])
    badge = "7 of 7 answers come out equal here"
    assert command.main(["verify", str(path), "--badge"]) == 0
    said = capsys.readouterr()
    assert said.out == f"{badge}\n"
    assert said.err.startswith("it took ")
    assert json.loads(path.read_text("utf-8"))["cells"][-1]["source"] == [f"*{badge}*"]
    assert command.main(["verify", str(path), "--badge", "--kv-type", "q8_0"]) == 1
    out = capsys.readouterr().out
    assert "KV type: f16, here q8_0" in out
    cells = json.loads(path.read_text("utf-8"))["cells"]
    assert [cell["cell_type"] for cell in cells] == ["markdown", *["code"] * 7, "markdown"]
    assert cells[-1]["source"][0] in (f"*{n} of 7 answers come out equal here*" for n in range(7))
    assert command.main(["verify", str(tmp_path / "none.ipynb")]) == 2
    assert "cannot be read" in capsys.readouterr().err
    assert command.main(["verify", str(path), "-m", "nowhere.gguf"]) != 0
    assert "nowhere.gguf" in "".join(capsys.readouterr())


def test_the_command_takes_several_files(
    of_the_demo: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`verify *.ipynb` verifies each and names it; one that is no notebook costs no other, and is status 2.
    Options may stand before the files.
    """
    first, second = (notebook(tmp_path / f"{name}.ipynb", of_the_demo[i]) for i, name in enumerate("ab"))
    broken = tmp_path / "broken.ipynb"
    broken.write_text("{}")
    assert command.main(["verify", "--threads", "1", *map(str, (first, broken, second))]) == 2
    said = capsys.readouterr()
    told = [f"{path}: 1 of 1 answer comes out equal here" for path in (first, second)]
    assert said.out.splitlines() == told
    assert f"{broken} is no notebook" in said.err
    assert command.main(["verify", str(first), str(second)]) == 0
    assert command.main(["verify"]) == 2
    assert "Write llama-magic verify FILE…" in capsys.readouterr().err


def test_a_notebook_that_maps_says_that_those_answers_are_elsewhere(
    of_the_demo: list[Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its own answers are compared; who reads "all come out equal" is told of the record."""
    path = notebook(tmp_path / "a.ipynb", *of_the_demo[:1])
    assert lm.verify(path).beside == ""
    book = json.loads(path.read_text("utf-8"))
    for source in (
        "runs = lm.map(rows, record='r.sqlite')",
        "%%llama decide rows\nx",
        "# lm.map(rows)",
        "map(str, x)",
    ):
        book["cells"].append({"cell_type": "code", "source": [source], "outputs": [], "metadata": {}})
    path.write_text(json.dumps(book), "utf-8")
    found = lm.verify(path)
    assert (found.maps, found.beside[:32]) == (2, "2 cells map or decide over rows:")
    assert found.beside in display.to_text(found).replace("\n", " ")
    assert command.main(["verify", str(path)]) == 0
    said = capsys.readouterr()
    assert (said.out.count("\n"), said.err.startswith(found.beside)) == (1, True)


def test_the_command_is_one_of_a_shell(tmp_path: Path, of_the_demo: list[Any]) -> None:
    """`python -m llama_magic verify` in a process of its own finds the demo model by the receipt."""
    path = notebook(tmp_path / "a.ipynb", of_the_demo[1])
    done = subprocess.run(
        [sys.executable, "-m", "llama_magic", "verify", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "1 of 1 answer comes out equal here\n"), done.stderr


def test_a_map_is_verified_though_rows_failed(scripted: Any) -> None:
    """Rows are answers; one that nothing was written for is left out, and the others keep their numbers."""
    runs = lm.map([None, "a", "b"], "{{ text }}", mode="complete", model=scripted, seed=1, max_tokens=2)
    assert [run.error is None for run in runs] == [False, True, True]
    found = lm.verify(runs, model=scripted)
    assert [(one.where, one.equal) for one in found.verdicts] == [("answer 2", True), ("answer 3", True)]
    assert lm.tree(runs[1]).answers[0] is lm.tree(runs[1:]).answers[0] is runs[1].completion


def test_options_that_no_model_loads_with_are_refused_once(of_the_demo: list[Any]) -> None:
    """Of the caller's own options no answer is judged, and the refusal is that of `load`."""
    told: list[Any] = []
    with pytest.raises(lm.OptionError, match="kv_type is 'q9'"):
        lm.verify(of_the_demo, kv_type="q9", told=lambda verdict, total: told.append(verdict))
    assert told == []


def test_options_of_a_load_are_not_dropped(of_the_demo: list[Any], path_of: Any, scripted: Any) -> None:
    """A file that is named is loaded with them, otherwise as it was then, and closed; beside a loaded model
    they are refused.
    """
    before = loaded()
    found = lm.verify(of_the_demo[:-1], model=str(path_of("short")), kv_type="q8_0")
    assert loaded() == before  # it was loaded for this alone
    assert {one.reasons for one in found.verdicts if not one.equal} == {(("KV type", "f16", "q8_0"),)}
    with pytest.raises(lm.OptionError, match=r"^threads= would be of a load, and the model"):
        lm.verify(of_the_demo, model=scripted, threads=1)


def test_the_file_of_a_loaded_model_is_on_this_disk(scripted_model: Any) -> None:
    """With options of a load it is loaded from there, wherever it lies; it was said not to be found."""
    model = scripted_model(chain("a", "b", "c", EOS))
    answer = model.complete("a", seed=1, max_tokens=2)
    (verdict,) = lm.verify([answer], batch=64).verdicts
    assert (verdict.equal, verdict.error) == (True, "")
    model.close()
    (verdict,) = lm.verify([answer], batch=64).verdicts
    assert "is not on this disk" in verdict.error


def test_a_file_of_fewer_tokens_is_another_file(scripted_model: Any) -> None:
    """Tokens that it has no number for are compared as words; the whole verification was an error."""
    one = scripted_model(chain("a", *"bcdefgh", EOS))
    answer = one.complete("a", seed=1, max_tokens=7)
    other = scripted_model(chain("a", "b", EOS))
    assert max(answer.token_ids) >= other.info.vocab_size
    (verdict,) = lm.verify([answer], model=other).verdicts
    assert (verdict.step, verdict.expected, verdict.found) == (0, "bcdefgh", "b")
    assert [reason[0] for reason in verdict.reasons] == ["file"]
