"""The kinds of call that `soak_mixed.py` makes at once.

What those under `@held` give must be what a quiet model gives; what those under `@loose` give is no matter.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import llama_magic as lm

SYSTEMS = ("You are a poet.", "Answer briefly and with care, in words that a child would know. " * 6)
TEXTS = (
    "Once upon a time", "The capital of France is", "The sea, " * 40, "def f(x):\n    return",
    "é à 漢字 🙂 " * 12, "a " * 190, "The keeper climbed the tower slowly. " * 15,
    "She said that the river " * 20,
)  # fmt: skip
SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 99},
        "ok": {"type": "boolean"},
    },
    "required": ["name", "age", "ok"],
    "additionalProperties": False,
}
LISTS = {"type": "array", "items": {"enum": ["red", "green", 3]}, "minItems": 1, "maxItems": 4}


@dataclass(frozen=True)
class Place:
    """What the calls are made of: a model, and where files may be put."""

    model: Any
    folder: Path


Call = Callable[[Place, Random], Any]
HELD: list[Call] = []
LOOSE: list[Call] = []


def held(call: Call) -> Call:
    """Say that its value is that of a quiet model."""
    HELD.append(call)
    return call


def loose(call: Call) -> Call:
    """Say that its value is no matter."""
    LOOSE.append(call)
    return call


def _chat(draw: Random) -> list[dict[str, str]]:
    return [
        {"role": "system", "content": draw.choice(SYSTEMS)},
        {"role": "user", "content": draw.choice(TEXTS)},
    ]


def _said(answer: Any) -> Any:
    return answer.text, answer.finish_reason, tuple(answer.token_ids)


# --- whose values are those of a quiet model


@held
def complete(at: Place, draw: Random) -> Any:
    size = draw.choice([1, 5, 20, 40])
    return _said(at.model.complete(draw.choice(TEXTS), max_tokens=size, seed=draw.randrange(6)))


@held
def likeliest(at: Place, draw: Random) -> Any:
    return _said(at.model.complete(draw.choice(TEXTS), max_tokens=16, temperature=0, seed=1))


@held
def logprobs(at: Place, draw: Random) -> Any:
    answer = at.model.complete(draw.choice(TEXTS), max_tokens=6, seed=draw.randrange(4), logprobs=3)
    return answer.text, [round(entry.logprob, 3) for entry in answer.logprobs]


@held
def samples(at: Place, draw: Random) -> Any:
    options = {"n": draw.choice([2, 3, 5]), "seed": draw.randrange(4), "max_tokens": 12}
    return [_said(answer) for answer in at.model.complete(draw.choice(TEXTS), **options)]


@held
def chat(at: Place, draw: Random) -> Any:
    return _said(at.model.chat(_chat(draw), max_tokens=draw.choice([4, 24]), seed=draw.randrange(5)))


@held
def streamed(at: Place, draw: Random) -> Any:
    chunks = list(at.model.chat(_chat(draw), max_tokens=12, seed=draw.randrange(5), stream=True))
    return "".join(chunk.delta for chunk in chunks), chunks[-1].finish_reason


@held
def stopped(at: Place, draw: Random) -> Any:
    return _said(at.model.chat(_chat(draw), max_tokens=24, seed=draw.randrange(5), stop=["e", "zz"]))


@held
def prefilled(at: Place, draw: Random) -> Any:
    return _said(at.model.chat(_chat(draw), max_tokens=10, seed=draw.randrange(4), prefill="Well, "))


@held
def overflow(at: Place, draw: Random) -> Any:
    turns = [
        {"role": "assistant" if i % 2 else "user", "content": f"turn {i} " + "x y z " * 30} for i in range(21)
    ]
    options = {"overflow": draw.choice(["error", "drop-oldest"]), "seed": draw.randrange(3)}
    return _said(at.model.chat(turns, max_tokens=8, **options))


@held
def structured(at: Place, draw: Random) -> Any:
    schema = draw.choice([SCHEMA, LISTS])
    answer = at.model.structured(draw.choice(TEXTS), schema, seed=draw.randrange(5), max_tokens=80)
    return json.dumps(answer.parsed)


@held
def batch(at: Place, draw: Random) -> Any:
    prompts = [draw.choice(TEXTS) for _ in range(3)]
    answers = at.model.structured(prompts, SCHEMA, seed=draw.randrange(5), max_tokens=80)
    return [json.dumps(answer.parsed) for answer in answers]


@held
def chosen(at: Place, draw: Random) -> Any:
    prompt, seed = draw.choice(TEXTS), draw.randrange(4)
    options = draw.choice([{"choices": ["red", "green", "a longer one"]}, {"regex": "[a-c]{2,5}[0-9]"}])
    return at.model.complete(prompt, seed=seed, **options).text


@held
def score(at: Place, draw: Random) -> Any:
    return [round(value, 3) for value in at.model.score(draw.choice(TEXTS), [" yes", " no", " perhaps so"])]


@held
def read(at: Place, draw: Random) -> Any:
    return [round(token.logprob, 2) for token in at.model.read(draw.choice(TEXTS)).tokens if token.logprob]


@held
def xray(at: Place, draw: Random) -> Any:
    return at.model.xray(draw.choice(TEXTS), seed=draw.randrange(5)).drawn


@held
def embed(at: Place, draw: Random) -> Any:
    return at.model.embed(draw.sample(TEXTS, 2))[:, :6].round(3).tolist()


@held
def fork(at: Place, draw: Random) -> Any:
    answer = at.model.complete(draw.choice(TEXTS), max_tokens=8, seed=draw.randrange(3), ignore_eos=True)
    return _said(answer.fork(3, "a", max_tokens=6, seed=2))


# --- whose value is no matter


@loose
def free(at: Place, draw: Random) -> None:
    at.model.complete(draw.choice(TEXTS), max_tokens=15, n=draw.choice([1, 1, 3]))


@loose
def broken_off(at: Place, draw: Random) -> None:
    stream = at.model.chat(_chat(draw), stream=True, max_tokens=60, seed=draw.choice([None, 3]))
    for _ in zip(range(draw.randrange(8)), stream, strict=False):
        pass
    if draw.random() < 0.5:
        stream.close()


@loose
def raises(at: Place, draw: Random) -> None:
    with contextlib.suppress(ZeroDivisionError):
        for _ in at.model.complete(draw.choice(TEXTS), stream=True, max_tokens=40, n=draw.choice([1, 3])):
            raise ZeroDivisionError


@loose
def timeout(at: Place, draw: Random) -> None:
    options = {"timeout": draw.choice([0.001, 0.02, 0.2]), "seed": draw.choice([None, 1])}
    at.model.complete(draw.choice(TEXTS), max_tokens=400, **options)


@loose
def cancelled(at: Place, draw: Random) -> None:
    async def some() -> list[Any]:
        asked = [
            asyncio.create_task(at.model.acomplete(draw.choice(TEXTS), max_tokens=40, seed=seed))
            for seed in (None, 2, 3)
        ]
        await asyncio.sleep(draw.random() * 0.1)
        asked[0].cancel()
        return await asyncio.gather(*asked, return_exceptions=True)

    first, *others = asyncio.run(some())
    assert isinstance(first, lm.Completion | asyncio.CancelledError), first
    assert all(isinstance(answer, lm.Completion) for answer in others), others


@loose
def cache(at: Place, draw: Random) -> None:
    draw.choice([lambda: str(at.model.kv), at.model.kv_clear, lambda: gc.collect(0)])()


@loose
def saved(at: Place, draw: Random) -> None:
    path = at.folder / f"{threading.get_ident()}.kv"
    with contextlib.suppress(lm.OptionError):  # nothing is there to save
        at.model.kv_save(path)
        at.model.kv_restore(path)
