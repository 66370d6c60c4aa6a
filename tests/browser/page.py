"""A notebook in a browser tab, driven as a person would."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

from browser.contrast import CONTRAST
from browser.server import Server

SHOTS = Path(__file__).parents[1] / "screenshots"
SIZE: Any = {"width": 1100, "height": 800}
LIGHT = "JupyterLab Light"
# How often a page looks whether something is so, in ms; by default it does at each frame, and draws them all.
_LOOK = 100
# Closes what is open, saved or not, and opens a notebook with a kernel that runs (null: with one of its own).
_OPEN = """async ([path, kernel]) => {
  const { shell, commands } = window.jupyterapp;
  shell.expandLeft();
  for (const old of [...shell.widgets("main")]) {
    if (old.context) { old.context.model.dirty = false; old.dispose(); }
  }
  const opened = await commands.execute("docmanager:open", kernel ? { path, kernel } : { path });
  await opened.context.ready;
  await opened.context.sessionContext.ready;
}"""
# Puts other cells into the notebook that is open, as if it had just been opened.
_SHOW = """(notebook) => {
  const panel = [...window.jupyterapp.shell.widgets("main")].find((one) => one.context);
  panel.context.model.fromJSON(notebook);
  panel.content.mode = "command";
  panel.content.activeCellIndex = 0;
}"""


class Page:
    """A browser tab; every request to elsewhere, error and dialog in it is noted.

    In JupyterLab one tab shows one notebook after the other (`open`), with one kernel unless one of its own
    is asked for: a page and a kernel cost four and one seconds of processor time. What needs neither is shown
    in the notebook that is open (`show`). Other apps are loaded.
    """

    def __init__(self, browser: Any, server: Server, scale: float = 1, patience: float = 240) -> None:
        """Open a tab; `patience` is for how many seconds it waits for a state."""
        self.server, self.name, self.patience = server, "", patience
        self.context = browser.new_context(viewport=SIZE, device_scale_factor=scale)
        self.context.set_default_timeout(1000 * patience)
        self.page = self.context.new_page()
        self.elsewhere: list[str] = []
        self.errors: list[str] = []
        self.dialogs: list[str] = []
        self._shared: str | None = None  # the id of the kernel
        self._fresh: str | None = None  # that of one which never ran a cell
        self._shows = ""  # the notebook that was opened by `show`
        self._theme = LIGHT
        self._prompts: dict[int, str] = {}  # of cells, before they were run
        self.page.on("request", self._noted)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("dialog", self._dialog)

    def _noted(self, request: Any) -> None:
        if not request.url.startswith((f"http://127.0.0.1:{self.server.port}", "data:", "blob:")):
            self.elsewhere.append(request.url)

    def _dialog(self, dialog: Any) -> None:
        if dialog.type != "beforeunload":
            self.dialogs.append(dialog.message)
        dialog.accept()

    def load(self, place: str, name: str) -> None:
        """Load a page that shows the notebook `name`."""
        self.name = name
        self.page.goto(self.server.address(f"{place}/{name}"))
        self.wait_idle()

    def start(self) -> None:
        """Load JupyterLab, without a notebook."""
        self.page.goto(self.server.address("lab/workspaces/tests"))
        self.page.wait_for_selector(".jp-Launcher")

    def open(self, name: str, *, own_kernel: bool = False) -> None:
        """Show a notebook in the JupyterLab that is loaded, and nothing else."""
        kernel = self._open(name, None if own_kernel else self._shared)
        if not own_kernel:
            self._shared = kernel

    def _open(self, name: str, kernel: str | None) -> str:
        """Show a notebook with this kernel, or a new one; return the kernel's id."""
        self.name = name
        self._begin()
        self.page.evaluate(_OPEN, [name, {"id": kernel} if kernel else None])
        self.wait_idle()
        return str(self.server.kernel(name)["id"])  # type: ignore[index]

    def show(self, name: str, sources: list[str]) -> None:
        """Show cells with the shared kernel: in the notebook that is open, where it is one of `show`.

        To open one costs four times as much; each test would.
        """
        if self.name and self.name == self._shows:
            self._begin()
            self.page.evaluate(_SHOW, self.server.notebook(sources))
            self.wait_idle()
        else:
            self.server.write(name, sources)
            self.open(name)
            self._shows = name

    def _begin(self) -> None:
        for noted in (self.elsewhere, self.errors, self.dialogs, self._prompts):
            noted.clear()  # type: ignore[attr-defined]
        self.page.set_viewport_size(SIZE)

    def reopen(self) -> None:
        """Show a copy of the notebook as it is saved, to be looked at; its kernel never ran a cell."""
        copy = f"again-{self.name}"
        shutil.copy(self.server.root / self.name, self.server.root / copy)
        self._fresh = self._open(copy, self._fresh)

    def release(self) -> None:
        """Let the answer go that a `Gate` holds."""
        (self.server.root / "release").touch()

    def leave(self) -> None:
        """End what still runs, and all kernels but the shared one and the fresh one."""
        if self.page.locator(".jp-InputPrompt", has_text="[*]").count():
            self.interrupt()
            self.wait_idle()
        for kernel in self.server.ask("kernels"):
            if kernel["id"] not in (self._shared, self._fresh):
                self.server.ask(f"kernels/{kernel['id']}", "DELETE")
        if self._theme != LIGHT:
            self.theme(LIGHT)

    def close(self) -> None:
        """Close the tab, and end its notebook's kernel."""
        self.context.close()
        kernel = self.server.kernel(self.name)
        if kernel is not None:
            self.server.ask(f"kernels/{kernel['id']}", "DELETE")

    def wait_idle(self) -> None:
        """Wait until the kernel is there and does nothing."""
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")
        deadline = time.monotonic() + self.patience
        while not self._kernel_idle():
            assert time.monotonic() < deadline, f"the kernel did not come up within {self.patience} s"
            self.page.wait_for_timeout(50)

    def _kernel_idle(self) -> bool:
        """Return whether the server's session of this notebook has an idle kernel, and the tab knows it."""
        if not self.page.locator('.jp-Notebook-ExecutionIndicator[data-status="idle"]').count():
            return False
        kernel = self.server.kernel(self.name)  # asked last, for that is work for the server
        return bool(kernel and kernel["execution_state"] == "idle" and kernel["connections"])

    def cell(self, index: int) -> Any:
        """Return a cell's element."""
        return self.page.locator(".jp-Notebook .jp-Cell").nth(index)

    def prompt(self, index: int) -> str:
        """Return what stands before a cell: `[ ]:`, `[*]:` or its number."""
        return str(self.cell(index).locator(".jp-InputPrompt").inner_text())

    def run(self, index: int) -> None:
        """Run a cell and stay on it."""
        self._prompts[index] = self.prompt(index)
        self.cell(index).locator(".cm-content").click()
        self.page.keyboard.press("Control+Enter")

    def run_all(self) -> None:
        """Run all cells and wait for the last."""
        self.page.evaluate("() => window.jupyterapp.commands.execute('notebook:run-all-cells')")

    def all_ran(self) -> None:
        """Wait until each cell has a number: JupyterLab's own promise ends at one that is to fail."""
        self.page.wait_for_function(
            "() => [...document.querySelectorAll('.jp-CodeCell .jp-InputPrompt')]"
            ".every((one) => !one.textContent || /\\[\\d+\\]/.test(one.textContent))",
            polling=_LOOK,
        )

    def output(self, index: int) -> Any:
        """Return a cell's output area."""
        return self.cell(index).locator(".jp-OutputArea-output")

    def children(self, index: int) -> list[tuple[str, bool]]:
        """Return each output of a cell: the words it holds, and whether it is seen."""
        words = (
            "node => { const copy = node.cloneNode(true);"
            " copy.querySelectorAll('style').forEach((style) => style.remove()); return copy.textContent; }"
        )
        outputs = self.cell(index).locator(".jp-OutputArea-child").all()
        return [(output.evaluate(words), output.is_visible()) for output in outputs]

    def static(self, index: int, text: str = "") -> Any:
        """Wait for a cell's static output and return it."""
        found = self.cell(index).locator(".jp-RenderedHTML .lm").filter(has_text=text)
        found.first.wait_for()
        return found.first

    def live(self, index: int) -> Any:
        """Wait for a cell's live view and return it."""
        found = self.cell(index).locator(".lm-live")
        found.wait_for()
        return found

    def save(self) -> dict[str, Any]:
        """Save the notebook and return what lies on disk."""
        path = self.server.root / self.name
        before = path.stat().st_mtime_ns
        self.page.keyboard.press("Control+s")
        deadline = time.monotonic() + self.patience
        while time.monotonic() < deadline:
            self.page.wait_for_timeout(50)
            text = path.read_text()
            if path.stat().st_mtime_ns != before and text.endswith("}\n"):  # else it is being written
                return json.loads(text)  # type: ignore[no-any-return]
        raise AssertionError(f"{path} was not saved within {self.patience} s")

    def finished(self, index: int) -> None:
        """Wait until a cell that was run has ended."""
        self.page.wait_for_function(
            "([cell, before]) => { const now = cell.querySelector('.jp-InputPrompt').textContent;"
            " return now !== before && /\\[\\d+\\]/.test(now); }",
            arg=[self.cell(index).element_handle(), self._prompts[index]], polling=_LOOK,
        )  # fmt: skip

    def command(self, name: str, **options: Any) -> None:
        """Run one of JupyterLab's commands; where it opens a dialog, press the dialog's own button."""
        self.page.evaluate(
            "([name, options]) => { window.ended = false;"
            " window.jupyterapp.commands.execute(name, options).then(() => { window.ended = true; }); }",
            [name, options],
        )
        button = ".jp-Dialog button.jp-mod-accept"
        self.page.wait_for_function(
            "at => window.ended || document.querySelector(at)", arg=button, polling=_LOOK
        )
        if self.page.locator(button).count():
            self.page.locator(button).click()
            self.page.wait_for_function("() => window.ended", polling=_LOOK)

    def reload(self) -> None:
        """Load the page again, with the notebook that it shows."""
        self.page.goto(self.server.address(f"lab/workspaces/tests/tree/{self.name}"))
        self.page.wait_for_selector(".jp-Notebook .jp-Cell")

    def restart(self) -> None:
        """Restart the kernel."""
        self.command("kernelmenu:restart")
        self.wait_idle()

    def interrupt(self) -> None:
        """Interrupt the kernel through the server, as another tab would."""
        kernel = self.server.kernel(self.name)
        assert kernel is not None
        self.server.ask(f"kernels/{kernel['id']}/interrupt", "POST")

    def theme(self, name: str) -> None:
        """Choose one of JupyterLab's themes."""
        self.command("apputils:change-theme", theme=name)
        light = "true" if name == LIGHT else "false"
        self.page.wait_for_selector(f'body[data-jp-theme-light="{light}"]', state="attached")
        self._theme = name

    def contrast(self, selector: str) -> float:
        """Return the least contrast of any text under `selector` against the page behind it."""
        return float(self.page.evaluate(CONTRAST, selector))

    def shot(self, name: str) -> None:
        """Take a screenshot into the folder that git ignores."""
        SHOTS.mkdir(exist_ok=True)
        self.page.screenshot(path=SHOTS / f"{name}.png")
