"""How rows are asked: read in one order, along axes, and what stands in their prompts."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from moods import asked, said

import llama_magic as lm
from llama_magic.display import to_text
from llama_magic.request.backend import Capabilities
from llama_magic.testing import ScriptedBackend, scripted_loader, scripted_model


class Watched(ScriptedBackend):
    """Notes how many requests are under way when each one comes."""

    under_way: list[int]
    _now = 0

    def submit(self, request: Any, sink: Any) -> None:
        self._now += 1
        self.under_way.append(self._now)

        def told(event: Any) -> None:
            self._now -= type(event).__name__ == "EndEvent"
            sink(event)

        super().submit(request, told)


def test_prompts_that_begin_alike_are_asked_one_after_the_other() -> None:
    """The order is a walk of the tree of prompts, the first alone, then as many as the backend works on."""
    model = scripted_model(said)
    rows = [{"doc": doc, "q": q} for q in "pqr" for doc in ("long text A", "long text B", "other")]
    backend = model.backend
    backend.__class__ = Watched
    backend.under_way = []
    backend.capabilities = Capabilities(parallel=2)
    runs = lm.map(rows, "{{ doc }}: {{ q }}", model=model)
    assert [run.text for run in runs] == [f"{row['doc']}: {row['q']}" for row in rows]
    groups = [key for key, _ in itertools.groupby(text.partition(":")[0] for text in asked(model))]
    assert sorted(groups) == ["long text A", "long text B", "other"]  # each stands together
    assert backend.under_way[:2] == [1, 1]
    assert max(backend.under_way) <= 4


@pytest.mark.parametrize("temperature", [0, 0.8])
def test_every_distinct_beginning_is_read_once(loaded: Callable[..., Any], temperature: float) -> None:
    """On the engine: what was read of all prompts is the nodes of their prefix tree, and a token each."""
    model = loaded("short")
    model.kv_clear()
    head = "You judge reviews of shops. " * 12
    rows = [f"{head}Shop {shop}. Review {i}: it is fine." for i in range(3) for shop in ("Ada", "Bert")]
    runs = lm.map(rows, model=model, max_tokens=4, temperature=temperature)
    prompts = [run.completion.prompt_token_ids for run in runs]  # type: ignore[union-attr]
    nodes = {tuple(ids[:end]) for ids in prompts for end in range(1, len(ids) + 1)}
    usage = [run.completion.usage for run in runs]  # type: ignore[union-attr]
    read = sum(u.prompt_tokens - u.cached_tokens for u in usage)
    assert len(nodes) <= read <= len(nodes) + len(rows)
    assert sum(map(len, prompts)) > 3 * read
    shared = model.backend.local.call(lambda core: core.lanes.shared)
    assert shared.kv.store.bytes_used == 0  # nothing of it is kept in host memory
    alone = model.chat([{"role": "user", "content": rows[0]}], max_tokens=4)
    model.chat([{"role": "user", "content": "Something else entirely, " * 8}], max_tokens=4)
    assert shared.kv.store.bytes_used > 0  # a call's own is
    assert alone.usage.prompt_tokens == usage[0].prompt_tokens


def test_axes_are_every_combination() -> None:
    """Prompts, options, sampling and variables are axes; each combination is asked of each row."""
    model = scripted_model(lambda r: f"{said(r)} {r.sampling.temperature:g} {r.max_tokens}")
    runs = lm.map(
        ["x", "y"],
        {"short": "{{ text }}{{ mark }}", "long": "Say {{ text }}{{ mark }}"},
        over={"temperature": [0, 0.5], "mark": "!?"[:1], "max_tokens": [7]},
        model=model,
    )
    head = {"short": "", "long": "Say "}
    wanted = [
        f"{head[prompt]}{text}! {t:g} 7" for text in "xy" for prompt in ("short", "long") for t in (0, 0.5)
    ]
    assert [run.text for run in runs] == wanted
    assert runs.axes == {
        "prompt": ["short", "long"], "temperature": [0, 0.5], "mark": ["!"], "max_tokens": [7],
    }  # fmt: skip
    assert runs[1].settings == {"prompt": "short", "temperature": 0.5, "mark": "!", "max_tokens": 7}
    part = runs.where(prompt="long", temperature=0)
    assert [run.text for run in part] == ["Say x! 0 7", "Say y! 0 7"]
    with pytest.raises(lm.OptionError, match=r"no axis 'promt'.*prompt"):
        runs.where(promt="long")
    with pytest.raises(lm.OptionError, match=r"'prompt' has no value 'lung'\. Did you mean long\?"):
        runs.where(prompt="lung")
    with pytest.raises(lm.OptionError, match=r"no value 0\.7\. It has \[0, 0\.5\]"):
        part.where(temperature=0.7)
    assert len(part.where(temperature=0.5)) == 0  # an axis' value that this part has not
    assert len(runs.failures.where(prompt="long")) == 0
    with pytest.raises(lm.OptionError, match="cannot be resumed"):
        part.resume()


def test_models_are_an_axis_and_named_ones_are_loaded_in_turn() -> None:
    """A model that is given stays open; a name is loaded when its turn comes and closed after it."""
    from llama_magic.experiments.each_row import map
    from llama_magic.experiments.models import Models

    loader = scripted_loader(said)
    own = scripted_model(said, name="own")
    events: list[str] = []

    def load(name: str | None) -> Any:
        events.append(f"load {name}")
        return loader(name)

    found = Models({"own": own, "a": "a", "b": "b"}, load)
    runs = map(["x", "y"], models=found)
    assert [(run.settings["model"], run.text) for run in runs] == [
        (name, text) for text in "xy" for name in ("own", "a", "b")
    ]
    assert events == ["load a", "load b"]
    assert [own.closed, loader.models["a"].closed, loader.models["b"].closed] == [False, True, True]


def test_a_model_that_cannot_be_had_costs_the_others_nothing(tmp_path: Path) -> None:
    """Its rows hold the error; a single model that is not there is an error of the call."""
    model = scripted_model(said, name="here")
    runs = lm.map(["x"], models=[model, str(tmp_path / "none.gguf")])
    assert [run.text for run in runs] == ["x", ""]
    assert isinstance(runs[1].error, lm.SourceError)
    assert [run.settings["model"] for run in runs] == ["here", "none"]  # a file without its folder
    both = lm.map(["x"], models=[str(tmp_path / folder / "none.gguf") for folder in "ab"])
    assert [run.settings["model"] for run in both] == ["none", "none-2"]
    with pytest.raises(lm.SourceError):
        lm.map(["x"], model=str(tmp_path / "none.gguf"))


def test_a_gap_in_a_column_can_be_said_in_the_prompt() -> None:
    """NaN is true to Jinja, and NA neither: in a prompt both are None, and in the inputs what they were."""
    table = pd.DataFrame({"text": [float("nan")], "n": pd.array([None], "Int64"), "t": [pd.NaT]})
    runs = lm.map(table, "{{ text or 'a' }} {{ n or 'b' }} {{ t or 'c' }}", model=scripted_model(said))
    assert "a b c" in runs[0].completion.prompt
    assert runs[0].inputs["n"] is pd.NA


@pytest.mark.parametrize("option", [{"temperature": [0, 1]}, {"seed": range(3)}, {"max_tokens": (8, 16)}])
def test_several_values_of_an_option_are_an_axis(option: dict[str, Any]) -> None:
    """A list where one value belongs is refused before anything is asked, with the axis to write."""
    (name,) = option
    with pytest.raises(lm.InputTypeError, match=rf"over={{'{name}': \["):
        lm.map(["a"], model=scripted_model(said), **option)


def test_runs_are_rows_themselves() -> None:
    """`lm.map(runs.failures, prompt)` asks those rows again, by the columns and labels that they had."""
    rows = [{"text": "a", "n": 1}, {"text": None, "n": 2}]
    model = scripted_model(said)
    for given, label in ((rows, 1), (pd.DataFrame(rows, index=["x", "y"], dtype=object), "y")):
        runs = lm.map(given, "Say {{ text }}", model=model)
        again = lm.map(runs.failures, "Say {{ text or 'nothing' }} {{ n }}", model=model)
        assert [(run.inputs["text"], run.inputs["n"]) for run in again] == [(None, 2)]
        assert "Say nothing 2" in again[0].completion.prompt
        assert list(again.to_pandas().index) == [label]
    judged = lm.map(runs, "Judge {{ answer }}", model=model)
    assert ["Judge" in run.completion.prompt for run in judged if run.completion] == [True]


def test_conversations_that_end_with_the_assistant_say_so() -> None:
    """Answers go on from it: told with the runs and, before anything is asked, in a dry run."""
    question = {"role": "user", "content": "Hello"}
    rows = [[question], [question, {"role": "assistant", "content": "Hi"}]]
    model = scripted_model(said)
    words = "1 of 2 conversations end with a turn of the assistant, and answers go on from it."
    assert words in to_text(lm.map(rows, model=model, dry_run=True)).replace("\n", " ")
    runs = lm.map(rows, model=model)
    assert words in " ".join(runs.notes)
    assert [run.completion.prompt.endswith("assistant\nHi") for run in runs] == [False, True]
    assert not lm.map(rows[:1], model=model).notes


def test_dates_and_gaps_in_a_table_of_runs() -> None:
    """A date has its own words, no quotes; NaT and NA are no values. The index is no column."""
    table = pd.DataFrame(
        {"day": pd.to_datetime(["2026-01-02 03:04", None]), "n": pd.array([1, None], "Int64")}
    )
    model = scripted_model(said)
    shown = to_text(lm.map(table, "{{ day if n == 1 else 'no' }}{{ n or 0 }}", model=model))
    assert " 2026-01-02 03:04:00 " in shown
    assert "NaT" not in shown
    with pytest.raises(lm.TemplateError, match=r"day is the rows' index: df\.reset_index\(\)"):
        lm.map(table.set_index("day"), "{{ day }}", model=model)
