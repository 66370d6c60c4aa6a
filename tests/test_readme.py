"""README is true: its tables are the code's, what it shows runs, what it links to exists."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from llama_magic import magics

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BEGIN, END = "<!-- reference: begin -->\n", "<!-- reference: end -->"

BLOCKS = re.findall(r"<!-- a test runs this -->\n```python\n(.*?)```", README, re.DOTALL)


def test_reference_tables_are_those_of_the_code() -> None:
    """The tables of verbs, modes and options are generated; `python tests/test_readme.py` writes them."""
    written = README.split(BEGIN)[1].split(END)[0].strip()
    expected = magics.reference_markdown().strip()
    assert written == expected, f"README should hold between its markers:\n\n{expected}"


def _run(folder: Path, examples: dict[str, str], demo: Path | None = None) -> dict[str, str]:
    """Run examples as they stand, in one process, for half of the work of each was to import; give what each
    prints.

    By one thread: two that sleep while they wait cost 1.3 times as much. `demo` is a folder in which the
    package of the demo model is found.
    """
    for name, text in examples.items():
        (folder / f"{name}.py").write_text(text, encoding="utf-8")
    script = "import runpy, sys\nfor name in sys.argv[1:]: print('\\f' + name), runpy.run_path(f'{name}.py')"
    places = (str(folder), str(demo or ""), os.environ.get("PYTHONPATH", ""))
    alone = os.environ | {"LLAMA_MAGIC_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, places))}
    command = [sys.executable, "-c", script, *examples]
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, env=alone, timeout=600, check=False
    )
    assert done.returncode == 0, (done.stdout, done.stderr)
    parts = [part.partition("\n") for part in done.stdout.split("\f")[1:]]
    return {name: printed for name, _, printed in parts}


def test_the_python_block_and_the_rows_run(tmp_path: Path, short_demo: Path) -> None:
    """Both run as they stand: a fixed seed gives an answer; of twelve those of the bad row are errors."""
    ends = "print('\\nended with', colour, len(four), type(person).__name__)\n"
    printed = _run(tmp_path, {"block": BLOCKS[0] + ends, "rows": BLOCKS[1]}, short_demo)
    assert re.search(r"ended with (red|green|blue) 4 Person", printed["block"])
    assert re.search(r"^(good|bad) \{'right': (True|False)\} 7 12 4\n", printed["rows"])


def test_the_decisions_and_the_branches_run(tmp_path: Path) -> None:
    """Both run as they stand: Paris is likelier than Rome, and both ways on of the pen are drawn."""
    printed = _run(tmp_path, {"decisions": BLOCKS[2], "branches": BLOCKS[3]})
    paris, rome = re.findall(r"-\d+\.\d+", printed["decisions"].splitlines()[-1])
    assert float(paris) > float(rome)
    assert re.search(r"├─ unique \d+%.*└─ deep \d+%.* True$", printed["branches"], re.DOTALL)


def test_the_example_of_a_test_passes(tmp_path: Path) -> None:
    """What README shows of testing a notebook is collected by pytest and passes, without a model."""
    assert len(BLOCKS) == 5
    (tmp_path / "test_notebook.py").write_text(BLOCKS[4], encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)]
    alone = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=alone, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def test_files_it_names_exist() -> None:
    """Every notebook, link and make target that README names is there."""
    for path in re.findall(r"\]\(([\w./]+)\)|`(notebooks/[\w.]+)`", README):
        assert (ROOT / (path[0] or path[1])).exists()
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for quoted, shown in re.findall(r"`make (\w+)`|^make (\w+)", README, re.MULTILINE):
        assert re.search(rf"^{quoted or shown}:", makefile, re.MULTILINE), quoted or shown


def test_its_contents_lead_to_each_heading() -> None:
    """Every heading stands among the links at the top, in order, under the address that GitHub gives it."""
    linked = re.findall(r"\[([^\]]+)\]\(#([\w-]+)\)", README.partition("\n## ")[0])
    headings = re.findall(r"^## (.*)$", README, re.MULTILINE)
    assert [words for words, _ in linked] == headings
    assert [re.sub(r"[^\w -]", "", words.lower()).replace(" ", "-") for words in headings] == [
        to for _, to in linked
    ]


def test_its_pictures_are_there_small_and_said_in_words() -> None:
    """Four PNG files below 150 kB, each with a text that says what it shows; no picture lies there unused."""
    shown = re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", README)
    assert len(shown) == 4
    for words, link in shown:
        data = (ROOT / link).read_bytes()
        assert data.startswith(b"\x89PNG")
        assert len(data) < 150_000, link
        assert len(words) > 80, link
    pictures = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "notebooks/pictures").iterdir())
    assert pictures == sorted(link for _, link in shown)


def test_no_registry_host_is_named() -> None:
    """No file of the project names a package registry's host (pip knows its own)."""
    listed = subprocess.run(
        ["git", "-c", f"safe.directory={ROOT}", "ls-files"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    hosts = re.compile(r"(pypi|pythonhosted|npmjs|debian)\.(org|com)")
    for name in listed.stdout.split():
        path = ROOT / name
        if path.is_file() and path.suffix in {".md", ".py", ".toml", ".yml", ""}:
            assert not hosts.search(path.read_text(encoding="utf-8", errors="replace")), name


if __name__ == "__main__":
    head, rest = README.split(BEGIN)
    tail = rest.split(END)[1]
    text = f"{head}{BEGIN}{magics.reference_markdown().strip()}\n{END}{tail}"
    (ROOT / "README.md").write_text(text, encoding="utf-8")
