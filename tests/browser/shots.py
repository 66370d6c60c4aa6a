"""Pictures of every view, for people to look at: `make shots`, or of some: `make shots PARTS="live readme"`.

`saved`: every view, and every lesson as it is saved; light and dark, at 1,000 and 1,600 pixels, trusted and
not. `stripped`: the same as GitHub shows it, without a style. `live`: what runs. `lessons`: what stands there
after *Run All*, of those in `LESSONS="03 05"` if that is set. `readme`: the pictures of README, into a folder
that git keeps; all others go to `tests/screenshots/`, which git ignores.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from display_answers import bare
from example_views import example_views

from browser.cells import HELD, IMPORTS, cell
from browser.conftest import CHROMIUM_ARGS, MISSING, chromium_path
from browser.page import LIGHT, SHOTS, Page
from browser.server import Server
from llama_magic.display import mimebundle

ROOT = Path(__file__).parents[2]
LESSONS = sorted((ROOT / "notebooks").glob("*.ipynb"))
README = ROOT / "notebooks" / "pictures"
THEMES = {"light": LIGHT, "dark": "JupyterLab Dark"}
WIDTHS = (1000, 1600)
SHARP = 1.1  # pixels of README's pictures for one of the page's
TALLEST = 12_000  # pixels of one picture
GITHUB = """<style>
body { font: 16px/1.5 sans-serif; margin: 2em }
kbd { border: 1px solid #d1d9e0; border-radius: 6px; padding: 4px 5px; font: 11px/10px monospace;
  display: inline-block; vertical-align: middle; background: #f6f8fa }
td, th { border: 1px solid #d1d9e0; padding: 6px 13px } table { border-collapse: collapse }
</style>"""
LOAD = "%load_ext llama_magic\n%llama load --ctx 2048 --threads 2"
FORM = "{'type': 'object', 'properties': {'name': {'type': 'string'}, 'age': {'type': 'integer'}}}"
# How high a window has to be, so that the last cell is seen.
_HEIGHT = """() => [...document.querySelectorAll(".jp-Notebook .jp-Cell")]
  .reduce((sum, cell) => sum + cell.getBoundingClientRect().height, 200)"""
# A cell without JupyterLab's own marks of what is chosen.
PLAIN = ".jp-cell-toolbar, .jp-Collapser { display: none !important }"
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


class Camera:
    """A JupyterLab, and whole notebooks of it as pictures."""

    def __init__(self, browser: Any, server: Server, scale: float = 1) -> None:
        self.page = Page(browser, server, scale)
        self.page.start()

    def sheets(self, name: str) -> Iterator[str]:
        """Take the notebook that is shown, whole, in both themes and both widths."""
        for theme, called in THEMES.items():
            self.page.theme(called)
            for width in WIDTHS:
                self.whole(f"{name}-{theme}-{width}", width)
                yield f"{name}-{theme}-{width}"

    def whole(self, name: str, width: int) -> None:
        """Take all of a notebook, in a window as high as it is."""
        page = self.page.page
        page.set_viewport_size({"width": width, "height": 800})
        for _ in range(3):  # cells that were not in sight have no height before they are
            page.set_viewport_size({"width": width, "height": min(TALLEST, int(page.evaluate(_HEIGHT)))})
        page.evaluate("() => { document.querySelector('.jp-WindowedPanel-outer').scrollTop = 0; }")
        page.wait_for_function(
            "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))) && true"
        )
        self.page.shot(name)


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
    camera = Camera(browser, server)
    views = {name: mimebundle(view) for name, view in example_views().items()}
    env = os.environ | {"JUPYTER_DATA_DIR": str(server.root / ".data")}
    for trust in ("untrusted", "trusted"):
        paths = [notebook(server, f"views-{trust}.ipynb", views)]
        for lesson in LESSONS:
            copy = server.root / f"{lesson.stem}-{trust}.ipynb"
            paths.append(copy)
            copy.write_bytes(lesson.read_bytes())
        if trust == "trusted":
            subprocess.run([sys.executable, "-m", "jupyter", "trust", *map(str, paths)], env=env, check=True)
        for path in paths:
            camera.page.open(path.name)
            for made in camera.sheets(path.stem):
                print(made, flush=True)


def stripped(browser: Any, server: Server) -> None:
    """Take every view and the outputs of every lesson without a style, as GitHub shows them."""
    page = browser.new_page(viewport={"width": WIDTHS[0], "height": 800})
    sheets = {"views": [mimebundle(view)["text/html"] for view in example_views().values()]}
    for lesson in LESSONS:
        cells = json.loads(lesson.read_text("utf-8"))["cells"]
        outputs = (output.get("data", {}) for one in cells for output in one.get("outputs", ()))
        sheets[lesson.stem] = ["".join(data["text/html"]) for data in outputs if "text/html" in data]
    for name, htmls in sheets.items():
        shown = "<hr>".join(re.sub(r"<style.*?</style>", "", bare(html), flags=re.DOTALL) for html in htmls)
        page.set_content(GITHUB + shown)
        page.screenshot(path=SHOTS / f"{name}-stripped.png", full_page=True)
        print(f"{name}-stripped", flush=True)


def live(browser: Any, server: Server) -> None:
    """Take everything that runs, while it runs."""
    camera = Camera(browser, server)
    page = camera.page
    names = list(LIVE)
    server.write("live.ipynb", [source for source, _ in LIVE.values()])
    page.open("live.ipynb")
    for index, name in enumerate(names):
        source, there = LIVE[name]
        page.run(index)
        if there:
            page.cell(index).locator(there).first.wait_for(timeout=60_000)
        if HELD in source:
            for made in camera.sheets(f"live-{name}"):
                print(made, flush=True)
            page.theme(LIGHT)
            page.release()
        page.finished(index, timeout=60_000)
    page.cell(names.index("xray")).get_by_role("button", name="Draw 100 times").click()
    page.cell(names.index("xray")).locator(".lm-board").get_by_text("would have drawn another").wait_for()
    for made in camera.sheets("live"):
        print(made, flush=True)


def lessons(browser: Any, server: Server) -> None:
    """Run the lessons from start to end, as a reader would, and take what then stands there."""
    camera = Camera(browser, server)
    page = camera.page
    wanted = os.environ.get("LESSONS", "").split()
    for lesson in (one for one in LESSONS if not wanted or one.stem[:2] in wanted):
        (server.root / lesson.name).write_bytes(lesson.read_bytes())
        page.open(lesson.name, own_kernel=True)
        page.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")
        for width in WIDTHS:
            camera.whole(f"{lesson.stem}-run-{width}", width)
        page.leave()
        print(f"{lesson.stem}-run", flush=True)


def readme(browser: Any, server: Server) -> None:
    """Take the pictures that README shows, into the folder that git keeps."""
    README.mkdir(exist_ok=True)
    camera = Camera(browser, server, scale=SHARP)
    page = camera.page
    sources, moments = zip(*PICTURES.values(), strict=True)
    server.write("readme.ipynb", [LOAD, *sources])
    page.open("readme.ipynb")
    page.page.evaluate("() => window.jupyterapp.shell.collapseLeft()")
    page.page.set_viewport_size({"width": 880, "height": 1400})
    page.run(0)
    page.finished(0, timeout=60_000)
    for index, (name, moment) in enumerate(zip(PICTURES, moments, strict=True), 1):
        page.run(index)
        shown = page.cell(index)
        moment(page, shown)
        page.page.mouse.move(0, 0)
        shown.screenshot(path=README / f"{name}.png", style=PLAIN)
        print(f"notebooks/pictures/{name}.png {(README / f'{name}.png').stat().st_size:,} bytes", flush=True)


def _writing(page: Page, shown: Any) -> None:
    shown.locator(".lm-live .lm-text", has_text=re.compile(r"(\S+\s+){45}")).wait_for(timeout=60_000)


def _drawn(page: Page, shown: Any) -> None:
    shown.get_by_role("button", name="Draw 100 times").click()
    shown.locator(".lm-board").get_by_text("would have drawn another").wait_for()


def _ended(page: Page, shown: Any) -> None:
    shown.locator(".jp-RenderedHTML .lm").first.wait_for(timeout=60_000)


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


if __name__ == "__main__":
    main(sys.argv[1:])
