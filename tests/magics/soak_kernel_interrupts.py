"""SIGINT at 300 random moments over verbs and modes in a real kernel: time to the reply, what is shown."""

from __future__ import annotations

import collections
import queue
import random
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from jupyter_client.manager import start_new_kernel

sys.path.insert(0, str(Path(__file__).parents[1]))
from conftest import real_path

LONG = "The river runs through the valley. " * 140
CELLS = {
    "complete": f"%%llama complete -n 400\n{LONG}",
    "seeded": f"%%llama complete -n 400 --seed 3\n{LONG}",
    "samples": f"%%llama complete -n 400 -N 3\n{LONG}",
    "chat": "%%llama chat -n 400 --new\nTell me of the sea.",
    "structured": '%%llama structured --schema "name, lines list[str], at datetime" -n 400\nA poem.',
    "regex": '%%llama complete --regex "([a-z]{3,40} ){40,80}" -n 400\nA poem.',
    "compile": "m.constraint({'type': 'object', 'properties': {f'k{i}': {'type': 'string', 'pattern': "
    "'([a-z]{1,60}|[0-9]{1,60}){1,60}'} for i in range(40)}})",
    "tokens": "m.tokenize('sea ' * 3_000_000)",
    "embed": f"m.embed([{LONG!r}] * 8)",
    "read": f"m.read({LONG!r})",
    "kv save": "m.kv_save(folder + '/a.kv')",
    "load": "%llama load {path} --ctx 1024 --as other\n%llama unload other",
    "history": "%llama history",
    "inspect": "%llama inspect {path} --tensors",
    "doctor": "%llama doctor",
}


class Kernel:
    """A kernel with a model loaded; `ask` runs a cell and interrupts it."""

    def __init__(self, folder: str) -> None:
        self.manager, self.client = start_new_kernel(kernel_name="python3")
        path = real_path("smollm2")
        self.run(
            f"import llama_magic as lm\npath = {str(path)!r}; folder = {folder!r}\n%load_ext llama_magic\n"
            "m = lm.load(path, ctx=4096, threads=1)\n%llama load {path} --ctx 4096 --threads 1\n"
            "m.complete('a', max_tokens=20)"
        )

    def run(self, source: str, delay: float | None = None) -> tuple[float, dict[str, Any], str]:
        """Return the seconds from the signal to the reply, the reply, and what was written."""
        number = self.client.execute(source, stop_on_error=False)
        sent = time.perf_counter()
        if delay is not None:
            time.sleep(delay)
            sent = time.perf_counter()
            if not self.client.shell_channel.msg_ready():  # else it is over
                self.manager.interrupt_kernel()
        while True:
            reply = self.client.get_shell_msg(timeout=120)
            if reply["parent_header"].get("msg_id") == number:
                break
        felt = time.perf_counter() - sent
        written = ""
        while True:
            try:
                message = self.client.get_iopub_msg(timeout=20)
            except queue.Empty:
                break
            if message["parent_header"].get("msg_id") != number:
                continue
            content = message["content"]
            written += content.get("text", "") + "\n".join(content.get("traceback", ()))
            if message["msg_type"] == "status" and content["execution_state"] == "idle":
                break
        return felt, reply["content"], written

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


def main(count: int = 300) -> int:
    """Print p50 and p99 by kind; return 1 where one was late, showed a traceback or changed an answer."""
    chance = random.Random(1)
    felt: dict[str, list[float]] = collections.defaultdict(list)
    wrong: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        kernel = Kernel(folder)
        ask = "print(m.complete('The sea', seed=5, max_tokens=12).token_ids)"
        expected = kernel.run(ask)[2]
        for i in range(count):
            name = list(CELLS)[i % len(CELLS)]
            took, reply, _ = kernel.run(CELLS[name], 0.002 + chance.random() ** 2 * 1.5)
            if reply["status"] == "error":
                felt[name].append(took)
                if reply["ename"] != "GenerationInterrupted" or len(reply["traceback"]) > 1:
                    wrong.append(f"{name}: {reply['ename']} {len(reply['traceback'])} lines")
            if i % 10 == 9 and kernel.run(ask)[2] != expected:
                wrong.append(f"{name}: the seeded answer changed")
        kernel.close()
    for name, times in felt.items():
        print(f"{name:12} {len(times):3} p50 {statistics.median(times):.3f} s, slowest {max(times):.3f} s")
    every = sorted(time_ for times in felt.values() for time_ in times)
    late = every[int(len(every) * 0.99)] if every else 0.0
    print(f"{len(every)} interrupts struck: p50 {statistics.median(every):.3f} s, p99 {late:.3f} s")
    print("\n".join(f"{n} x {what}" for what, n in collections.Counter(wrong).items()))
    return int(late > 0.25 or bool(wrong))


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
