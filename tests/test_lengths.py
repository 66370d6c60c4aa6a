"""What is read in one go: files, functions, names; `python tests/test_lengths.py` lists long ones."""

from __future__ import annotations

import ast
import functools
import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
FILE, FUNCTION = 300, 40  # lines; of a function those below its signature and docstring


@functools.cache
def longer() -> dict[str, int]:
    """Return what is longer, with its lines: files as `room/file.py`, functions as `file.function`."""
    found: dict[str, int] = {}
    for base in (ROOT / "llama_magic", ROOT / "formatters"):
        for path in sorted(base.rglob("*.py")):
            if "llama_magic/formatters" in path.as_posix():
                continue
            text = path.read_text(encoding="utf-8")
            if (lines := text.count("\n")) > FILE:
                found[f"{path.parent.name}/{path.name}"] = lines
            for node in ast.walk(ast.parse(text)):
                if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                    body = node.body[1:] if ast.get_docstring(node) is not None else node.body
                    lines = node.body[-1].end_lineno - body[0].lineno + 1 if body else 0  # type: ignore[operator]
                    if lines > FUNCTION:
                        found[f"{path.stem}.{node.name}"] = lines
    return found


def named() -> set[str]:
    """Return the exceptions that CONTRIBUTING names, which says why."""
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    paragraph = text[text.index("- A file of the package has at most") :].split("\n- ", 1)[0]
    return set(re.findall(r"`([\w/.]+)`", paragraph))


def test_what_is_longer_is_named() -> None:
    """A file of 300 lines and a function of 40 is enough; CONTRIBUTING names the exceptions, and why."""
    assert longer().keys() <= named()


def test_what_is_named_is_longer() -> None:
    """What was cut since is an exception no more."""
    assert named() <= longer().keys()


def test_a_class_has_its_name_to_itself() -> None:
    """Who reads `Plan` need not ask which; but for names of OpenAI and nodes of a page (`doc.Tree`)."""
    apart = ("llama_magic/serving/bodies", "llama_magic/serving/fields/", "llama_magic/display/static/doc")
    homes: dict[str, list[str]] = {}
    for path in (*(ROOT / "llama_magic").rglob("*.py"), *(ROOT / "formatters").glob("*.py")):
        place = path.relative_to(ROOT).as_posix()
        if not place.startswith(apart):
            for node in ast.parse(path.read_text(encoding="utf-8")).body:
                if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                    homes.setdefault(node.name, []).append(place)
    assert {name: places for name, places in homes.items() if len(places) > 1} == {}


if __name__ == "__main__":
    for name, lines in longer().items():
        print(f"{lines:5} {name}{'' if name in named() else '  (not named in CONTRIBUTING)'}")
