"""What a type checker makes of the calls; read by mypy and pyright, never run."""

from __future__ import annotations

import asyncio
from typing import Any, assert_type

from pydantic import BaseModel

import llama_magic as lm
from llama_magic.loading.dry import DryRun
from llama_magic.model.astream import AsyncStream
from llama_magic.model.attempts import StructuredStream
from llama_magic.model.model import Model
from llama_magic.model.results import Chunk, Completion
from llama_magic.model.stream import Stream


class Person(BaseModel):
    name: str
    age: int


def loading() -> None:
    assert_type(lm.load(), Model)
    assert_type(lm.load("smollm2", ctx=2048, kv_type="q8_0"), Model)
    assert_type(lm.load(dry_run=True), DryRun)
    lm.load(ctx="2048")  # type: ignore[call-overload]
    lm.load(contex=2048)  # type: ignore[call-overload]


def completing(model: Model) -> None:
    assert_type(model.complete("a"), Completion[None])
    assert_type(model.complete("a", max_tokens=8, temperature=0.5, stop=["."]), Completion[None])
    assert_type(model.complete("a", n=3), list[Completion[None]])
    assert_type(model.complete("a", stream=True, seed=1), Stream[Completion[None]])
    for chunk in model.complete("a", stream=True):
        assert_type(chunk, Chunk)
    assert_type(model.complete("a").text, str)
    assert_type(model.complete("a").parsed, None)
    model.complete("a", temprature=0.5)  # type: ignore[call-overload]
    model.complete("a", top_k="many")  # type: ignore[call-overload]


def chatting(model: Model) -> None:
    assert_type(model.chat([{"role": "user", "content": "Hi"}]), Completion[None])
    parts = [{"role": "user", "content": [{"type": "text", "text": "Hi"}]}]
    assert_type(model.chat(parts, n=2, top_p=0.9), list[Completion[None]])
    assert_type(model.chat(parts, stream=True), Stream[Completion[None]])


def answering(model: Model) -> None:
    assert_type(model.structured("a", Person), Completion[Person])
    assert_type(model.structured("a", Person).parsed, Person)
    assert_type(model.structured("a", Person, n=3, pressure=True), list[Completion[Person]])
    assert_type(model.structured(["a", "b"], Person), list[Completion[Person]])
    assert_type(model.structured("a", Person, stream=True), StructuredStream[Completion[Person]])
    assert_type(model.structured("a", {"type": "integer"}), Completion[Any])
    assert_type(model.structured("a", list[int]).parsed, list[int])


async def awaiting(model: Model) -> None:
    assert_type(await model.acomplete("a"), Completion[None])
    assert_type(await model.acomplete("a", n=2), list[Completion[None]])
    assert_type(await model.acomplete("a", stream=True), AsyncStream[Completion[None]])
    async for chunk in await model.achat([{"role": "user", "content": "Hi"}], stream=True):
        assert_type(chunk, Chunk)
    async for chunk in model.acomplete("a", stream=True, timeout=2.5):
        assert_type(chunk, Chunk)
    task = asyncio.create_task(model.acomplete("a"))
    assert_type(await task, Completion[None])
    assert_type(await asyncio.create_task(model.acomplete("a", stream=True)), AsyncStream[Completion[None]])
    assert_type((await model.astructured("a", Person)).parsed, Person)
    async for chunk in model.astructured("a", Person, stream=True):
        assert_type(chunk, Chunk)
