"""The kinds of call that `soak_mixed.py` makes at once.

What those under `@held` give must be what a quiet model gives; what those under `@loose` give is no matter.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import json
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Annotated, Any

from pydantic import Field

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
    """What the calls are made of: a model, the same behind a server of ours, and files."""

    model: Any
    remote: Any
    port: int  # of the server
    path: Path
    other: Path  # the file of a second model
    adapter: Path | None
    folder: Path  # where files may be put


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


@held
def tools(at: Place, draw: Random) -> Any:
    options = {"tools": [double], "tools_auto": True, "tools_as_text": True, "tool_rounds": 1}
    choice = draw.choice(["required", "double"])
    asked = [{"role": "user", "content": draw.choice(TEXTS)}]
    try:
        answer = at.model.chat(asked, tool_choice=choice, seed=draw.randrange(4), max_tokens=70, **options)
    except lm.BackendError as error:  # 70 tokens do not hold each call
        return str(error)
    return answer.text, [step["content"] for step in answer.steps]


def double(number: Annotated[int, Field(ge=0, le=99)]) -> int:
    """Double a number."""
    return 2 * number


@held
def decide(at: Place, draw: Random) -> Any:
    rows = [{"text": text} for text in draw.sample(TEXTS, 3)]
    question = "Is this good? {{ text }}"
    odds = lm.decide(rows, question, options=["yes", "no"], model=at.model, progress=False)
    return [{name: round(value, 3) for name, value in decision.logprobs.items()} for decision in odds]


@held
def mapped(at: Place, draw: Random) -> Any:
    rows = [{"text": text} for text in draw.sample(TEXTS, 4)]
    record = draw.choice([None, at.folder / "runs.sqlite", at.folder / "more.sqlite"])
    options = {"seed": draw.randrange(3), "max_tokens": 6, "record": record, "progress": False}
    runs = lm.map(rows, "Say {{ text }}", model=at.model, **options)
    assert not runs.failures, runs.failures[0].error
    return [_said(run.completion) for run in runs]


@held
def far(at: Place, draw: Random) -> Any:
    options = {"max_tokens": draw.choice([4, 24]), "seed": draw.randrange(5)}
    if draw.random() < 0.5:
        return at.remote.chat(_chat(draw), **options).text
    return json.dumps(at.remote.structured(draw.choice(TEXTS), SCHEMA, **options | {"max_tokens": 80}).parsed)


@held
def adapted(at: Place, draw: Random) -> Any:
    lora = f"{at.adapter}:{draw.choice([0.5, 1])}" if at.adapter else None
    with _ALONE[0], lm.load(at.path, ctx=256, threads=1, lora=lora) as model:
        return _said(model.complete(TEXTS[1], max_tokens=8, seed=draw.randrange(3)))


@held
def another(at: Place, draw: Random) -> Any:
    with _ALONE[1], lm.load(at.other, ctx=draw.choice([256, 512]), threads=1) as model:
        return _said(model.complete(TEXTS[1], max_tokens=20, seed=draw.randrange(3)))


# Two threads that load the same with the same options have one model, which the first of them closes.
_ALONE = [threading.Lock() for _ in range(3)]


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


@loose
def vanishes(at: Place, draw: Random) -> None:
    asked = {"messages": _chat(draw), "max_tokens": 60, "stream": draw.random() < 0.7}
    body = json.dumps(asked).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n\r\n"
    with socket.create_connection(("127.0.0.1", at.port), timeout=60) as client:
        client.sendall((head.encode() + body)[: draw.choice([20, -7, None])])
        client.settimeout(draw.random() / 2)
        with contextlib.suppress(TimeoutError):
            client.recv(draw.randrange(1, 2000))


@loose
def closed_beneath(at: Place, draw: Random) -> None:
    with _ALONE[2], lm.load(at.other, ctx=768, threads=1) as model:
        stream = model.complete(TEXTS[0], max_tokens=200, ignore_eos=True, stream=True)
        for _ in zip(range(draw.randrange(4)), stream, strict=False):
            pass
        closing = threading.Thread(target=model.close)
        closing.start()
        with contextlib.suppress(lm.ModelClosedError):
            for _ in stream:
                pass
        closing.join()
