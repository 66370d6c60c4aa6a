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


# Between two lessons of one kernel: no name, output, model, session or answer is left of the one before.
ANEW = """\
get_ipython().run_line_magic("llama", "unload --all")
get_ipython().run_line_magic("unload_ext", "llama_magic")
from llama_magic.model.journal import journal
from llama_magic.session import session
journal.clear()
session.current().__init__()
get_ipython().run_line_magic("reset", "-f")
import gc  # what was imported is no garbage: it was looked through three times a lesson
gc.freeze()
del gc"""


def run(paths: Sequence[Path], folder: Path) -> dict[str, list[str]]:
    """Run lessons, each in a kernel of its own; give what each cell came to, "" where it ran."""
    for path in paths:
        nbformat.write(solved(path), folder / path.name)
    return _ran([path.name for path in paths], folder)


def run_in_turn(paths: Sequence[Path], folder: Path, demo: Path | None = None) -> dict[str, list[str]]:
    """Run lessons in one kernel, one after the other, as `run` does: all but the first start and load less.

    `demo` is a folder in which that kernel finds the package of its demo model.
    """
    first = f"import sys\nsys.path.insert(0, {str(demo)!r})" if demo else "pass"
    parts = [[cell for cell in solved(path).cells if cell.cell_type == "code"] for path in paths]
    book = nbformat.v4.new_notebook()
    for before, cells in zip([first, *[ANEW] * (len(paths) - 1)], parts, strict=True):
        book.cells += [nbformat.v4.new_code_cell(before), *cells]
    nbformat.write(book, folder / "in_turn.ipynb")
    cells = iter(_ran(["in_turn.ipynb"], folder)["in_turn.ipynb"])
    found = {}
    for path, part in zip(paths, parts, strict=True):
        assert next(cells) == ""
        found[path.name] = [next(cells) for _ in part]
    return found


def _ran(names: Sequence[str], folder: Path) -> dict[str, list[str]]:
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "nbval.plugin", "--nbval-lax", "--junitxml=ran.xml"]
    pytest += ["--nbval-kernel-startup-timeout=600"]
    # Not a dozen plugins; and two threads that sleep while they wait write at 1.3 times the work of one.
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "LLAMA_MAGIC_THREADS": "1"}
    done = subprocess.run([*pytest, *names], cwd=folder, env=alone, capture_output=True, text=True)
    assert done.returncode in (0, 1), done.stdout[-4000:] + done.stderr[-1000:]
    found: dict[str, list[str]] = {name: [] for name in names}
    for case in ElementTree.parse(folder / "ran.xml").iter("testcase"):
        found[f"{case.get('classname')}"].append("\n".join(part.text or part.tag for part in case))
    return found


def wrong(path: Path, cells: Sequence[str]) -> list[str]:
    """Return the cells of a lesson that failed, with what was said; see that none was left out."""
    code = [cell.source for cell in solved(path).cells if cell.cell_type == "code"]
    assert code.count(SOLVED) == (2 if path != LESSONS[0] else 0)
    return [f"{source}\n{found}" for source, found in zip(code, cells, strict=True) if found]
