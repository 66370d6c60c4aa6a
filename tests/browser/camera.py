"""Pictures of notebooks in JupyterLab: whole, in pages that end between cells, or of one cell."""

from __future__ import annotations

import functools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from browser.page import LIGHT, SHOTS, Page
from browser.server import Server

ROOT = Path(__file__).parents[2]
THEMES = {"light": LIGHT, "dark": "JupyterLab Dark"}
WIDTHS = (1000, 1600)
SHEETS = tuple(f"{theme}-{width}" for theme in THEMES for width in WIDTHS)
PATIENCE = 600.0  # seconds that a state is waited for: a busy machine gets there, too
_TALLEST = 15_000  # pixels of a window
_PAGE = 1500  # pixels of a picture; a cell that is higher is cut
_MARGIN = 4  # pixels around a cell
# Where each cell of the notebook stands, once the page is drawn.
_CELLS = """async () => {
  document.querySelector(".jp-WindowedPanel-outer").scrollTop = 0;
  await new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
  return [...document.querySelectorAll(".jp-Notebook .jp-Cell")].map((cell) => {
    const { top, bottom } = cell.getBoundingClientRect();
    return [top, bottom];
  });
}"""
_STILL = "*, *::before { transition: none !important; animation: none !important }"


@functools.cache
def _changed() -> float:
    """Return when what the pictures show was changed last."""
    tests = ROOT / "tests"
    shown = [*(tests / "display").glob("[de]*_*.py"), *(ROOT / "notebooks").glob("*.ipynb")]
    shown += [tests / "browser" / name for name in ("shots.py", "cells.py")]
    for folder in ("llama_magic", "formatters"):
        shown += [path for path in (ROOT / folder).rglob("*") if path.suffix in (".py", ".js", ".css")]
    return max(path.stat().st_mtime for path in shown)


def pages(name: str) -> list[Path]:
    """Return the pictures that were taken of a sheet."""
    return sorted(
        path for path in SHOTS.glob(f"{name}*.png") if path.stem[len(name) :].strip("-0123456789") == ""
    )


def fresh(names: Iterable[str]) -> bool:
    """Return whether all these sheets were taken after the last change of what they show."""
    taken = [pages(name) for name in names]
    return all(taken) and min(page.stat().st_mtime for sheet in taken for page in sheet) > _changed()


def sheets(name: str) -> list[str]:
    """Return the names of a notebook's sheets: both themes, both widths."""
    return [f"{name}-{sheet}" for sheet in SHEETS]


class Camera:
    """A JupyterLab, and what it shows as pictures."""

    def __init__(self, browser: Any, server: Server, scale: float = 1) -> None:
        self.page = Page(browser, server, scale, PATIENCE)
        self.page.start()

    def take(self, name: str, cell: int | None = None) -> None:
        """Take the notebook that is shown, or one cell of it, in both themes and both widths."""
        for theme, called in THEMES.items():
            self.page.theme(called)
            for width in WIDTHS:
                self.whole(f"{name}-{theme}-{width}", width, cell)
        self.page.theme(LIGHT)

    def whole(self, name: str, width: int, cell: int | None = None) -> None:
        """Take all of a notebook, in a window as high as it is, or one cell of it."""
        page = self.page.page
        page.set_viewport_size({"width": width, "height": 800})
        cells: list[tuple[float, float]] = []
        while True:  # cells that were not in sight have no height before they are
            before, cells = cells, page.evaluate(_CELLS)
            if cells == before:
                break
            page.set_viewport_size({"width": width, "height": min(_TALLEST, int(cells[-1][1]) + 300)})
        for old in pages(name):
            old.unlink()
        parts = _cut(cells if cell is None else [cells[cell]])
        for number, (top, bottom) in enumerate(parts, 1):
            clip = {"x": 0, "y": max(0, top - _MARGIN), "width": width, "height": bottom - top + 2 * _MARGIN}
            part = f"{name}-{number}" if len(parts) > 1 else name
            page.screenshot(path=SHOTS / f"{part}.png", clip=clip, style=_STILL)
        print(name, flush=True)


def _cut(cells: list[tuple[float, float]]) -> list[tuple[float, float]]:
    """Return the pages of a notebook as (top, bottom): as many cells as one holds, or part of a high one."""
    pages: list[tuple[float, float]] = []
    for top, bottom in cells:
        bottom = min(bottom, _TALLEST)
        if pages and bottom - pages[-1][0] <= _PAGE:
            pages[-1] = (pages[-1][0], bottom)
            continue
        while bottom - top > _PAGE:
            pages.append((top, top + _PAGE))
            top += _PAGE
        if bottom > top:
            pages.append((top, bottom))
    return pages
