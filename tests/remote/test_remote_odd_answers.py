"""Servers whose JSON is of another shape now and then: what is asked ends or is an error of ours."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_servers import Fake

import llama_magic as lm
from llama_magic import errors
from llama_magic.remote import wire

ASK = [{"role": "user", "content": "Where is Lyon?"}]
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
ODD: list[Any] = [
    None, 0, -1, 1.5, float("nan"), True, 10**30,
    "", "x", "5", "\ud800", [], [None], {}, {"a": 1}, [[]], [{}],
]  # fmt: skip


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tries follow each other at once."""
    monkeypatch.setattr(wire, "pause", lambda _error, _tries: 0.0)


def look(at: str) -> str:
    """Look."""
    return at


CALLS: list[Callable[[lm.Model], Any]] = [
    lambda model: model.chat(ASK, max_tokens=8, logprobs=2),
    lambda model: model.count_tokens(ASK),
    lambda model: model.complete("Hello", max_tokens=5),
    lambda model: model.structured(ASK, SCHEMA),
    lambda model: model.embed(["a", "b"]),
    lambda model: model.read("one two"),
    lambda model: model.score("a b", ["one two", "?"]),
    lambda model: lm.decide(["a", "b"], options=["one two", "three"], model=model, progress=False),
    lambda model: model.detokenize(model.tokenize("one two")),
    lambda model: model.chat(ASK, tools=[look], tool_choice="required"),
    lambda model: [chunk.delta for chunk in model.chat(ASK, stream=True)],
]


def places(value: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Yield the way to each part of a JSON value."""
    yield way
    items = value.items() if isinstance(value, dict) else enumerate(value if isinstance(value, list) else ())
    for step, part in items:
        yield from places(part, (*way, step))


def odd(draw: random.Random, value: Any) -> Any:
    """Return a JSON value of which one part is gone or is something else."""
    value = json.loads(json.dumps(value))
    way = draw.choice(list(places(value)))
    if not way:
        return draw.choice(ODD)
    at = value
    for step in way[:-1]:
        at = at[step]
    if draw.random() < 0.25:
        del at[way[-1]]
    else:
        at[way[-1]] = draw.choice(ODD)
    return value


def odd_now_and_then(fake: Fake, draw: random.Random, share: float) -> None:
    """Have a fake server tell what is odd, in answers and in streams."""
    tell, send = fake.handler.tell, fake.handler.send

    def telling(self: Any, found: Any, status: int = 200) -> None:
        tell(self, odd(draw, found) if draw.random() < share else found, status)

    def sending(self: Any, data: bytes) -> None:
        head = b"data: " if data.startswith(b"data: ") else b""
        if draw.random() < share:
            with contextlib.suppress(ValueError):  # the mark of the end, and the last chunk
                found = json.loads(data.removeprefix(head))
                data = head + json.dumps(odd(draw, found)).encode() + data[len(data.rstrip()) :]
        send(self, data)

    fake.handler.tell, fake.handler.send = telling, sending


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("kind", ["llama-server", "vllm", "ollama", "openai"])
def test_odd_answers_are_errors_of_ours(kind: str, seed: int, start: Callable[..., Fake]) -> None:
    """Connecting, counting, writing, vectors, tools: a result, or an error by its name."""
    draw = random.Random(f"{kind} {seed}")
    fake = start(kind, draw.choice(("one two three", "")))
    odd_now_and_then(fake, draw, (0.05, 0.15, 0.4)[seed % 3])
    try:
        model = lm.connect(fake.url, probing=seed % 3 == 0, stall=5)
    except errors.LlamaMagicError:
        return
    with model:
        for call in draw.sample(CALLS, len(CALLS)):
            with contextlib.suppress(errors.LlamaMagicError):
                made = call(model)
                if isinstance(made, lm.Completion):
                    made.text.encode("utf-8")
                    json.dumps(made.receipt, default=str)


HALF = "a \ud83d b"
SAID: list[Callable[[lm.Model], Any]] = [
    lambda model: model.chat([{"role": "user", "content": HALF}]),
    lambda model: list(model.chat([{"role": "system", "content": HALF}, *ASK], stream=True)),
    lambda model: model.complete(HALF),
    lambda model: asyncio.run(model.acomplete(HALF)),
    lambda model: model.chat(ASK, choices=["x", HALF]),
    lambda model: model.structured(HALF, SCHEMA),
    lambda model: model.embed(["x", HALF]),
    lambda model: model.read(HALF),
]


@pytest.mark.parametrize("kind", ["llama-server", "vllm", "ollama", "openai"])
def test_half_a_surrogate_pair_is_named_before_it_is_sent(kind: str, start: Callable[..., Fake]) -> None:
    """A text that UTF-8 cannot hold is refused wherever it stands, as where the model is in this process."""
    with lm.connect(start(kind, "one two").url, probing=False) as model:
        for place, call in enumerate(SAID):
            with pytest.raises(errors.LlamaMagicError) as caught:
                call(model)
            words = str(caught.value)
            assert re.search("surrogate|does not tell|not UTF-8", words), (place, words)
        assert model.chat(ASK).text == "one two"
