"""Real JupyterLab in Debian's Chromium: one browser, one server, one tab and one kernel for this folder."""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser.boards import LOAD, PAD, STEPS, TRACE, board
from browser.page import Page
from browser.server import Server

sys.path.insert(0, str(Path(__file__).parents[1] / "display"))  # the scripted answers and the hostile texts
CHROMIUM_ARGS = ["--no-sandbox", "--disable-gpu", "--disable-sync", "--no-first-run"]
CHROMIUM_ARGS += ["--disable-background-networking", "--disable-component-update"]
# A page that lives for seconds does not earn back what compiling its JavaScript for speed costs.
CHROMIUM_ARGS += ["--js-flags=--no-opt --no-maglev"]
MISSING = "Browser tests need Chromium: `sudo apt-get install chromium`, then `make test` again."


def chromium_path() -> str | None:
    """Return the first Chromium on the PATH."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say in one line that the browser tests did not run, and how to get what they need."""
    if chromium_path() is None:
        terminalreporter.write_line(MISSING, yellow=True)


# Of this folder, not of the session: Playwright's event loop must not outlive these tests.
@pytest.fixture(scope="package")
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    path = chromium_path()
    if path is None:
        pytest.skip(MISSING)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGS, timeout=600_000)
        yield chromium
        chromium.close()


@pytest.fixture(scope="package")
def server(tmp_path_factory: pytest.TempPathFactory, browser: Any) -> Iterator[Server]:
    """A Jupyter server."""
    made = Server(tmp_path_factory.mktemp("jupyter"))
    yield made
    made.close()


@pytest.fixture(scope="package")
def lab(browser: Any, server: Server) -> Page:
    """A tab with JupyterLab, in which one notebook is shown after the other."""
    page = Page(browser, server)
    page.start()
    return page


@pytest.fixture
def opened(lab: Page) -> Iterator[Any]:
    """A function that shows cells in JupyterLab, as a notebook."""

    def opens(name: str, sources: list[str], *, own_kernel: bool = False) -> Page:
        if own_kernel:
            lab.server.write(name, sources)
            lab.open(name, own_kernel=True)
        else:
            lab.show(name, sources)
        return lab

    yield opens
    lab.leave()


@pytest.fixture(scope="module")
def notebook_7(browser: Any, server: Server) -> Iterator[Any]:
    """A function that loads a notebook in Notebook 7; in the end pages are closed, and kernels ended."""
    pages: list[Page] = []

    def opens(name: str, sources: list[str] | None = None) -> Page:
        if sources is not None:
            server.write(name, sources)
        pages.append(Page(browser, server))
        pages[-1].load("notebooks", name)
        return pages[-1]

    yield opens
    for page in pages:
        page.close()


@pytest.fixture
def tab(opened: Any, request: pytest.FixtureRequest) -> Any:
    """A notebook with a model loaded, a live trace running in its second cell."""
    name = re.sub(r"\W+", "-", request.node.name)
    made = opened(f"{name}.ipynb", [LOAD, TRACE, PAD, STEPS])
    made.run(0)
    made.finished(0)
    made.run(1)
    board(made)
    return made
