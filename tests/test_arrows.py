"""The rooms stand on floors, and an import only goes down; `python tests/test_arrows.py` lists what does not.

Every import of our own modules counts, those under `TYPE_CHECKING` and inside functions too.
"""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

from llama_magic.loading.load import OPENERS

ROOT = Path(__file__).parents[1]


def _pictures() -> Iterator[tuple[str, ...]]:
    """Yield the pictures of CONTRIBUTING, from the ground up: of each line the names that it begins with."""
    for picture in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("\n```\n")[1:4:2]:
        names = [re.match(r"( +\w+(/|\.py)(?!\S))*", line) for line in picture.splitlines()]
        yield tuple(re.sub(r"/|\.py", "", floor[0]).strip() for floor in reversed(names) if floor)


# A room knows the floors below its own, and no neighbour on it.
FLOORS, _ENGINE = _pictures()
# The same within a room that has rooms of its own. The modules beside them may use them all; in `engine` they
# stand on the floors, too.
INNER = {
    "engine": _ENGINE,
    "structured": ("schema", "answer mask", "lower", "grammar"),
    "sources": ("disk", "http", "hub"),
    "display": ("static", "views", "live boards"),
}
UPWARD = {("llama_magic.words.shown", "display")}
FLOOR_OF = {room: floor for floor, rooms in enumerate(FLOORS) for room in rooms.split()}
# A source of tokens has the floor of those that there are.
FLOOR_OF = {re.split("[.:]", place)[1]: FLOOR_OF["remote"] for place in OPENERS.values()} | FLOOR_OF


def _modules() -> dict[str, Path]:
    """Return every module by its dotted name; `formatters/` is imported from within the package."""
    found: dict[str, Path] = {}
    for base in (ROOT / "llama_magic", ROOT / "formatters"):
        for path in base.rglob("*.py"):
            if "__pycache__" in path.parts or "llama_magic/formatters" in path.as_posix():
                continue
            parts = list(path.relative_to(ROOT).with_suffix("").parts)
            parts = ["llama_magic", *parts] if base.name == "formatters" else parts
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


@functools.cache  # five tests look at each of 300 files
def _nodes(path: Path) -> tuple[ast.AST, ...]:
    """Return what in a file may name a module."""
    kinds = (ast.Import, ast.ImportFrom, ast.Constant)
    nodes = ast.walk(ast.parse(path.read_text(encoding="utf-8")))
    return tuple(node for node in nodes if isinstance(node, kinds))


def _imports(name: str, path: Path, modules: dict[str, Path]) -> Iterator[tuple[str, int]]:
    """Yield each of our modules that a module imports, with the line."""
    package = name.split(".") if path.name == "__init__.py" else name.split(".")[:-1]
    for node in _nodes(path):
        if isinstance(node, ast.Import):
            yield from ((a.name, node.lineno) for a in node.names if a.name.startswith("llama_magic"))
        elif isinstance(node, ast.ImportFrom):
            up = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*up, *([node.module] if node.module else [])])
            if base.split(".")[0] == "llama_magic":
                for alias in node.names:
                    inner = f"{base}.{alias.name}"
                    yield (inner if inner in modules else base), node.lineno
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            module, colon, _ = node.value.partition(":")  # `module:function`, imported by name
            if colon and module in modules:
                yield module, node.lineno


def _room(name: str) -> str:
    return name.split(".")[1] if "." in name else ""


def rooms() -> set[str]:
    """Return the folders and modules of the package."""
    return {_room(name) for name in _modules()} - {""}


def upward() -> list[str]:
    """Return the imports that do not go down, as `file:line: what`."""
    modules = _modules()
    found: list[str] = []
    for name, path in modules.items():
        for target, line in _imports(name, path, modules):
            here, there = _room(name), _room(target)
            if here in ("", there) or (name, there) in UPWARD:
                continue
            if {here, there} - {""} - FLOOR_OF.keys():
                continue  # a room without a floor has a test of its own
            if there == "" or FLOOR_OF[there] >= FLOOR_OF[here]:
                found.append(f"{path.relative_to(ROOT)}:{line}: {here} imports {target}")
    return sorted(found)


def private() -> list[str]:
    """Return the imports of a private module of another room."""
    modules = _modules()
    found: list[str] = []
    for name, path in modules.items():
        for target, line in _imports(name, path, modules):
            inner = target.split(".")[2:]
            if _room(name) != _room(target) and any(part[0] == "_" != part[1] for part in inner):
                found.append(f"{path.relative_to(ROOT)}:{line}: {target}")
    return sorted(set(found))


def _inner(name: str, room: str) -> int | None:
    """Return the floor of a module within its room, None for what stands in no room of it."""
    parts = name.split(".")
    floors = (floor for floor, names in enumerate(INNER[room]) if parts[2:] and parts[2] in names.split())
    return next(floors, None)


def upward_within() -> list[str]:
    """Return the imports between the rooms of a room that do not go down."""
    modules = _modules()
    found: list[str] = []
    for name, path in modules.items():
        room = _room(name)
        for target, line in _imports(name, path, modules) if room in INNER else ():
            here, there = _inner(name, room), _inner(target, room)
            same = name.split(".")[2:3] == target.split(".")[2:3]
            if (
                _room(target) == room
                and here is not None
                and there is not None
                and not same
                and there >= here
            ):
                found.append(f"{path.relative_to(ROOT)}:{line}: {name.split('.')[2]} imports {target}")
    return sorted(found)


def circles() -> list[str]:
    """Return the circles among modules, each as a sorted list of names."""
    modules = _modules()
    ways = {
        name: {t for t, _ in _imports(name, path, modules) if t in modules and _room(name)} - {name}
        for name, path in modules.items()
    }
    ways |= {name: set() for name, _ in UPWARD}  # which close one with everything that shows itself
    reach: dict[str, set[str]] = {}

    def visit(name: str, trail: list[str]) -> None:
        for target in ways.get(name, ()):
            if target in trail:
                reach.setdefault(" -> ".join(sorted(trail[trail.index(target) :])), set())
            elif target not in done:
                visit(target, [*trail, target])
        done.add(name)

    done: set[str] = set()
    for name in modules:
        if name not in done:
            visit(name, [name])
    return sorted(reach)


def test_every_room_has_a_floor() -> None:
    """A new folder is put into the table, which is what a newcomer reads."""
    assert rooms() == set(FLOOR_OF), "Put the room on its floor in CONTRIBUTING's picture."


def test_every_part_of_the_engine_has_a_floor() -> None:
    """Its modules stand in the table as its rooms do."""
    parts = {name.split(".")[2] for name in _modules() if _room(name) == "engine" and name.count(".") > 1}
    assert parts == set(" ".join(INNER["engine"]).split()), (
        "Put it on its floor in CONTRIBUTING's picture of the engine."
    )


def test_imports_go_down() -> None:
    """No import goes up or sideways, but those that are named."""
    assert upward() == []


def test_nobody_imports_what_is_private_to_another_room() -> None:
    """A room is known by what its `__init__` and its public modules give."""
    assert private() == []


def test_imports_go_down_within_a_room() -> None:
    """The rooms of a room have an order too."""
    assert upward_within() == []


def test_there_are_no_circles() -> None:
    """No module imports itself by way of others."""
    assert circles() == []


if __name__ == "__main__":
    homeless = [
        f"llama_magic/{room}: put it on its floor in CONTRIBUTING"
        for room in sorted(rooms() - FLOOR_OF.keys())
    ]
    print(
        "\n".join([*homeless, *upward(), *upward_within(), *private(), *circles()])
        or "0 arrows upward, 0 circles"
    )
