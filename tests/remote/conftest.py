"""Fake servers that end with their test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fake_servers import Fake, serve

import llama_magic as lm


@pytest.fixture
def start() -> Iterator[Callable[..., Fake]]:
    """Return what starts a fake server of a kind."""
    stops: list[Callable[[], None]] = []

    def begin(kind: str, answer: str = "", **how: Any) -> Fake:
        fake, stop = serve(kind, answer, **how)
        stops.append(stop)
        return fake

    yield begin
    for stop in stops:
        stop()


@pytest.fixture
def connect() -> Iterator[Callable[..., lm.Model]]:
    """Return `lm.connect` for a fake, nothing tried unless asked for; what it made is closed again."""
    made: list[lm.Model] = []

    def begin(fake: Fake, **options: Any) -> lm.Model:
        made.append(lm.connect(fake.url, **{"probing": False, **options}))
        return made[-1]

    yield begin
    for model in made:
        model.close()
