"""What the live view costs: tokens a second with the view and without (`-q`).

    python benchmarks/bench_live_view.py [--rounds N] [--threads N] [MODEL.gguf …]

"kernel alone": a real ipykernel runs the cell, messages flow as to JupyterLab (requests carry a `cellId`),
and nobody draws. "in JupyterLab": the same cell in a Chromium on the same processors, where there is one;
what the page draws takes processor time from the model.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from harness import Bench, Options, Side, installed, main

CELL = "%%llama complete -n 200 -t 0 --fresh {quiet} -o r\nOnce upon a time"
SPEED = "print(r.timings.tokens_per_second)"
TESTS = Path(__file__).resolve().parents[1] / "tests"


def _set_up(options: Options) -> tuple[str, ...]:
    return "%load_ext llama_magic", f'%llama load "{options.model}" --ctx 1024 --threads {options.threads}'


def _warm(run: Callable[[str], str], cell: str) -> float:
    """Return the tokens a second of the second of two runs of `cell`."""
    for _ in range(2):
        run(cell)
    return float(run(SPEED))


def _in_kernel(client: Any, code: str) -> str:
    """Run a cell and return what it printed; messages are read as a front end would."""
    content = {
        "code": code,
        "silent": False,
        "store_history": True,
        "user_expressions": {},
        "allow_stdin": False,
        "stop_on_error": True,
    }
    message = client.session.msg("execute_request", content, metadata={"cellId": "cell"})
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


def kernel(cell: str, options: Options) -> float:
    """Return tokens a second in a kernel that nobody looks at."""
    from jupyter_client.manager import start_new_kernel

    manager, client = start_new_kernel(kernel_name="python3")
    try:
        for code in _set_up(options):
            _in_kernel(client, code)
        return _warm(partial(_in_kernel, client), cell)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def page(cell: str, options: Options) -> float | None:
    """Return tokens a second in JupyterLab's page, drawn by a Chromium beside the model; None without one."""
    sys.path[:0] = [str(TESTS), str(TESTS / "display")]
    from browser.conftest import CHROMIUM_ARGS, chromium_path
    from browser.page import Page
    from browser.server import Server
    from playwright.sync_api import sync_playwright

    path = chromium_path()
    if path is None:
        return None
    cells = [*_set_up(options), cell, SPEED]
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        chromium = playwright.chromium.launch(executable_path=path, args=CHROMIUM_ARGS)
        server = Server(Path(folder))
        try:
            server.write("bench.ipynb", cells)
            tab = Page(chromium, server)
            tab.start()
            tab.open("bench.ipynb")

            def run(source: str) -> str:
                index = cells.index(source)
                tab.run(index)
                tab.finished(index)
                return str(tab.output(index).inner_text()) if source == SPEED else ""

            for source in _set_up(options):
                run(source)
            return _warm(run, cell)
        finally:
            server.close()
            chromium.close()


def _side(quiet: str, options: Options) -> dict[str, float]:
    cell = CELL.format(quiet=quiet)
    found = {"kernel alone": kernel(cell, options), "in JupyterLab": page(cell, options)}
    return {case: speed for case, speed in found.items() if speed is not None}


BENCH = Bench(
    "live_view",
    "The live view, and without it (-q)",
    "tokens/s",
    (Side("quiet", partial(_side, "-q")), Side("live", partial(_side, ""))),
)

if __name__ == "__main__":
    main(BENCH, installed()[:1])
