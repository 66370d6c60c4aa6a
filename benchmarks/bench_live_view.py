"""What the live view costs the kernel: tokens per second with the view and without, in one run.

    python benchmarks/bench_live_view.py

A real ipykernel runs the same chat cell, by turns with the view (requests carry a `cellId`, so
messages flow as to JupyterLab) and with `-q`. No browser takes part: what it draws is its own cost.
"""

from __future__ import annotations

import statistics
from typing import Any

from jupyter_client.manager import start_new_kernel

ROUNDS = 9
CELL = "%%llama complete -n 150 -t 0 --fresh {quiet} -o r\nOnce upon a time"


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


def main() -> None:
    """Print medians of tokens per second and the ratio of neighbours."""
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        _run(client, "%load_ext llama_magic")
        _run(client, "%llama load --ctx 1024")
        speeds: dict[str, list[float]] = {"live": [], "quiet": []}
        for round_ in range(ROUNDS + 1):
            order = ("live", "quiet") if round_ % 2 else ("quiet", "live")
            for kind in order:
                _run(client, CELL.format(quiet="-q" if kind == "quiet" else ""), cell=f"cell-{kind}")
                speed = float(_run(client, "print(r.timings.tokens_per_second)"))
                if round_:  # the first round warms up
                    speeds[kind].append(speed)
        ratio = statistics.median(a / b for a, b in zip(speeds["live"], speeds["quiet"], strict=True))
        for kind, values in speeds.items():
            print(f"{kind:<6} {statistics.median(values):6.1f} tokens per second")
        print(f"live / quiet, median of {ROUNDS} pairs: {ratio:.3f}")
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


if __name__ == "__main__":
    main()
