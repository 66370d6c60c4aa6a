"""Ctrl-C anywhere in the Python API is the short interrupt, as in the magics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from as_ipython import traceback_of

import llama_magic as lm
from llama_magic.loading import compare, load
from llama_magic.loading import inspect as inspecting

CALLS: dict[str, Callable[[Any], Any]] = {
    "complete": lambda m: m.complete("a"),
    "chat": lambda m: m.chat([{"role": "user", "content": "a"}], stream=True),
    "structured": lambda m: m.structured("a", int),
    "tokenize": lambda m: m.tokenize("a"),
    "detokenize": lambda m: m.detokenize([1]),
    "count_tokens": lambda m: m.count_tokens("a"),
    "token_strip": lambda m: m.token_strip("a"),
    "token_strips": lambda m: m.token_strips(["a"]),
    "prompt_for": lambda m: m.prompt_for([]),
    "constraint": lambda m: m.constraint(regex="a"),
    "embed": lambda m: m.embed("a"),
    "read": lambda m: m.read("a"),
    "xray": lambda m: m.xray("a"),
    "score": lambda m: m.score("a", ["b"]),
    "budget_for": lambda m: m.budget_for([], max_tokens=1),
    "rerun": lambda m: m.rerun({}),
    "repeated": lambda m: m.repeated({}),
    "kv": lambda m: m.kv,
    "kv_save": lambda m: m.kv_save("a"),
    "kv_restore": lambda m: m.kv_restore("a"),
    "kv_clear": lambda m: m.kv_clear(),
    "kv_fork": lambda m: m.kv_fork("a", "b"),
}


def _strike(*_arguments: Any, **_options: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("call", CALLS)
def test_a_method_that_is_interrupted(scripted: Any, monkeypatch: pytest.MonkeyPatch, call: str) -> None:
    """Every method of a model names in one line what was stopped; the model answers afterwards."""
    monkeypatch.setattr(scripted, "_open", _strike)
    with pytest.raises(lm.GenerationInterrupted) as caught:
        CALLS[call](scripted)
    (line,) = traceback_of(caught.value)
    assert line.startswith("Interrupted: ")
    assert " ".join(line.split()).endswith(" was stopped; nothing of it is kept.")
    monkeypatch.undo()
    assert scripted.complete("一", max_tokens=2).text


def test_no_method_was_forgotten() -> None:
    """Every public method of a model that works is in the list above, or awaits, or takes no time."""
    awaits = {"acomplete", "achat", "astructured", "aembed", "ascore", "aread", "axray"}
    methods = {n for n in dir(lm.Model) if not n.startswith("_") and callable(getattr(lm.Model, n))}
    assert methods - awaits - {"close"} - set(CALLS) == set()


@pytest.mark.parametrize("module", [load, inspecting, compare])
def test_a_function_that_is_interrupted(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    """`load`, `inspect` and `compare` do so, too."""
    name = module.__name__.rpartition(".")[2]
    inside = {"load": "fit", "inspect": "sources", "compare": "sources"}[name]
    monkeypatch.setattr(module, inside, _Striking())
    with pytest.raises(lm.GenerationInterrupted, match="was stopped; nothing of it is kept"):
        getattr(lm, name)("x")


class _Striking:
    def __getattr__(self, _name: str) -> Any:
        raise KeyboardInterrupt

    __call__ = _strike
