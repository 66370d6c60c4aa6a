"""Real JupyterLab in Debian's Chromium, one server and one browser for all tests of this folder."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "display"))  # the scripted answers and the hostile texts
SHOTS = HERE.parent / "screenshots"
TOKEN = "llama-magic-tests"
CHROMIUM_ARGS = ["--no-sandbox", "--disable-gpu", "--disable-sync", "--no-first-run"]
CHROMIUM_ARGS += ["--disable-background-networking", "--disable-component-update"]
MISSING = "Browser tests need Chromium: `sudo apt-get install chromium`, then `make test` again."


def chromium_path() -> str | None:
    """Return the first Chromium on the PATH."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say in one line that the browser tests did not run, and how to get what they need."""
    if chromium_path() is None:
        terminalreporter.write_line(MISSING, yellow=True)


@pytest.fixture(scope="module")  # its event loop must not outlive these tests
def browser() -> Iterator[Any]:
    """A headless Chromium."""
    path = chromium_path()
    if path is None:
        pytest.skip(MISSING)
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGS)
        yield chromium
        chromium.close()


class Server:
    """A Jupyter server on 127.0.0.1 with its notebooks in a folder of its own."""

    def __init__(self, root: Path, app: str) -> None:
        self.root = root
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        env = os.environ | {
            "JUPYTER_CONFIG_DIR": str(root / ".config"), "JUPYTER_DATA_DIR": str(root / ".data"),
            "JUPYTER_RUNTIME_DIR": str(root / ".runtime"), "JUPYTERLAB_SETTINGS_DIR": str(root / ".settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(root / ".workspaces"), "IPYTHONDIR": str(root / ".ipython"),
            "PYTHONPATH": os.pathsep.join((str(HERE.parent / "display"), str(HERE.parents[1]))),
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        }  # fmt: skip
        command = [sys.executable, "-m", app, "--no-browser", f"--port={self.port}", "--allow-root",
                   f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={root}",
                   "--ServerApp.port_retries=0", "--LabApp.expose_app_in_browser=True"]  # fmt: skip
        self._set("apputils", "notification", {"fetchNews": "false", "checkForUpdates": False})
        self._set("notebook", "tracker", {"windowingMode": "none", "maxNumberOutputs": 500})
        self.log = open(root / "server.log", "w")  # noqa: SIM115
        self.process = subprocess.Popen(command, cwd=root, env=env, stdout=self.log, stderr=subprocess.STDOUT)
        self._wait()

    def _set(self, extension: str, plugin: str, values: dict[str, Any]) -> None:
        folder = self.root / ".settings" / "@jupyterlab" / f"{extension}-extension"
        folder.mkdir(parents=True)
        (folder / f"{plugin}.jupyterlab-settings").write_text(json.dumps(values))

    def _wait(self) -> None:
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/api?token={TOKEN}", timeout=1).close()
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError((self.root / "server.log").read_text())

    def get(self, what: str) -> Any:
        """Ask the server's own interface."""
        with urllib.request.urlopen(
            f"http://127.0.0.1:{self.port}/api/{what}?token={TOKEN}", timeout=5
        ) as answer:
            return json.load(answer)

    def address(self, name: str, app: str) -> str:
        """Return the address of a notebook; in JupyterLab in a workspace of its own, without old tabs."""
        place = f"lab/workspaces/{name.partition('.')[0]}/tree" if app == "lab" else app
        return f"http://127.0.0.1:{self.port}/{place}/{name}?token={TOKEN}&reset"

    def end_kernels(self) -> None:
        """End all sessions, so that idle kernels take no processor time from the next test."""
        for session in self.get("sessions"):
            address = f"http://127.0.0.1:{self.port}/api/sessions/{session['id']}?token={TOKEN}"
            urllib.request.urlopen(urllib.request.Request(address, method="DELETE"), timeout=20).close()

    def write(self, name: str, sources: list[str]) -> Path:
        """Write a notebook of code cells that names its kernel."""
        cells = [
            {
                "cell_type": "code",
                "id": f"cell-{i}",
                "metadata": {},
                "execution_count": None,
                "outputs": [],
                "source": s,
            }
            for i, s in enumerate(sources)
        ]
        spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        path = self.root / name
        path.write_text(json.dumps({"cells": cells, "metadata": spec, "nbformat": 4, "nbformat_minor": 5}))
        return path

    def close(self) -> None:
        """End the server and its kernels."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory, browser: Any) -> Iterator[Server]:
    """A JupyterLab server."""
    server = Server(tmp_path_factory.mktemp("lab"), "jupyterlab")
    yield server
    server.close()


@pytest.fixture(scope="module")
def notebook_server(tmp_path_factory: pytest.TempPathFactory, browser: Any) -> Iterator[Server]:
    """A Notebook 7 server."""
    server = Server(tmp_path_factory.mktemp("notebook"), "notebook")
    yield server
    server.close()


_CONTRAST = """selector => {
  const parse = (colour) => (colour.match(/[\\d.]+/g) || []).map(Number);
  const linear = (v) => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const light = ([r, g, b]) => [r, g, b].map((v) => linear(v / 255))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const over = (front, alpha, behind) => front.map((v, i) => v * alpha + behind[i] * (1 - alpha));
  const ground = (node) => { // what shines through is laid over what stands behind it
    if (!node) return [255, 255, 255];
    const [r, g, b, alpha = 1] = parse(getComputedStyle(node).backgroundColor);
    return alpha === 1 ? [r, g, b] : over([r, g, b], alpha, ground(node.parentElement));
  };
  const opacity = (node) => node ? Number(getComputedStyle(node).opacity) * opacity(node.parentElement) : 1;
  let least = 21;
  for (const root of document.querySelectorAll(selector)) {
    const walk = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
    while (walk.nextNode()) {
      const node = walk.currentNode.parentElement;
      if (!walk.currentNode.textContent.trim() || node.tagName === "STYLE") continue;
      const behind = ground(node);
      const colour = parse(getComputedStyle(node).color);
      const front = over(colour.slice(0, 3), (colour[3] ?? 1) * opacity(node), behind);
      const [high, low] = [light(front), light(behind)].sort((a, b) => b - a);
      least = Math.min(least, (high + 0.05) / (low + 0.05));
    }
  }
  return least;
}"""


class Page:
    """A notebook in a browser tab, driven as a person would, with every request to elsewhere noted."""

    def __init__(
        self, browser: Any, server: Server, name: str, app: str = "lab", scheme: str = "light"
    ) -> None:
        self.server, self.name = server, name
        self.context = browser.new_context(viewport={"width": 1100, "height": 800}, color_scheme=scheme)
        self.page = self.context.new_page()
        self.elsewhere: list[str] = []
        self.errors: list[str] = []
        self.dialogs: list[str] = []
        self.page.on("request", self._noted)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", self._dialog)
        self.page.goto(server.address(name, app))
        self.wait_idle()

    def _noted(self, request: Any) -> None:
        if not request.url.startswith((f"http://127.0.0.1:{self.server.port}", "data:", "blob:")):
            self.elsewhere.append(request.url)

    def _dialog(self, dialog: Any) -> None:
        self.dialogs.append(dialog.message)
        dialog.accept()

    def wait_idle(self) -> None:
        """Wait until the kernel is there and does nothing."""
        self.page.wait_for_selector(".jp-Notebook .jp-Cell", timeout=40_000)
        deadline = time.monotonic() + 40
        while not self._kernel_idle():
            assert time.monotonic() < deadline, "the kernel did not come up within 40 s"
            self.page.wait_for_timeout(100)

    def _kernel_idle(self) -> bool:
        """Return whether the server's session of this notebook has an idle kernel, and the tab knows it."""
        kernels = [
            session["kernel"] for session in self.server.get("sessions") if session["path"] == self.name
        ]
        ready = any(kernel["execution_state"] == "idle" and kernel["connections"] for kernel in kernels)
        return ready and self.page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').count() > 0

    def cell(self, index: int) -> Any:
        """Return a cell's element."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def run(self, index: int) -> None:
        """Run a cell and stay on it."""
        self.cell(index).locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")

    def output(self, index: int) -> Any:
        """Return a cell's output area."""
        return self.cell(index).locator(".jp-OutputArea-output")

    def static(self, index: int, text: str = "", timeout: float = 20_000) -> Any:
        """Wait for a cell's static output and return it."""
        found = self.cell(index).locator(".jp-RenderedHTML .lm").filter(has_text=text)
        found.first.wait_for(timeout=timeout)
        return found.first

    def live(self, index: int, timeout: float = 20_000) -> Any:
        """Wait for a cell's live view and return it."""
        found = self.cell(index).locator(".lm-live")
        found.wait_for(timeout=timeout)
        return found

    def save(self) -> dict[str, Any]:
        """Save the notebook and return what lies on disk."""
        path = self.server.root / self.name
        before = path.stat().st_mtime_ns
        self.page.keyboard.press("Control+s")
        deadline = time.monotonic() + 20
        while time.monotonic() < deadline:
            self.page.wait_for_timeout(100)
            text = path.read_text()
            if path.stat().st_mtime_ns != before and text.endswith("}\n"):  # else it is being written
                return json.loads(text)  # type: ignore[no-any-return]
        raise AssertionError(f"{path} was not saved within 20 s")

    def finished(self, index: int, timeout: float = 20_000) -> None:
        """Wait until a cell has ended."""
        self.page.wait_for_function(
            "cell => /\\[\\d+\\]/.test(cell.querySelector('.jp-InputPrompt').textContent)",
            arg=self.cell(index).element_handle(), timeout=timeout,
        )  # fmt: skip

    def command(self, name: str, **options: Any) -> None:
        """Run one of JupyterLab's commands; a dialog that it opens is accepted."""
        self.page.evaluate(
            "([name, options]) => { window.jupyterapp.commands.execute(name, options); }", [name, options]
        )

    def accept(self) -> None:
        """Press the dialog's own button."""
        self.page.locator(".jp-Dialog button.jp-mod-accept").click()

    def restart(self) -> None:
        """Restart the kernel."""
        self.command("kernelmenu:restart")
        self.accept()
        self.page.wait_for_timeout(500)
        self.wait_idle()

    def interrupt(self) -> None:
        """Interrupt the kernel through the server, as another tab would."""
        [kernel] = [s["kernel"]["id"] for s in self.server.get("sessions") if s["path"] == self.name]
        address = f"http://127.0.0.1:{self.server.port}/api/kernels/{kernel}/interrupt?token={TOKEN}"
        urllib.request.urlopen(urllib.request.Request(address, method="POST"), timeout=5).close()

    def trust(self) -> None:
        """Trust the notebook, as its author's tab does."""
        self.command("notebook:trust")
        dialog = self.page.locator(".jp-Dialog")
        self.page.wait_for_timeout(300)
        if dialog.count():
            self.accept()

    def theme(self, name: str) -> None:
        """Choose one of JupyterLab's themes."""
        self.command("apputils:change-theme", theme=name)
        light = "true" if name.endswith("Light") else "false"
        self.page.wait_for_selector(f'body[data-jp-theme-light="{light}"]', state="attached")
        self.page.wait_for_timeout(500)

    def contrast(self, selector: str) -> float:
        """Return the least contrast of any text under `selector` against the page behind it."""
        return float(self.page.evaluate(_CONTRAST, selector))

    def shot(self, name: str) -> None:
        """Take a screenshot into the folder that git ignores."""
        SHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}.png")

    def close(self) -> None:
        """Close the tab."""
        self.context.close()
        self.server.end_kernels()


@pytest.fixture
def opened(browser: Any) -> Iterator[Any]:
    """A function that opens notebooks; all are closed at the end of the test."""
    pages: list[Page] = []

    def opens(server: Server, name: str, sources: list[str] | None = None, **options: Any) -> Page:
        if sources is not None:
            server.write(name, sources)
        pages.append(Page(browser, server, name, **options))
        return pages[-1]

    yield opens
    for page in pages:
        page.close()
