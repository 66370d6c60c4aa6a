"""Weights are read into memory where that makes them faster, and mapped from their file elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import random_models

import llama_magic as lm
from llama_magic import fit
from llama_magic.fit import _profiles

GIB = 1 << 30


class Now:
    """What the machine has; every file is large enough to be worth it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._set = lambda made: monkeypatch.setattr(fit, "machine", lambda *_: made)
        self._plenty = replace(
            fit.machine(), ram_total=64 * GIB, ram_available=32 * GIB, gpus=(), huge_pages=True
        )
        monkeypatch.setattr(_profiles, "_WORTH", 0)

    def has(self, **changes: Any) -> None:
        self._set(replace(self._plenty, **changes))


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    """The machine, to be changed between two loads."""
    made = Now(monkeypatch)
    made.has()
    return made


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small random model."""
    return random_models.build(tmp_path_factory.mktemp("held"), ["llama"])["llama"]


@pytest.fixture
def load(path: Path, now: Now) -> Iterator[Callable[..., Any]]:
    """Load it for one test."""
    kept: list[Any] = []

    def load(**options: Any) -> Any:
        kept.append(lm.load(path, **{"ctx": 512, "threads": 1, **options}))
        return kept[-1]

    yield load
    for model in kept:
        model.close()


def mapped(model: Any) -> bool:
    """Tell whether llama.cpp says that it mapped the weights; the settings must say the same."""
    says = "actual_mapped" in model.memory
    assert model.options["mmap"] is says
    return says


@pytest.mark.parametrize(
    ("machine", "options", "maps"),
    [
        ({}, {}, False),
        ({}, {"mmap": True}, True),
        ({}, {"profile": "memory"}, True),
        ({}, {"mlock": True}, True),
        ({"huge_pages": False}, {}, True),
        ({"huge_pages": False}, {"mmap": False}, False),
        ({"address_space": 32 * GIB}, {}, True),
    ],
)
def test_they_are_read_where_huge_pages_can_be_had(
    now: Now, load: Callable[..., Any], machine: Any, options: Any, maps: bool
) -> None:
    """Not where nobody has them, where the file is to be mapped or held, or where addresses are counted."""
    now.has(**machine)
    assert mapped(load(**options)) is maps


def test_a_quarter_of_what_is_free_is_the_most(now: Now, load: Callable[..., Any]) -> None:
    """With a byte less than four times the weights they are mapped: other processes may want them, too."""
    size = load().info.tensor_bytes
    for free, reads in ((4 * size, True), (4 * size - 1, False)):
        machine = replace(fit.machine(), ram_available=free)
        assert fit.pays_to_read(load().info, machine) is reads


def test_a_second_load_is_the_same_object_whatever_is_free_by_then(
    now: Now, load: Callable[..., Any]
) -> None:
    """And with another option it shares the weights, mapped or not."""
    first = load()
    now.has(huge_pages=False)
    assert load() is first
    other = load(ctx=256)
    assert other is not first
    assert other.backend.weights is first.backend.weights
    assert f"{first.name} is of the same file: it stays loaded, and shares the weights." in other.notes[-1]
    third = load(ctx=768)
    assert f"{first.name}, {other.name} are of the same file: they stay loaded" in third.notes[-1]
    third.close()
    first.close()
    other.close()
    assert mapped(load())


def test_what_is_read_answers_as_what_is_mapped(load: Callable[..., Any]) -> None:
    """The bits are those of the file; a repacked copy is foretold only beside a mapped one."""
    read, whole = load(), load(mmap=True)
    how: dict[str, Any] = {"seed": 3, "max_tokens": 24, "logprobs": 3}
    one, other = read.complete("a b c", **how), whole.complete("a b c", **how)
    assert (one.token_ids, one.logprobs) == (other.token_ids, other.logprobs)
    assert (mapped(read), mapped(whole)) == (False, True)
