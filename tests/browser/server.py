"""A Jupyter server for the browser tests, driven by its own interface."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
TOKEN = "llama-magic-tests"


class Server:
    """A Jupyter server on 127.0.0.1, with JupyterLab and Notebook 7, and notebooks in a folder of its own."""

    def __init__(self, root: Path) -> None:
        self.root, self.written = root, 0
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        env = os.environ | {
            "JUPYTER_CONFIG_DIR": str(root / ".config"), "JUPYTER_DATA_DIR": str(root / ".data"),
            "JUPYTER_RUNTIME_DIR": str(root / ".runtime"), "JUPYTERLAB_SETTINGS_DIR": str(root / ".settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(root / ".workspaces"), "IPYTHONDIR": str(root / ".ipython"),
            "PYTHONPATH": os.pathsep.join(str(HERE.parent / at) for at in ("later", "display", "..")),
            "PYDEVD_DISABLE_FILE_VALIDATION": "1",
        }  # fmt: skip
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", f"--port={self.port}", "--allow-root",
                   f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={root}",
                   "--ServerApp.port_retries=0", "--LabApp.expose_app_in_browser=True"]  # fmt: skip
        self._set("apputils", "notification", {"fetchNews": "false", "checkForUpdates": False})
        # On a slow machine it would save beside a test, and JupyterLab asks who changed the file.
        self._set("docmanager", "plugin", {"autosave": False})
        self._set("notebook", "tracker", {"windowingMode": "none", "maxNumberOutputs": 500})
        self.log = open(root / "server.log", "w")  # noqa: SIM115 - the server's, as long as it runs
        self.process = subprocess.Popen(command, cwd=root, env=env, stdout=self.log, stderr=subprocess.STDOUT)
        self._wait()

    def _set(self, extension: str, plugin: str, values: dict[str, Any]) -> None:
        folder = self.root / ".settings" / "@jupyterlab" / f"{extension}-extension"
        folder.mkdir(parents=True)
        (folder / f"{plugin}.jupyterlab-settings").write_text(json.dumps(values))

    def _wait(self) -> None:
        deadline = time.monotonic() + 300
        while time.monotonic() < deadline:
            try:
                self.ask("")
                return
            except OSError:
                time.sleep(0.1)
        raise AssertionError((self.root / "server.log").read_text())

    def ask(self, what: str, method: str = "GET") -> Any:
        """Ask the server's own interface."""
        address = f"http://127.0.0.1:{self.port}/api/{what}?token={TOKEN}"
        with urllib.request.urlopen(urllib.request.Request(address, method=method), timeout=120) as answer:
            return json.loads(answer.read() or "null")

    def kernel(self, notebook: str) -> dict[str, Any] | None:
        """Return what the server says of a notebook's kernel."""
        found = [session["kernel"] for session in self.ask("sessions") if session["path"] == notebook]
        return found[0] if found else None

    def address(self, place: str) -> str:
        """Return the address of a page; JupyterLab begins there without old tabs."""
        return f"http://127.0.0.1:{self.port}/{place}?token={TOKEN}&reset"

    def notebook(self, sources: list[str]) -> dict[str, Any]:
        """Return a notebook of code cells that names its kernel; no two cells of a kernel have one id."""
        self.written += 1
        empty = {"cell_type": "code", "metadata": {}, "execution_count": None, "outputs": []}
        cells = [
            {**empty, "id": f"cell-{self.written}-{i}", "source": source} for i, source in enumerate(sources)
        ]
        spec = {"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        return {"cells": cells, "metadata": spec, "nbformat": 4, "nbformat_minor": 5}

    def write(self, name: str, sources: list[str]) -> Path:
        """Write a notebook of such cells."""
        path = self.root / name
        path.write_text(json.dumps(self.notebook(sources)))
        return path

    def close(self) -> None:
        """End the server and its kernels."""
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
        self.log.close()
