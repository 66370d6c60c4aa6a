"""The lessons: their exercises are solved by the answers for instructors, their one page is understood."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nbformat
import pytest
from lesson_runs import FOLDER, LESSONS, README, run_in_turn, wrong
from traitlets.config import Config

PARTS = (
    "**Goal:**", "## Predict", "## Run", "## Explain", "## Exercise 1", "## Exercise 2", "## A misconception",
    "## Exit question", "<details>", "## What this does not show",
)  # fmt: skip

# Their checks are about what SmolLM2 knows, or about its file. All others hold on its short kin, which runs
# the same code at a third of the cost; `tests/lesson/soak_lessons.py` runs all of them on SmolLM2, each in a
# kernel of its own.
ON_SMOLLM2 = (3, 7, 9, 10, 11)


@pytest.fixture(scope="module")
def ran(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, short_demo: Path
) -> dict[str, list[str]]:
    """Run the lessons that are asked for under nbval, in two kernels; give what each cell came to."""
    items: list[Any] = [item for item in request.session.items if "ran" in getattr(item, "fixturenames", ())]
    paths = [item.callspec.params["path"] for item in items]
    found = {}
    for demo in (None, short_demo):
        some = [path for path in paths if (int(path.stem[:2]) in ON_SMOLLM2) == (demo is None)]
        if some:
            found |= run_in_turn(some, tmp_path_factory.mktemp("lessons"), demo)
    return found


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_exercises_are_open_and_the_answers_solve_them(path: Path, ran: dict[str, list[str]]) -> None:
    """Under nbval, with nothing left of the lesson before, every cell runs.

    As it stands each exercise says that it is open; with the instructor's answer it is solved.
    """
    found = wrong(path, ran[path.name])
    assert not found, "\n".join(found)


@pytest.mark.parametrize("path", LESSONS[1:], ids=lambda path: path.stem)
def test_a_lesson_has_all_its_parts(path: Path) -> None:
    """Goal, prediction, run, explanation, exercises, misconception, exit question, limits; in this order."""
    cells = nbformat.read(path, as_version=4).cells
    text = "\n".join(cell.source for cell in cells)
    places = [text.index(part) for part in PARTS]
    assert places == sorted(places)
    assert "NBVAL_CHECK_OUTPUT" not in text
    assert text.count("lm.lesson.predict(") == 1
    [predict] = [cell for cell in cells if "lm.lesson.predict(" in cell.source]
    assert predict.metadata.jupyter.source_hidden  # it holds the answer
    assert predict.source.startswith("lm.lesson.predict(")  # which is what is seen of it
    after = cells[cells.index(predict) + 1 :]
    assert "## Run" in after[0].source
    told = next(cell for cell in after if cell.cell_type == "code")  # once it has run, what is right is said
    assert told.outputs  # so it shows something to compare with
    [last] = [cell for cell in cells if "## Exit question" in cell.source]
    assert PARTS[-1] in last.source  # its answer is folded: no output right below gives it away


@functools.cache  # it reads its template when it is made, which is half of the work
def _by_tags() -> tuple[str, Any]:
    """Return the tag of README's line, and what makes pages by it."""
    from nbconvert import HTMLExporter

    [tag] = re.findall(r"remove_input_tags=(\S+)", README)
    config = {"TagRemovePreprocessor": {"enabled": True, "remove_input_tags": {tag}}}
    return tag, HTMLExporter(config=Config(config))


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_what_is_folded_stays_out_of_a_page_to_hand_out(path: Path) -> None:
    """nbconvert knows no fold but goes by tags: by the README's line no answer stands on the page."""
    tag, exporter = _by_tags()
    book = nbformat.read(path, as_version=4)
    page = exporter.from_notebook_node(book)[0]
    assert "answer=" not in re.sub("<[^>]+>", "", page)
    folded = [cell for cell in book.cells if cell.metadata.get("jupyter", {}).get("source_hidden")]
    assert all(tag in cell.metadata.tags for cell in folded)


@pytest.mark.parametrize("path", LESSONS[1:], ids=lambda path: path.stem)
def test_an_exercise_does_not_show_its_answer(path: Path) -> None:
    """What a reader fills in is a cell of two or three lines; what checks it is folded, right above."""
    code = [cell for cell in nbformat.read(path, as_version=4).cells if cell.cell_type == "code"]
    asked = [i for i, cell in enumerate(code) if re.search(r"^\w+ = \.\.\.$", cell.source, re.MULTILINE)]
    for number, i in enumerate(asked, 1):
        assert len(code[i].source.splitlines()) <= 3
        assert re.search(rf"^exercise_{number}\(\w+\)$", code[i].source, re.MULTILINE)
        assert code[i - 1].source.startswith(f"# What checks exercise {number}.\n")
        assert code[i - 1].metadata.jupyter.source_hidden


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_prose_has_quotation_marks(path: Path) -> None:
    """A straight one stands in code alone."""
    for cell in nbformat.read(path, as_version=4).cells:
        if cell.cell_type == "markdown":
            assert '"' not in re.sub(r"(?s)```.*?```|`[^`]*`|<[^>]*>", "", cell.source)


@pytest.mark.parametrize("path", LESSONS, ids=lambda path: path.stem)
def test_code_fits_a_window_of_a_thousand_pixels(path: Path) -> None:
    """No line that a reader sees is longer than 70 characters: what is longer is cut on the page."""
    for cell in nbformat.read(path, as_version=4).cells:
        folded = cell.metadata.get("jupyter", {}).get("source_hidden")
        if cell.cell_type == "code" and not folded:
            assert [line for line in cell.source.splitlines() if len(line) > 70] == []


def test_the_work_of_a_day_is_five_cells_without_a_loop() -> None:
    """Two models, 30 reviews, 3 prompts, 2 temperatures, intervals, a bad row, an answer run again."""
    cells = nbformat.read(FOLDER / "12_prompts_as_a_table.ipynb", as_version=4).cells
    explain = next(i for i, cell in enumerate(cells) if "## Explain" in cell.source)
    work = [cell for cell in cells[:explain] if cell.cell_type == "code" and not cell.metadata]
    assert len(work) == 5
    text = "\n".join(cell.source for cell in work)
    assert not re.search(r"\b(for|while)\b", re.sub(r'""".*?"""', "", text, flags=re.DOTALL))
    for part in ("--kv-type q8_0", "temperature=0,0.8", "=== role", "summary(", "pairs(", "failures"):
        assert part in text
    assert "lm.rerun(earlier" in text


def test_the_index_names_every_lesson() -> None:
    """Each file is linked once, and thirty words are explained."""
    assert re.findall(r"\]\((\w+\.ipynb)\)", README) == [path.name for path in LESSONS]
    words = README.partition("## Thirty words")[2].partition("## Answers")[0]
    assert len(re.findall(r"^\| (?!word|---)", words, re.MULTILINE)) == 30


def test_plans_and_index_know_what_builds_on_what() -> None:
    """The index says what lessons say of themselves. A plan has what its lessons build on, and its time."""
    rows = re.findall(r"^\| (\d+) \| .*\| (\d+) \| (.*) \|$", README, re.MULTILINE)
    builds = {int(number): [*map(int, re.findall(r"\d+", on))] for number, _, on in rows}
    minutes = {int(number): int(time) for number, time, _ in rows}
    assert len(builds) == len(LESSONS)
    for number, path in enumerate(LESSONS[2:], 2):
        goal = nbformat.read(path, as_version=4).cells[0].source
        assert [*map(int, re.findall(r"\d+", goal.partition("uilds on")[2]))] == builds[number]
        assert f"About {minutes[number]} minutes" in goal
    plans = " ".join(README.partition("## Plans")[2].partition("## One")[0].split())
    day = re.search(r"90 minutes\*\*: (.*?)\. With", plans)
    writers = re.search(r"half a day\): ([\d, ]+), two hours and a quarter", plans)
    assert day is not None
    assert writers is not None
    taken = [*map(int, re.findall(r"(\d+) (?:\(|beforehand)", day[1]))]
    wrote = [*map(int, writers[1].split(","))]
    for plan in (taken, wrote):
        assert all(set(builds[number]) <= set(plan) for number in plan)
    assert sum(map(int, re.findall(r"\((\d+)\)", day[1]))) == 90  # 0 is read beforehand
    assert all(f"{number} ({minutes[number]})" in day[1] for number in taken[1:])
    assert sum(minutes[number] for number in wrote) == 135


def test_the_one_page_runs(ip: Any, path_of: Callable[[str], Path]) -> None:
    """Every line of the cheat sheet, with a body where it is a cell, in the order of the page."""
    page = re.search(r"## One page to keep\n\n```\n(.*?)```", README, re.DOTALL)
    assert page is not None
    lines = re.findall(r"%%?llama [^\n]*?(?=\s{2,}|$)", page[1], re.MULTILINE)
    assert len(lines) == 17
    rows = "rows = [{'text': 'Lovely.', 'label': 'good'}, {'text': 'It broke.', 'label': 'bad'}]"
    ip.run_cell(f"from pydantic import BaseModel\nclass City(BaseModel):\n    size: int\n{rows}")
    body = {"chat": "Say hi.", "structured": "Lyon?", "map": "Good or bad? {{ text }}"}
    try:
        for line in lines:
            what = line.partition("llama ")[2].split()[0]
            long = " -n 4" * (line.startswith("%%") and what in {"chat", "map"})
            cell = line.replace("smollm2", str(path_of("short"))).replace("-n 40", "-n 4") + long
            done = ip.run_cell(f"{cell}\n{body.get(what, 'Once upon a time')}" if "%%" in line else cell)
            assert done.success, (line, done.error_in_exec)
        assert isinstance(ip.user_ns["answer"].parsed, ip.user_ns["City"])
        assert len(ip.user_ns["runs"].scored("label")) == 2
    finally:
        ip.run_cell("%llama unload --all")
