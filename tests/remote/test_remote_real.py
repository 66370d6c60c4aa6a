"""Real servers on loopback, with the demo model: what is said of them holds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from real_servers import llama_cpp_python_server, llama_server

import llama_magic as lm
from llama_magic import sources
from llama_magic.session import session as sessions

DEMO = sources.resolve("smollm2").path
ASK = [{"role": "user", "content": "What is the capital of France? Answer in one word."}]
SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@pytest.fixture(scope="module")
def there() -> Iterator[lm.Model]:
    with llama_server(DEMO) as address, lm.connect(address) as model:
        yield model


@pytest.fixture(scope="module")
def other() -> Iterator[lm.Model]:
    with llama_cpp_python_server(DEMO) as address, lm.connect(address) as model:
        yield model


@pytest.fixture(scope="module")
def here() -> Iterator[lm.Model]:
    with lm.load("smollm2", ctx=1024, threads=1) as model:
        yield model


def test_the_card_of_llama_server(there: lm.Model) -> None:
    """Each ability was tried on it."""
    card: Any = there.card
    assert (card.kind, card.window, there.window) == ("llama-server", 512, 512)
    held = {ability.name: ability.holds for ability in card.abilities}
    assert held.pop("regex") is False
    assert set(held.values()) == {True}
    assert "regex" in str(card)


def test_the_card_of_llama_cpp_python(other: lm.Model) -> None:
    """Its chats are counted by it alone, and its window is learnt from a refusal."""
    card: Any = other.card
    assert (card.kind, card.window) == ("llama_cpp.server", 512)
    assert [ability.name for ability in card.abilities if not ability.holds] == ["exact counts", "regex"]


def test_llama_server_answers_as_the_engine_does(there: lm.Model, here: lm.Model) -> None:
    """The same prompt token for token, the same greedy words, log-probabilities as near as two builds are."""
    far = there.chat(ASK, temperature=0, max_tokens=6, logprobs=2)
    near = here.chat(ASK, temperature=0, max_tokens=6, logprobs=2)
    assert far.prompt_token_ids == near.prompt_token_ids
    assert (far.text, far.token_ids) == (near.text, near.token_ids)
    for ours, theirs in zip(near.logprobs or (), far.logprobs or (), strict=True):
        assert ours.logprob == pytest.approx(theirs.logprob, abs=0.25)
        assert ours.top[0][0] == theirs.top[0][0]


def test_counts_are_equal_on_a_hundred_chats(there: lm.Model, here: lm.Model) -> None:
    """Rendered here for the server, by the engine, and by the server itself."""
    words = ["Lyon", "naïve", "<|im_end|>", "  two", "\n\n", "日本", "🙂", "x" * 30, "<b>", "{{ x }}"]
    for i in range(100):
        chat = [
            {"role": "system", "content": words[i % 10]},
            {"role": "user", "content": " ".join(words[: i % 7 + 1]) + str(i)},
        ][i % 2 :]
        count = there.count_tokens(chat)
        assert count == here.count_tokens(chat)
        if "<|im_end|>" not in str(chat):
            assert count == there.backend.count(chat)  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["there", "other", "here"])
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


@pytest.mark.parametrize("name", ["there", "other"])
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
