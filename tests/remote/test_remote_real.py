"""Real servers on loopback: what is said of them holds.

llama.cpp's own has SmolLM2 (its grammars admit blanks without end, of which the short model writes as many),
the others have the short model. `make soak` gives SmolLM2 to all, and holds the texts of all against the
engine's (`tests/model/soak_real_models.py`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from real_servers import llama_cpp_python_server, llama_server
from stand_ins import ONLY_REAL

import llama_magic as lm
from llama_magic.session import session as sessions

ASK = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]
SCHEMA = {
    "type": "object",
    "properties": {"n": {"enum": [3, 14, 159]}},
    "required": ["n"],
}


@pytest.fixture(scope="module")
def file(path_of: Callable[[str], Path]) -> Path:
    return path_of("short")


@pytest.fixture(scope="module")
def there(path_of: Callable[[str], Path]) -> Iterator[lm.Model]:
    with llama_server(path_of("smollm2")) as address, lm.connect(address) as model:
        yield model


@pytest.fixture(scope="module")
def other(file: Path) -> Iterator[lm.Model]:
    with llama_cpp_python_server(file) as address, lm.connect(address) as model:
        yield model


@pytest.fixture(scope="module")
def here(file: Path) -> Iterator[lm.Model]:
    with lm.load(file, ctx=1024, threads=1) as model:
        yield model


@pytest.fixture(scope="module")
def own(here: lm.Model) -> Iterator[lm.Model]:
    with lm.serve(here, port=0) as server, lm.connect(server.url) as model:
        yield model


def look(at: str) -> str:
    """Look at something."""
    return f"{at} is blue"


def other_tool(at: str) -> str:
    """Ask about something."""
    return f"{at} is old"


other_tool.__name__ = "other"


def test_the_card_of_llama_server(there: lm.Model) -> None:
    """Each ability was tried on it."""
    card: Any = there.card
    assert (card.kind, card.window, there.window) == ("llama-server", 512, 512)
    lacking = {ability.name for ability in card.abilities if not ability.holds}
    # Run without --jinja it takes tools and says nothing of them to the model: measured, and refused.
    assert lacking == {"regex", "forced tool call", "named tool call"}
    assert "asked for zqxjv, it called nothing" in " ".join(str(card).split())
    with pytest.raises(lm.OptionError, match="tool_choice='look'"):
        there.chat(ASK, tools=[look], tool_choice="look", tools_as_text=True)


def test_the_card_of_our_own(own: lm.Model, here: lm.Model) -> None:
    """All holds; a named tool is called as in the engine, by the same tokens."""
    card: Any = own.card
    assert (card.kind, card.window) == ("llama_magic", here.window)
    assert [ability.name for ability in card.abilities if not ability.holds] == []
    for choice in ("look", "other"):
        how: Any = {"tools": [look, other_tool], "tools_as_text": True, "tools_auto": True, "tool_rounds": 1}
        made = [m.chat(ASK, tool_choice=choice, temperature=0, max_tokens=40, **how) for m in (own, here)]
        called = [[s["function"] for s in m.steps[0]["tool_calls"]] for m in made]
        assert called[0] == called[1]
        assert called[0][0]["name"] == choice
        assert made[0].text == made[1].text


def test_our_own_server_keeps_expressions_and_least_tokens(own: lm.Model, here: lm.Model) -> None:
    """`regex` and `min_tokens` are sent, and kept as in the engine: the same tokens."""
    [end] = here.tokenize("<|im_end|>")
    ended: Any = {"temperature": 0, "max_tokens": 60, "logit_bias": {end: 6.0}}
    short = here.chat(ASK, **ended)
    least = len(short.token_ids) + 8
    for how in ({"regex": "[0-9]{3}-[a-f]{4}"}, {"min_tokens": least}):
        made = [m.chat(ASK, **ended, **how) for m in (own, here)]
        assert made[0].token_ids == made[1].token_ids
        if "regex" in how:
            assert re.fullmatch(how["regex"], made[0].text)
        else:
            assert short.finish_reason == "stop"
            assert len(made[0].token_ids) >= least


def test_the_card_of_llama_cpp_python(other: lm.Model) -> None:
    """Its chats are counted by it alone, and its window is learnt from a refusal."""
    card: Any = other.card
    assert (card.kind, card.window) == ("llama_cpp.server", 512)
    lacking = [ability.name for ability in card.abilities if not ability.holds]
    assert lacking == ["exact counts", "regex", "forced tool call", "named tool call"]


@pytest.mark.parametrize(("name", "model"), [("there", "smollm2"), ("own", "short")])
def test_a_server_answers_as_the_engine_does(name: str, model: str, loaded: Any, request: Any) -> None:
    """The same prompt token for token, the same greedy words, log-probabilities as near as two builds are."""
    there, here = request.getfixturevalue(name), loaded(model)
    far = there.chat(ASK, temperature=0, max_tokens=6, logprobs=2)
    near = here.chat(ASK, temperature=0, max_tokens=6, logprobs=2)
    assert far.prompt_token_ids == near.prompt_token_ids
    assert (far.text, far.token_ids) == (near.text, near.token_ids)
    for ours, theirs in zip(near.logprobs or (), far.logprobs or (), strict=True):
        assert ours.logprob == pytest.approx(theirs.logprob, abs=0.25)
        assert ours.top[0][0] == theirs.top[0][0]


@pytest.mark.parametrize("end", [False, True])
def test_our_own_server_decides_as_the_engine(either: lm.Model, end: bool) -> None:
    """Where rows are alike and where they are not: the same sums to the last bit, the same calibration."""
    texts = ["cold food", "rude", "I love it", "fine " * 40]
    rows = [
        {"text": text, "label": label} for text, label in zip(texts, ["no", "yes", "yes", "no"], strict=True)
    ]
    how: Any = {"options": ["yes", "no", "not at all", "🙂"], "end": end, "progress": False}
    with lm.serve(either, port=0) as server, lm.connect(server.url, probing=False) as own:
        near, far = (lm.decide(rows, "Is it good? {{ text }}", model=m, **how) for m in (either, own))
        assert [one.logprobs for one in far] == [one.logprobs for one in near]
        assert far.calibration("label") == near.calibration("label")
        assert far.notes == near.notes
        long = "It was the best of times, " * 20
        assert own.score(long, [" it was"]) == either.score(long, [" it was"])
        for ours, theirs in zip(
            own.read("Where is it? 🙂").tokens, either.read("Where is it? 🙂").tokens, strict=True
        ):
            assert (ours.id, ours.text) == (theirs.id, theirs.text)
            assert ours.logprob == pytest.approx(theirs.logprob, abs=0.25)


def test_llama_server_tells_a_token_it_was_made_to_write(there: lm.Model) -> None:
    """Which is what it tells of the likeliest there; parts of a character are told, and the end."""
    prompt = "The capital of France is"
    answer = there.complete(prompt, temperature=0, max_tokens=3, logprobs=20)
    assert answer.logprobs is not None
    told = {answer.text: sum(token.logprob for token in answer.logprobs)}
    told |= {one.text: one.logprob for one in answer.logprobs[0].top[:5]}
    assert there.score(prompt, list(told)) == pytest.approx(list(told.values()), abs=0.02)
    [smile, end] = there.score("user: hi\nassistant: 🙂 hi 🙂 hi", [" 🙂", " hi"], end=True)
    assert -60 < end < smile < 0


@pytest.mark.parametrize("name", ["there", "own"])
def test_counts_are_equal_on_a_hundred_chats(name: str, here: lm.Model, request: Any) -> None:
    """Rendered here for the server, by the engine, by the server itself, and in the usage of 8 answers."""
    there = request.getfixturevalue(name)
    words = ["Lyon", "naïve", "<|im_end|>", "  two", "\n\n", "日本", "🙂", "x" * 30, "<b>", "{{ x }}"]
    for i in range(100):
        chat = [
            {"role": "system", "content": words[i % 10]},
            {"role": "user", "content": " ".join(words[: i % 7 + 1]) + str(i)},
        ][i % 2 :]
        count = there.count_tokens(chat)
        assert count == here.count_tokens(chat)
        if name == "own" and i < 8:  # its template lets no message write a mark
            body = {"messages": chat, "max_tokens": 1, "temperature": 0}
            assert count == there.backend.wire.ask("/v1/chat/completions", body)["usage"]["prompt_tokens"]
        elif name == "there" and "<|im_end|>" not in str(chat):
            assert count == there.backend.count(chat)


@pytest.mark.parametrize("name", ["there", "other", "own", "here"])
def test_the_same_cells_run_on_each(name: str, ip: Any, request: pytest.FixtureRequest) -> None:
    """A chat, a structured answer, choices, samples, and a microscope's view that says why it cannot."""
    model = request.getfixturevalue(name)
    ip.user_ns["SCHEMA"] = SCHEMA
    sessions.current(ip).keep(model)
    cell = ip.run_cell_magic
    cell("llama", "chat -t 0 -n 8 -q --new -o a", "Say hi.")
    cell("llama", "structured --schema SCHEMA -t 0 -n 200 -q -o b", "A number, please.")
    cell("llama", 'chat --choices "red|green" -q --new -o c', "Red or green?")
    cell("llama", "chat -N 2 -n 4 -q --new -o d", "Say hi.")
    space = ip.user_ns
    assert space["a"].text
    assert isinstance(space["b"].parsed["n"], int)
    assert space["c"].text in ("red", "green")
    assert len(space["d"]) == 2
    if name != "here":
        with pytest.raises(lm.BackendError, match="needs an engine"):
            cell("llama", "xray", "The capital of")


@pytest.mark.parametrize("name", ["there", "other", "own"])
def test_an_interrupted_answer_leaves_the_server_well(name: str, request: pytest.FixtureRequest) -> None:
    """The text so far is kept, and the next answer comes."""
    model: lm.Model = request.getfixturevalue(name)
    stream = model.chat([{"role": "user", "content": "Count to a thousand."}], stream=True, max_tokens=300)
    first = next(stream)
    stream.cancel()
    assert stream.completion.finish_reason == "interrupted"
    assert stream.completion.text.startswith(first.delta)
    assert model.chat(ASK, max_tokens=3).usage.completion_tokens > 0


def test_what_the_server_refuses_is_told_in_its_words(there: lm.Model) -> None:
    """A model that is not made for vectors: the server's sentence, and its status."""
    with pytest.raises(lm.BackendError, match=r"501.*embeddings"):
        there.embed("a")


_NOTEBOOK = json.loads((Path(__file__).parents[2] / "notebooks/00_quickstart.ipynb").read_text("utf-8"))
# After the quick start: a map, and what only some sources can.
_MORE = (
    # The likeliest token is far ahead of the next everywhere: two builds agree on it.
    "rows = [{'land': land} for land in ('Japan', 'Egypt', 'Greece', 'China', 'Kenya') for _ in range(EACH)]",
    # A short system message in place of the template's: a server may read it anew for each seeded row.
    "%%llama map rows -t 0 --seed 7 -n 5 -q -o runs\n"
    "system: Be brief.\nuser: What is the capital of {{ land }}?",
    "%%llama complete --regex [ab]+ -n 4\nx",
    "%%llama xray\nThe capital of",
    "%%llama surprise\nThe capital of",
    "%llama kv",
    "import llama_magic as lm; lm.decide(rows[:1], 'Is {{ land }} large?', options=['yes', 'no'])",
)
# Other programs read each row anew, 0.2 s of work: they are asked one row of each land.
_EACH = {"here": 4, "own": 4}
# How a source says what it lacks.
_NAMES = r"needs an engine|reading one through|how likely a text is|kind 'regex'"


def _cells() -> list[str]:
    """Return the cells of the quick start as they are, but greedy and short; the model is there already."""
    cells = ["".join(cell["source"]) for cell in _NOTEBOOK["cells"] if cell["cell_type"] == "code"]
    cells = [cell for cell in cells if not cell.startswith(("%load_ext", "%llama load", "%llama unload"))]
    cells = [re.sub(r"-n (40|60) --seed 7", "-n 10 -t 0 --seed 7 -q -o last", cell) for cell in cells]
    return [cell.replace("-n 80", "-n 160 -t 0").replace("lm.load(ctx=2048)", "lm.load()") for cell in cells]


def _run(model: lm.Model, ip: Any, each: int) -> tuple[list[str], list[str], str]:
    """Return the texts of answers, the errors of cells but the one that the notebook shows, and the JSON."""
    sessions.current(ip).keep(model)
    ip.user_ns["EACH"] = each
    texts, errors = [], []
    for cell in (*_cells(), *_MORE):
        done = ip.run_cell(cell)
        if done.error_in_exec is not None and not isinstance(done.error_in_exec, lm.ContextOverflowError):
            assert isinstance(done.error_in_exec, lm.LlamaMagicError), (cell, done.error_in_exec)
            errors.append(str(done.error_in_exec))
        elif "-o last" in cell:
            texts.append(ip.user_ns["last"].text)
    assert [str(run.error) for run in ip.user_ns["runs"].failures] == []
    texts += [run.completion.text for run in ip.user_ns["runs"]]
    answer = ip.user_ns["answer"]
    assert isinstance(answer.parsed, ip.user_ns["City"])
    return texts, errors, answer.text


@pytest.fixture(scope="module")
def told() -> dict[str, tuple[list[str], str]]:
    """The texts that each source wrote."""
    return {}


@pytest.mark.parametrize("name", ["here", "own", "there", "other"])
def test_the_same_notebook_on_each(name: str, ip: Any, told: Any, request: Any) -> None:
    """The quick start, a map (20 rows on ours) and looks at the engine: greedy texts are those of the engine,
    and a cell that cannot be answered names what the source cannot do."""
    each = _EACH.get(name, 1)
    texts, errors, written = _run(request.getfixturevalue(name), ip, each)
    told[name] = texts, written
    assert len(texts) == 4 + 5 * each
    assert all(re.search(_NAMES, error) for error in errors), errors
    assert len(errors) == {"here": 0, "own": 2, "there": 4}.get(name, 5)
    if "here" in told and (name == "own" or ONLY_REAL):
        here = told["here"][0]
        assert texts == [*here[:4], *here[4 :: _EACH["here"] // each]]
    if "here" in told and name == "own":  # the others' grammars admit blanks between, and so other words
        assert written == told["here"][1]
