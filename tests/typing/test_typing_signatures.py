"""Twins have one signature, and it names every option."""

from __future__ import annotations

import inspect
from dataclasses import fields

import pytest

import llama_magic as lm
from llama_magic.model.asked import Call
from llama_magic.model.generate import Generating
from llama_magic.model.model import Model
from llama_magic.model.options import DEFAULTS, StructuredOptions
from llama_magic.request.sampling import Sampling

TWINS = [name for name in vars(Generating) if not name.startswith("_") and f"a{name}" in vars(Generating)]


@pytest.mark.parametrize("name", TWINS)
def test_twins_have_one_signature(name: str) -> None:
    """Each call and its twin for `await` take the same parameters."""
    one = inspect.signature(getattr(Model, name)).parameters
    twin = inspect.signature(getattr(Model, f"a{name}")).parameters
    assert [(k, p.kind, p.annotation) for k, p in one.items()] == [
        (k, p.kind, p.annotation) for k, p in twin.items()
    ]


def test_there_are_three_twins() -> None:
    """The list of twins is not empty by mistake."""
    assert TWINS == ["complete", "chat", "structured"]


@pytest.mark.parametrize("name", [*TWINS, *(f"a{name}" for name in TWINS)])
def test_every_option_is_named(name: str) -> None:
    """Shift-Tab shows each option of a call and each sampling parameter; none hides in **options."""
    shown = inspect.signature(getattr(Model, name)).parameters
    wanted = {f.name for f in fields(Call)} | {f.name for f in fields(Sampling)}
    wanted -= set() if "structured" in name else {"pressure"}
    assert wanted <= shown.keys()
    assert not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in shown.values())


def test_defaults_shown_are_those_taken() -> None:
    """A default in the signature is the one that the call uses."""
    taken = Call()
    for name, shown in DEFAULTS.items():
        if name not in ("sampling", "stop"):
            assert getattr(taken, name) == shown, name
    assert set(DEFAULTS) <= set(StructuredOptions.__annotations__)


def test_load_names_its_options() -> None:
    """`help(lm.load)` shows ctx, threads, kv_type and the others."""
    shown = inspect.signature(lm.load).parameters
    assert {"ctx", "threads", "kv_type", "lora", "dry_run", "sha256"} <= shown.keys()
