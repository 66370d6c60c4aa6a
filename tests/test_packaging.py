"""What is installed is the tree, and importing the package costs nothing."""

from __future__ import annotations

import ast
import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

ROOT = Path(__file__).parents[1]


def _packages() -> list[str]:
    """Return every folder with Python files as a dotted name; `formatters/` is imported from within."""
    folders = {path.parent for path in (ROOT / "llama_magic").rglob("*.py")}
    folders |= {ROOT / "llama_magic" / "formatters"}
    names = {".".join(folder.relative_to(ROOT).parts) for folder in folders}
    return sorted(name for name in names if "__pycache__" not in name)


def test_every_file_is_installed() -> None:
    """What lies in the two folders goes along by `package-data`, of which each pattern finds something."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["setuptools"]
    folders = [
        ROOT / settings["package-dir"].get(name, name.replace(".", "/")) for name in settings["packages"]
    ]
    assert folders == [ROOT / "llama_magic", ROOT / "formatters"]
    found = {p: {path for f in folders for path in f.glob(p)} for p in settings["package-data"]["*"]}
    every = {path for f in folders for path in f.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert every - set().union(*found.values()) == set()
    assert [pattern for pattern, paths in found.items() if not paths] == []


def test_every_room_is_a_package() -> None:
    """A folder with Python files has an `__init__`, which says what stands there."""
    assert [
        room for room in _packages() if not (ROOT / room.replace(".", "/") / "__init__.py").exists()
    ] == []


def test_formatters_are_a_link_into_the_package() -> None:
    """`llama_magic/formatters` is a committed relative link to the top-level folder."""
    link = ROOT / "llama_magic" / "formatters"
    assert link.is_symlink()
    assert str(link.readlink()) == "../formatters"


def _in_tables(folder: Path) -> set[str]:
    """Return the strings of the tables (`FAMILIES = (…)`) in a folder's files."""
    return {
        str(part.value)
        for path in folder.glob("*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]).isupper()
        for part in ast.walk(node)
        if isinstance(part, ast.Constant)
    }


def test_what_stands_in_a_room_is_said_where_it_begins() -> None:
    """The top of its `__init__` names each file, but of rooms of two, and what a table of the room names.

    A view stands where its result does.
    """
    unsaid = {}
    for room in _packages():
        folder = ROOT.joinpath(*room.split("."))
        files = [path.stem for path in folder.glob("*.py") if not path.stem.startswith("__")]
        said = re.findall(r"\w+", ast.get_docstring(ast.parse((folder / "__init__.py").read_text())) or "")
        missing = sorted(set(files) - set(said) - _in_tables(folder))
        if len(files) > 2 and missing and room != "llama_magic" and ".views" not in room:
            unsaid[room] = missing
    assert unsaid == {}


def test_import_brings_in_nothing_heavy() -> None:
    """`import llama_magic` and `load_ipython_extension` leave llama_cpp, numpy, pydantic and widgets
    alone.
    """
    code = (
        "import sys, llama_magic as lm; assert lm.__version__; dir(lm); "
        "heavy = {'llama_cpp', 'numpy', 'pydantic', 'ipywidgets', 'anywidget', 'huggingface_hub', 'jinja2'}; "
        "print(sorted(heavy & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_what_windows_lacks_is_not_asked_for_on_import() -> None:
    """Every room is imported where `os` has no fork and what goes with it."""
    code = (
        "import importlib, os\n"
        "n = 'fork', 'register_at_fork', 'sched_getaffinity', 'sched_yield', 'pread', 'sysconf', 'getuid'\n"
        "lacking = [name for name in n if hasattr(os, name)]\n"
        "for name in lacking: delattr(os, name)\n"
        f"for room in {_packages()!r}: importlib.import_module(room)\n"
        "import llama_magic.loading.load, llama_magic.session.session, llama_magic.remote.network, "
        "llama_magic.engine.engine, llama_magic.magics._magics, llama_magic.serving.server"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_every_public_name_is_there() -> None:
    """Every name in `__all__` can be imported, and `dir()` lists it."""
    import llama_magic

    for name in llama_magic.__all__:
        assert getattr(llama_magic, name) is not None
        assert name in dir(llama_magic)


def test_rooms_that_people_know_by_their_names_are_there() -> None:
    """`lm.formatters` needs no import of its own; what is no room of theirs is none."""
    code = (
        "import llama_magic as lm\n"
        "print(lm.formatters.get('chatml').name, lm.errors.OptionError is lm.OptionError)\n"
        "print(lm.testing.Script.__name__, lm.experiments.map is lm.map, hasattr(lm, 'engine_room'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["chatml", "True", "Script", "True", "False"]


def test_experiments_are_called_from_their_room_or_from_the_top() -> None:
    """`llama_magic.experiments.map` is the function, whatever was imported before."""
    code = (
        "import llama_magic.experiments.each_row, llama_magic.experiments.ballot\n"
        "import llama_magic as lm; from llama_magic import experiments\n"
        "print([name for name in experiments.__all__ if not callable(getattr(experiments, name))])\n"
        "same = [name for name in experiments.__all__ if name in lm.__all__]\n"
        "print(len(same), all(getattr(lm, name) is getattr(experiments, name) for name in same))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["[]", "16 True"]


def test_no_file_is_called_what_its_room_gives() -> None:
    """A public name of a room is one thing; Python would put a file of that name in its place."""
    twice = [
        f"{room}.{name}"
        for room in _packages()
        for name in getattr(importlib.import_module(room), "__all__", ())
        if (ROOT / room.replace(".", "/") / f"{name}.py").exists()
    ]
    assert twice == []


def test_only_the_native_package_imports_llama_cpp() -> None:
    """No module outside `engine/native` imports `llama_cpp`."""
    found = [
        str(path.relative_to(ROOT))
        for folder in ("llama_magic", "formatters")
        for path in (ROOT / folder).rglob("*.py")
        if "native" not in path.parts
        and any(
            line.strip().startswith(("import llama_cpp", "from llama_cpp"))
            for line in path.read_text().splitlines()
        )
    ]
    assert found == []
