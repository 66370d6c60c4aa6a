"""A real SIGINT in a real kernel, in the middle of an answer: one short line, and the next answer as ever."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import start_new_kernel
from scripted_gguf import build, chain

WATCHDOG = 120  # seconds, only so that a hang is a failure
ASK = "print(m.complete('a', seed=5, max_tokens=12, ignore_eos=True).token_ids)"
CELLS = {
    "complete": "%%llama complete -n 7000 --regex [ab]{6900} -o r\na",
    "seeded": "%%llama complete -n 7000 --seed 4 --regex [ab]{6900} -o r\na",
    "samples": "%%llama complete -n 7000 -N 2 --regex [ab]{6900} -o r\na",
    "chat": "%%llama chat --new -n 7000 --regex [ab]{6900} -o r\na",
}


class Kernel:
    """A kernel in which an endless model is loaded as `m`."""

    def __init__(self, path: Path) -> None:
        self.manager, self.client = start_new_kernel(startup_timeout=600, kernel_name="python3")
        self.run(
            f'%load_ext llama_magic\n%llama load "{path}" --ctx 8192 --threads 1\n'
            f"import llama_magic as lm\nm = lm.load({str(path)!r}, ctx=8192, threads=1)"
        )

    def send(self, source: str, cell: str | None = None, stop_on_error: bool = True) -> str:
        """Ask for a cell to be run, by a front end that names it as `cell`; return the request's id."""
        content = {"code": source, "silent": False, "store_history": True, "allow_stdin": True}
        content["stop_on_error"] = stop_on_error
        metadata = {} if cell is None else {"cellId": cell}
        message = self.client.session.msg("execute_request", content, metadata=metadata)
        self.client.shell_channel.send(message)
        return str(message["header"]["msg_id"])

    def run(
        self, source: str, interrupt_at: str | None = None, cell: str | None = None
    ) -> tuple[dict[str, Any], str]:
        """Return the reply and what was printed; the first `interrupt_at` message is answered by SIGINT."""
        number = self.send(source, cell, stop_on_error=False)
        printed = ""
        while True:
            message = self.client.get_iopub_msg(timeout=WATCHDOG)
            if message["parent_header"].get("msg_id") != number:
                continue
            printed += message["content"].get("text", "")
            if message["msg_type"] == interrupt_at:
                interrupt_at = None
                self.manager.interrupt_kernel()
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                break
        while (reply := self.client.get_shell_msg(timeout=WATCHDOG))["parent_header"].get("msg_id") != number:
            pass
        return reply["content"], printed


@pytest.fixture(scope="module")
def kernel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kernel]:
    """One kernel for all cells of this file."""
    folder = tmp_path_factory.mktemp("kernel")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("IPYTHONDIR", str(folder / "ipython"))
        patch.setenv("JUPYTER_RUNTIME_DIR", str(folder / "runtime"))
        patch.setenv("LLAMA_MAGIC_CACHE", str(folder / "cache"))
        made = Kernel(build(folder / "endless.gguf", chain("a", "b", "a"), default="a").path)
    try:
        yield made
    finally:
        made.client.stop_channels()
        made.manager.shutdown_kernel(now=True)


@pytest.mark.parametrize("cell", CELLS)
def test_an_answer_that_is_interrupted(kernel: Kernel, cell: str) -> None:
    """It ends with one line that says what is kept; the next seeded answer is the same as before."""
    before = kernel.run(ASK)[1]
    assert before.count(",") == 11
    reply, _ = kernel.run(CELLS[cell], interrupt_at="stream")
    assert (reply["status"], reply["ename"]) == ("error", "GenerationInterrupted")
    (line,) = reply["traceback"]
    assert line.startswith("Interrupted: ")
    assert kernel.run(ASK)[1] == before


def test_rows_of_an_interrupted_batch_are_kept(kernel: Kernel) -> None:
    """Finished rows stand in the exception, which IPython keeps, in order; the message says where."""
    kernel.run(
        "import sys\nfrom typing import Annotated\nfrom pydantic import Field\n"
        "from llama_magic.model.journal import journal\n"
        "Text = Annotated[str, Field(min_length=200, max_length=204)]\n"
        "class Ear:\n    def hear(self, *made): print('heard', flush=True)\n"
        "ear = Ear(); journal.listen(ear.hear, earlier=False)"
    )
    reply, _ = kernel.run("rows = m.structured(['a'] * 400, Text, seed=1)", interrupt_at="stream")
    assert reply["ename"] == "GenerationInterrupted"
    told = " ".join(reply["traceback"][0].split())
    assert "of 400 rows finished; sys.last_value.completion holds what was written" in told
    _, printed = kernel.run(
        "rows = sys.last_value.completion; del ear\n"
        "ended = [row.finish_reason for row in rows if row is not None]\n"
        "print(len(rows), ended.index('interrupted') >= 1, rows[0].parsed == rows[0].text.strip('\"') != '')"
    )
    assert printed.split() == ["400", "True", "True"]


def test_samples_of_an_interrupted_cell_are_bound(kernel: Kernel) -> None:
    """`-o` holds what each sample of `-N` had when Ctrl-C came."""
    reply, _ = kernel.run(
        "%%llama structured --schema 'a str, b str' -n 7000 -N 3 -o held\na", interrupt_at="stream"
    )
    assert reply["ename"] == "GenerationInterrupted"
    _, printed = kernel.run("print(len(held), {r.finish_reason for r in held}, bool(held[0].text))")
    assert printed.split(" ", 1) == ["3", "{'interrupted'} True\n"]


def test_a_front_end_sees_a_quiet_line_and_the_cells_behind_do_not_run(kernel: Kernel) -> None:
    """A stopped cell publishes no error and says what is kept; its reply makes the kernel drop the next."""
    numbers = [kernel.send(CELLS["complete"], "c1"), kernel.send("print('never')", "c2")]
    kinds, shown, written = [], [], False
    while len(shown) < 3 or kinds[-1] != "idle":
        message = kernel.client.get_iopub_msg(timeout=WATCHDOG)
        data = message["content"].get("data", {})
        if not written and message["msg_type"] == "comm_msg" and "nodes" in data.get("content", {}):
            written = True
            kernel.manager.interrupt_kernel()
        if message["parent_header"].get("msg_id") == numbers[0]:
            kinds.append(message["content"].get("execution_state") or message["msg_type"])
            shown += [data["text/plain"]] if "text/plain" in data else []
    assert "error" not in kinds
    assert "stopped before its end" in shown[1]  # in the live view's place, which was the first
    assert shown[2] == "Interrupted: what was written is kept."
    replies = [kernel.client.get_shell_msg(timeout=WATCHDOG)["content"] for _ in numbers]
    assert [(reply["status"], reply.get("ename")) for reply in replies] == [
        ("error", "GenerationInterrupted"),
        ("aborted", None),
    ]
