"""Views are found by the class itself, wherever it is used and whatever it is called."""

from __future__ import annotations

import importlib
import pkgutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from display_answers import completion
from example_views import example_views

import llama_magic
import llama_magic.display.views
from llama_magic import display, errors
from llama_magic.display.static.doc import Line
from llama_magic.display.views.find import find
from llama_magic.display.views.view import together, view
from llama_magic.model.results import Completion
from llama_magic.words.shown import Printed, Shown


def _modules() -> list[str]:
    """Import every module of the package, and name them."""
    names = [m.name for m in pkgutil.walk_packages(llama_magic.__path__, "llama_magic.")]
    for name in names:
        importlib.import_module(name)
    return names


def _below(kind: type) -> Iterator[type]:
    for sub in kind.__subclasses__():
        yield sub
        yield from _below(sub)


def test_every_shown_class_has_a_view() -> None:
    """A class that says that it is shown, and whose view is lost (moved, forgotten), is named here."""
    _modules()
    lost = []
    for kind in {*_below(Shown)} - {Printed}:
        if kind.__module__.startswith("llama_magic.") and not kind.__subclasses__():  # a base has theirs
            find(kind)
            if view.dispatch(kind) is view.registry[object]:
                lost.append(f"{kind.__module__}.{kind.__qualname__}")
    assert lost == []


# What holds a file or a port: looked at where those are (tests/record, tests/serving).
_HELD = {"Record", "Server"}


def test_every_view_has_an_example() -> None:
    """Contrast, untrusted notebooks and pictures are of all views: each class that is shown is among them."""
    _modules()
    kinds = {kind for kind in {*_below(Shown), *view.registry} if not kind.__subclasses__()} - {Printed}
    ours = {kind.__name__ for kind in kinds if kind.__module__.startswith("llama_magic.")}
    every = [one for example in example_views().values() for one in (example, *_within(example))]
    assert ours - {type(one).__name__ for one in every} == _HELD


def _within(example: object) -> list[object]:
    return list(example) if isinstance(example, list) else []


def test_a_view_stands_where_its_class_stands() -> None:
    """Each view of a class of ours is where `find` looks for it, or in the class's own file."""
    _modules()
    views = "llama_magic.display.views."
    strays = []
    for register in (view.registry, together.registry):
        for kind, function in register.items():
            place = views + kind.__module__.removeprefix("llama_magic.")
            ours = kind.__module__.startswith("llama_magic.")
            if ours and function.__module__ not in (place, kind.__module__):
                strays.append((kind.__qualname__, function.__module__))
    assert strays == []


def test_a_renamed_class_keeps_its_view() -> None:
    """The register holds classes: a name that changes, or that another class has too, changes nothing."""
    answer = completion("Yes.")
    before = display.to_text(answer)
    try:
        Completion.__name__ = "Answer"
        assert display.to_text(answer) == before
    finally:
        Completion.__name__ = "Completion"
    other = dataclass(type("Completion", (), {"__annotations__": {"x": int}}))
    assert display.to_text(other(3)).split() == ["Completion", "field", "value", "x", "3"]


def test_a_subclass_is_shown_as_its_base() -> None:
    """Of a result, and of an error: the nearest class with a view says how."""

    class Mine(errors.SourceError):
        pass

    assert display.to_text(Mine("Gone.", remedy="Look again.")).splitlines() == [
        "Mine",
        "Gone.",
        "Look again.",
    ]
    assert display.to_text(ZeroDivisionError("by 0")).splitlines() == ["ZeroDivisionError", "by 0"]


def test_a_class_of_the_user_registers_its_own_view() -> None:
    """`display.view.register` on a class, in the user's file, is all that it takes."""

    class Score(Printed):
        points = 3

    @display.view.register(Score)
    def score(one: Score) -> list[Any]:
        return [Line(f"{one.points} points")]

    assert str(Score()) == "3 points"
    assert ">3 points</p>" in Score()._repr_mimebundle_()["text/html"]
    assert display.to_text([1, Score()]).startswith("[1, ")  # a mixed list is no list of one kind


def test_a_view_that_cannot_be_imported_is_an_error_and_not_a_lost_view(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Only a view file that is not there means "none"; one that lacks something says what."""

    def broken(name: str) -> None:
        raise ModuleNotFoundError("No module named 'gone'", name="gone")

    monkeypatch.setattr(importlib, "import_module", broken)
    kind = type("Thing", (), {"__module__": "llama_magic.words.thing"})
    with pytest.raises(ModuleNotFoundError, match="gone"):
        find(kind)


def test_results_show_themselves_without_the_extension() -> None:
    """IPython asks the result: nothing needs to be registered with a shell first."""
    code = (
        "from IPython.core.formatters import DisplayFormatter\n"
        "from llama_magic.model.results import Budget\n"
        "data, _ = DisplayFormatter().format(Budget(100, 30, 20))\n"
        "print(sorted(data), '30 prompt' in data['text/html'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['text/html', 'text/plain'] True\n"
