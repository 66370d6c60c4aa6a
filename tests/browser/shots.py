"""Pictures of every view, for people to look at: `make shots`, or of some: `make shots PARTS="live readme"`.

`saved`: every view, and every lesson as it is saved; light and dark, at 1,000 and 1,600 pixels, trusted and
not. `stripped`: the same as GitHub shows it, without a style. `live`: what runs. `lessons`: what stands there
after *Run All*. `readme`: the pictures of README, into a folder that git keeps; all others go to
`tests/screenshots/`, which git ignores.

`make shots ONLY="xray 03"` takes the views and lessons whose name holds one of these. What was taken since
the last change of what it shows is not taken again, so a run that was broken off goes on; `FRESH=1` takes
all. Nothing waits for a time, and what fails costs none of the others.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from display_answers import bare
from example_views import example_views

from browser.camera import ROOT, SHEETS, WIDTHS, Camera, fresh, sheets
from browser.cells import HELD, IMPORTS, cell
from browser.conftest import CHROMIUM_ARGS, MISSING, chromium_path
from browser.page import SHOTS, Page
from browser.server import Server
from llama_magic.display import mimebundle

LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
README = ROOT / "notebooks" / "pictures"
SHARP = 1.1  # pixels of README's pictures for one of the page's
GITHUB = """<style>
body { font: 16px/1.5 sans-serif; margin: 2em }
kbd { border: 1px solid #d1d9e0; border-radius: 6px; padding: 4px 5px; font: 11px/10px monospace;
  display: inline-block; vertical-align: middle; background: #f6f8fa }
td, th { border: 1px solid #d1d9e0; padding: 6px 13px } table { border-collapse: collapse }
</style>"""
LOAD = "%load_ext llama_magic\n%llama load --ctx 2048 --threads 2"
PID = "open('pid', 'w').write(str(__import__('os').getpid())) and None"
FORM = "{'type': 'object', 'properties': {'name': {'type': 'string'}, 'age': {'type': 'integer'}}}"
# A cell without JupyterLab's own marks of what is chosen.
PLAIN = ".jp-cell-toolbar, .jp-Collapser { display: none !important }"
NEEDED = ("loaded", "imports")  # by all other live cells
# Each live cell, and what shows that it is there.
LIVE: dict[str, tuple[str, str]] = {
    "loaded": (LOAD, ".lm-table"),
    "imports": (IMPORTS, ""),
    "chat": (cell("'A dragon opened a **bakery**. ' * 20", HELD), ".lm-live strong"),
    "samples": (cell("'word ' * 30", HELD, "n=3"), ".lm-live .lm-text"),
    "structured": (
        cell('\'{"name": "Ada", "age": 36}\'', f"at=16, {HELD}", f"mode='structured', schema={FORM}, n=7"),
        ".lm-live td",
    ),
    "xray": ("%%llama xray --live --seed 7\nThe best thing about the sea is", ".lm-stage"),
    "tokens": ("%llama tokens --live Counting tokens, naïvely<|im_end|>", ".lm-board kbd"),
    "pad": ("%llama pad", ".lm-board textarea"),
    "predict": (
        "import llama_magic as lm\nlm.lesson.predict('Which is likelier?', ['sea', 'broccoli'])",
        ".lm-board input[type=radio]",
    ),
    "pen": ("%%llama chat --live --seed 7 -n 40 --logprobs 3\nWhat is the capital of France?", ".lm-board"),
}

failed: list[str] = []  # what could not be taken


def asked(name: str) -> bool:
    """Return whether `ONLY` names this, or nothing."""
    only = os.environ.get("ONLY", "").split()
    return not only or any(one in name for one in only)


def wanted(names: list[str]) -> bool:
    """Return whether these sheets are to be taken: asked for, and not taken since the last change."""
    return any(map(asked, names)) and (bool(os.environ.get("FRESH")) or not fresh(names))


def views() -> dict[str, dict[str, Any]]:
    """Return the notebooks of views, by their names: one of all, and one of each that `ONLY` names."""
    every = dict(example_views())
    alone = {f"view-{name}": {name: view} for name, view in every.items() if asked(f"view-{name}")}
    return {"views": every} | (alone if os.environ.get("ONLY") else {})


@contextmanager
def trying(what: str) -> Iterator[None]:
    """Go on with the next picture where one fails, and say so at the end."""
    try:
        yield
    except Exception as error:  # Playwright's, of a page that is broken in its own way
        failed.append(what)
        print(f"{what}: {error}", file=sys.stderr, flush=True)


@contextmanager
def still(kernel: int) -> Iterator[None]:
    """Hold a kernel, so that what it writes is not over before the picture is taken."""
    os.kill(kernel, signal.SIGSTOP)
    try:
        yield
    finally:
        os.kill(kernel, signal.SIGCONT)


def notebook(server: Server, name: str, outputs: dict[str, dict[str, Any]]) -> Path:
    """Write a notebook with a cell for each output, which says its name."""
    path = server.write(name, [f"# {title}" for title in outputs])
    book = json.loads(path.read_text("utf-8"))
    for one, data in zip(book["cells"], outputs.values(), strict=True):
        one["outputs"] = [{"output_type": "display_data", "metadata": {}, "data": data}]
    path.write_text(json.dumps(book), "utf-8")
    return path


def saved(browser: Any, server: Server) -> None:
    """Take every view and every lesson as it is saved, trusted and not."""
    every: dict[str, dict[str, Any]] = views() | {lesson.stem: {} for lesson in LESSONS}
    books = {
        f"{name}-{trust}": shown
        for trust in ("untrusted", "trusted")
        for name, shown in every.items()
        if wanted(sheets(f"{name}-{trust}"))
    }
    if not books:
        return
    paths = {name: server.root / f"{name}.ipynb" for name in books}
    for name, shown in books.items():
        if shown:
            notebook(server, paths[name].name, {title: mimebundle(view) for title, view in shown.items()})
        else:
            lesson = json.loads((ROOT / "notebooks" / f"{name.rpartition('-')[0]}.ipynb").read_text("utf-8"))
            lesson["metadata"]["copy"] = name  # what is signed is what a notebook holds, whatever its name
            paths[name].write_text(json.dumps(lesson), "utf-8")
    if trusted := [str(path) for name, path in paths.items() if name.endswith("-trusted")]:
        env = os.environ | {"JUPYTER_DATA_DIR": str(server.root / ".data")}
        subprocess.run([sys.executable, "-m", "jupyter", "trust", *trusted], env=env, check=True)
    camera = Camera(browser, server)
    for name, path in paths.items():
        with trying(name):
            camera.page.open(path.name)
            camera.take(name)


def stripped(browser: Any, server: Server) -> None:
    """Take every view and the outputs of every lesson without a style, as GitHub shows them."""
    page = browser.new_page(viewport={"width": WIDTHS[0], "height": 800})
    shown = {
        name: [mimebundle(view)["text/html"] for view in some.values()] for name, some in views().items()
    }
    for lesson in LESSONS:
        cells = json.loads(lesson.read_text("utf-8"))["cells"]
        outputs = (output.get("data", {}) for one in cells for output in one.get("outputs", ()))
        shown[lesson.stem] = ["".join(data["text/html"]) for data in outputs if "text/html" in data]
    for name, htmls in shown.items():
        if wanted([f"{name}-stripped"]):
            page.set_content(
                GITHUB
                + "<hr>".join(re.sub(r"<style.*?</style>", "", bare(html), flags=re.DOTALL) for html in htmls)
            )
            page.screenshot(path=SHOTS / f"{name}-stripped.png", full_page=True)
            print(f"{name}-stripped", flush=True)


def live(browser: Any, server: Server) -> None:
    """Take everything that runs, while it runs."""
    names = [name for name in LIVE if name in NEEDED or wanted(sheets(f"live-{name}"))]
    if set(names) == set(NEEDED):
        return
    camera = Camera(browser, server)
    page = camera.page
    server.write("live.ipynb", [LIVE[name][0] for name in names])
    page.open("live.ipynb")
    for index, name in enumerate(names):
        with trying(f"live-{name}"):
            source, there = LIVE[name]
            page.run(index)
            if HELD not in source:
                page.finished(index)
            if there:
                page.cell(index).locator(there).first.wait_for()
            if name in MOMENTS:
                MOMENTS[name](page, page.cell(index))
            if name not in NEEDED:
                camera.take(f"live-{name}", index)
            if HELD in source:
                page.release()
                page.finished(index)


def lessons(browser: Any, server: Server) -> None:
    """Run the lessons from start to end, as a reader would, and take what then stands there."""
    chosen = {lesson: [f"{lesson.stem}-run-{sheet}" for sheet in SHEETS] for lesson in LESSONS}
    chosen = {lesson: names for lesson, names in chosen.items() if wanted(names)}
    if not chosen:
        return
    camera = Camera(browser, server)
    page = camera.page
    for lesson in chosen:
        with trying(f"{lesson.stem}-run"):
            (server.root / lesson.name).write_bytes(lesson.read_bytes())
            page.open(lesson.name, own_kernel=True)
            page.run_all()
            page.all_ran()
            camera.take(f"{lesson.stem}-run")
            page.leave()


def readme(browser: Any, server: Server) -> None:
    """Take the pictures that README shows, into the folder that git keeps."""
    chosen = {name: way for name, way in PICTURES.items() if asked(f"readme-{name}")}
    README.mkdir(exist_ok=True)
    page = Camera(browser, server, scale=SHARP).page
    server.write("readme.ipynb", [f"{LOAD}\n{PID}", *(source for source, _ in chosen.values())])
    page.open("readme.ipynb")
    page.page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
    page.page.set_viewport_size({"width": 880, "height": 1400})
    page.run(0)
    page.finished(0)
    for index, (name, (_, moment)) in enumerate(chosen.items(), 1):
        with trying(f"readme-{name}"):
            page.run(index)
            shown = page.cell(index)
            moment(page, shown)
            path = README / f"{name}.png"
            with still(int((server.root / "pid").read_text())):
                assert name != "writing" or shown.locator(".lm-stop").is_visible(), "it had ended already"
                page.page.mouse.move(0, 0)
                shown.screenshot(path=path, style=PLAIN)
            print(f"notebooks/pictures/{path.name} {path.stat().st_size:,} bytes", flush=True)


def _writing(page: Page, shown: Any) -> None:
    shown.locator(".lm-live .lm-text", has_text=re.compile(r"(\S+\s+){45}")).wait_for()


def _drawn(page: Page, shown: Any) -> None:
    shown.get_by_role("button", name="Draw 100 times").click()
    shown.locator(".lm-board").get_by_text("would have drawn another").wait_for()


def _counted(page: Page, shown: Any) -> None:
    shown.locator("textarea[placeholder*=prompt], textarea").last.fill("What is the capital of France?")
    shown.locator(".lm-board").get_by_text("free").first.wait_for()


def _picked(page: Page, shown: Any) -> None:
    shown.locator(".lm-words > *").nth(2).click()
    shown.locator(".lm-panel [role=option]").first.wait_for()


def _ended(page: Page, shown: Any) -> None:
    shown.locator(".jp-RenderedHTML .lm").first.wait_for()


_WRITING = "%%llama chat --seed 7 -n 300\nsystem: You tell short stories.\nuser: A dragon opens a bakery."
_XRAY = "%%llama xray --live --seed 7\nThe best thing about the sea is"
_SURPRISE = "%%llama surprise\nThe capital of France is Paris. The capital of Italy is broccoli."
_GAUGE = """%%llama chat --new --seed 7 -n 60
system: You answer in one short sentence.
user: What is this text about? {{ 'The tide comes in, and the tide goes out. ' * 40 }}"""
PICTURES: dict[str, tuple[str, Callable[[Page, Any], None]]] = {
    "writing": (_WRITING, _writing),
    "xray": (_XRAY, _drawn),
    "surprise": (_SURPRISE, _ended),
    "gauge": (_GAUGE, _ended),
}
# What is done to a live view before its picture is taken.
MOMENTS: dict[str, Callable[[Page, Any], None]] = {"xray": _drawn, "pad": _counted, "pen": _picked}
PARTS = {"saved": saved, "stripped": stripped, "live": live, "lessons": lessons, "readme": readme}


def main(parts: list[str]) -> None:
    """Take the pictures of the parts that are named, or all."""
    path = chromium_path()
    if path is None:
        sys.exit(MISSING.replace("Browser tests need", "Pictures need").replace("make test", "make shots"))
    from playwright.sync_api import sync_playwright

    SHOTS.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGS)
        server = Server(Path(folder))
        try:
            for part in parts or PARTS:
                PARTS[part](browser, server)
        finally:
            server.close()
            browser.close()
    if failed:
        sys.exit(f"Not taken: {', '.join(failed)}. Run it again: what is there is kept.")


if __name__ == "__main__":
    main(sys.argv[1:])
