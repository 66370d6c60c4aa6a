"""Lessons run under nbval: a look that each exercise is open, and the answers for instructors at the end."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import nbformat

FOLDER = Path(__file__).resolve().parents[1] / "notebooks"
LESSONS = sorted(FOLDER.glob("[01]*.ipynb"))
README = (FOLDER / "README.md").read_text("utf-8")

# Behind an exercise: what it came to. (A lesson's own `_` hides the shell's.)
OPEN = "came = [*Out.values()][-1]; assert type(came).__name__ == 'Checked' and came.solved is None, came"
SOLVED = "came = [*Out.values()][-1]; assert type(came).__name__ == 'Checked' and came.solved, came.words"


def solved(path: Path) -> Any:
    """Return the lesson with a look that each exercise is open, and answers at its end, as after Run All."""
    book = nbformat.read(path, as_version=4)
    answers = iter(_solutions(int(path.stem[:2]))) if path != LESSONS[0] else iter(())
    cells: list[Any] = []
    ends: list[str] = []
    for cell in book.cells:
        cells.append(cell)
        if cell.cell_type == "code" and (line := re.search(r"^(\w+) = \.\.\.$", cell.source, re.MULTILINE)):
            answer = next(answers)
            assert re.search(rf"^(class )?{line[1]}\b", answer, re.MULTILINE)
            cells.append(nbformat.v4.new_code_cell(OPEN))
            ends += [cell.source.replace(line[0], answer), SOLVED]
    assert next(answers, None) is None
    book.cells = [*cells, *map(nbformat.v4.new_code_cell, ends)]
    return book


def _solutions(number: int) -> list[str]:
    part = re.search(rf"^### Lesson {number}\n(.*?)(?=^### |\Z)", README, re.DOTALL | re.MULTILINE)
    assert part is not None
    return re.findall(r"```python\n(.*?)```", part[1], re.DOTALL)


def run(paths: Sequence[Path], folder: Path, demo: dict[Path, Path] | None = None) -> dict[str, list[str]]:
    """Run lessons in one process, each in a kernel of its own; give what each cell came to, "" where it ran.

    `demo` gives some lessons another demo model: the folder in which their kernel finds its package first.
    """
    begins = {}
    for path in paths:
        book = solved(path)
        if other := (demo or {}).get(path):
            first = f"import sys\nsys.path.insert(0, {str(other)!r})"
            book.cells.insert(0, nbformat.v4.new_code_cell(first))
        begins[path.name] = int(other is not None)
        nbformat.write(book, folder / path.name)
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "nbval.plugin", "--nbval-lax", "--junitxml=ran.xml"]
    # Not a dozen plugins; and two threads that sleep while they wait write at 1.3 times the work of one.
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "LLAMA_MAGIC_THREADS": "1"}
    done = subprocess.run([*pytest, *begins], cwd=folder, env=alone, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout[-4000:] + done.stderr[-1000:]
    found: dict[str, list[str]] = {name: [] for name in begins}
    for case in ElementTree.parse(folder / "ran.xml").iter("testcase"):
        found[f"{case.get('classname')}"].append("\n".join(part.text or part.tag for part in case))
    return {name: cells[begins[name] :] for name, cells in found.items()}


def wrong(path: Path, cells: Sequence[str]) -> list[str]:
    """Return the cells of a lesson that failed, with what was said; see that none was left out."""
    code = [cell.source for cell in solved(path).cells if cell.cell_type == "code"]
    assert code.count(SOLVED) == (2 if path != LESSONS[0] else 0)
    return [f"{source}\n{found}" for source, found in zip(code, cells, strict=True) if found]
