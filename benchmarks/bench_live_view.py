"""What the live view costs: tokens per second with the view and without, by turns in one run.

    python benchmarks/bench_live_view.py [THREADS]

First the kernel alone: a real ipykernel runs the same cell with the view (requests carry a `cellId`,
so messages flow as to JupyterLab) and with `-q`, and nobody draws. Then the same two cells in
JupyterLab, in a Chromium on the same processors, where there is one: what the page draws takes
processor time from the model. Each figure is the median of the ratios of neighbours.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from jupyter_client.manager import start_new_kernel

ROUNDS = 9
CELL = "%%llama complete -n 200 -t 0 --fresh {quiet} -o r\nOnce upon a time"
KINDS = {"live": CELL.format(quiet=""), "quiet": CELL.format(quiet="-q")}
THREADS = f"--threads {sys.argv[1]}" if sys.argv[1:] else ""
SET_UP = "%load_ext llama_magic", f"%llama load --ctx 1024 {THREADS}"
SPEED = "print(r.timings.tokens_per_second)"


def _run(client: Any, code: str, cell: str | None = None) -> str:
    """Run a cell and return what it printed; messages are read as a front end would."""
    message = client.session.msg(
        "execute_request",
        {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": True,
        },
        metadata={"cellId": cell} if cell else {},
    )
    client.shell_channel.send(message)
    printed = ""
    while True:
        reply = client.get_iopub_msg(timeout=300)
        if reply["parent_header"].get("msg_id") != message["header"]["msg_id"]:
            continue
        content = reply["content"]
        if reply["msg_type"] == "error":
            raise RuntimeError("\n".join(content["traceback"]))
        if reply["msg_type"] == "stream":
            printed += content["text"]
        if reply["msg_type"] == "status" and content["execution_state"] == "idle":
            client.get_shell_msg(timeout=60)
            return printed


def _compare(where: str, measure: Callable[[str], float]) -> None:
    """Print medians of tokens per second and of the ratios of neighbours."""
    speeds: dict[str, list[float]] = {kind: [] for kind in KINDS}
    for round_ in range(ROUNDS + 1):
        for kind in list(KINDS)[:: 1 if round_ % 2 else -1]:
            speed = measure(kind)
            if round_:  # the first round warms up
                speeds[kind].append(speed)
    for kind, values in speeds.items():
        print(f"{where}: {kind:<6} {statistics.median(values):6.1f} tokens per second")
    ratios = sorted(a / b for a, b in zip(speeds["live"], speeds["quiet"], strict=True))
    print(
        f"{where}: live / quiet, median of {ROUNDS} pairs: {statistics.median(ratios):.3f}"
        f" (quartiles {ratios[ROUNDS // 4]:.3f} to {ratios[-1 - ROUNDS // 4]:.3f})",
        flush=True,
    )


def kernel() -> None:
    """Compare in a kernel that nobody looks at."""
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        for code in SET_UP:
            _run(client, code)

        def measure(kind: str) -> float:
            _run(client, KINDS[kind], cell=f"cell-{kind}")
            return float(_run(client, SPEED))

        _compare("kernel alone", measure)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def page() -> None:
    """Compare in JupyterLab's page, drawn by a Chromium beside the model."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests" / "browser"))
    from conftest import CHROMIUM_ARGS, Page, Server, chromium_path

    path = chromium_path()
    if path is None:
        print("with a page: no Chromium on the PATH, left out")
        return
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        chromium = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGS)
        server = Server(Path(folder), "jupyterlab")
        try:
            cells = [*SET_UP, *KINDS.values(), SPEED]
            server.write("bench.ipynb", cells)
            tab = Page(chromium, server, "bench.ipynb")

            def run(index: int) -> None:
                prompt = tab.cell(index).locator(".jp-InputPrompt")
                before = prompt.inner_text()
                tab.run(index)
                tab.page.wait_for_function(
                    "([node, before]) => /\\d/.test(node.textContent) && node.textContent !== before",
                    arg=[prompt.element_handle(), before], timeout=120_000,
                )  # fmt: skip

            def measure(kind: str) -> float:
                run(cells.index(KINDS[kind]))
                run(len(cells) - 1)
                return float(tab.output(len(cells) - 1).inner_text())

            for index in range(len(SET_UP)):
                run(index)
            _compare("with a page", measure)
            tab.close()
        finally:
            server.close()
            chromium.close()


if __name__ == "__main__":
    kernel()
    page()
