"""SIGINT at 300 random moments over all verbs and modes, in a real kernel and a real terminal.

What counts is the time from the signal to the reply (or prompt), what is shown, and that after each the
next seeded answer is as ever. Times are of this machine: `python soak_kernel_interrupts.py 300` prints its
load. Those of a busy machine are its own: give the kernel what it needs (`PRIORITY=-20`, as root).
"""

from __future__ import annotations

import collections
import os
import queue
import random
import re
import signal
import socket
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
from jupyter_client.manager import start_new_kernel

import llama_magic as lm
from llama_magic.magics._options import MODES, VERBS

sys.path.insert(0, str(Path(__file__).parents[1] / "sources"))
sys.path.insert(0, str(Path(__file__).parents[1]))  # before that folder's own conftest
from conftest import real_path
from fake_hub import FakeHub, gguf_bytes

WATCHDOG = 120
LONG = "The river runs through the valley. " * 140
PEOPLE = "Tell of a person."
CELLS = {
    "complete": f"%%llama complete -m m -n 400\n{LONG}",
    "seeded": f"%%llama complete -m m -n 400 --seed 3\n{LONG}",
    "samples": f"%%llama complete -m m -n 400 -N 3\n{LONG}",
    "chat": "%%llama chat -n 400 --new\nTell me of the sea.",
    "structured": '%%llama structured --schema "name, lines list[str], at datetime" -n 400\nA poem.',
    "vote": f'%%llama structured --schema "name, age int" -n 60 -N 6\n{PEOPLE}',
    "batch": f"m.structured([{PEOPLE!r}] * 20, 'name, age int', max_tokens=60)",
    "regex": '%%llama complete --regex "([a-z]{3,40} ){40,80}" -n 400\nA poem.',
    "tokens mode": f"%%llama tokens\n{LONG}",
    "surprise": f"%%llama surprise\n{LONG}",
    "xray": f"%%llama xray\n{LONG}",
    "compile": "m.constraint({'type': 'object', 'properties': {f'k{i}': {'type': 'string', 'pattern': "
    "'([a-z]{1,60}|[0-9]{1,60}){1,60}'} for i in range(40)}})",
    "render": "m.count_tokens([{'role': 'user', 'content': 'sea ' * 20000}] * 40)",
    "tokens": "m.tokenize('sea ' * 3_000_000)",
    "overflow": "m.chat([{'role': r, 'content': 'sea ' * 900} for r in ('user', 'assistant') * 200], "
    "overflow='drop-oldest')",
    "map": f"%%llama map rows -n 60\n{PEOPLE} {{{{ text }}}}",
    "sweep": '%%llama sweep --over "temperature=0,0.8; seed=1..4" -n 60\nA poem.',
    "decide": f'%%llama decide rows --options "yes|no"\n{LONG} {{{{ text }}}}',
    "tools": "%%llama chat --new --tools slow --tools-as-text --tool-choice slow --tools-auto -n 60\nWait.",
    "stream": "for chunk in m.complete('A poem.', max_tokens=400, stream=True): pass",
    "rerun": "%llama rerun 1 --seed 4 -n 400",
    "verify": "%llama verify {folder}/kept.sqlite -m m",
    "bench": "%llama bench",
    "connect": "%llama connect {silent}",
    "embed": f"m.embed([{LONG!r}] * 8)",
    "read": f"m.read({LONG!r})",
    "kv save": "m.kv_save(folder + '/a.kv')",
    "kv": "%llama kv",
    "load": "%llama load {path} --ctx 1024 --as other\n%llama unload other",
    "pull": "%llama pull {url}",
    "history": "%llama history",
    "models": "%llama models",
    "sampler": "%llama sampler",
    "inspect": "%llama inspect {path} --tensors",
    "doctor": "%llama doctor",
}
# Over in a moment: test_magics_interrupts.py strikes each of them within.
AT_ONCE = ("unload", "alias", "use", "tokens", "chats", "chat", "pad", "pen", "record", "replay", "diff")
AT_ONCE += ("stats", "serve")
ASK = "print(m.complete('The sea', seed=5, max_tokens=12).token_ids)"


def prepare(folder: str, url: str, silent: str) -> str:
    """Return the lines that load the model and name what the cells speak of."""
    return (
        f"import time; import llama_magic as lm; path = {str(real_path('smollm2'))!r}; folder = {folder!r}\n"
        f"url = {url!r}; silent = {silent!r}; slow = lambda: time.sleep(9); slow.__name__ = 'slow'\n"
        "rows = [{'text': f'Number {i}.'} for i in range(20)]; slow.__doc__ = 'Wait.'\n"
        "m = lm.load(path, ctx=4096, threads=1, name='m')\n%llama record {folder}/kept.sqlite\n"
        "_ = [m.complete('A poem.', max_tokens=200, seed=i) for i in range(4)]\n%llama record off"
    )


class Kernel:
    """A kernel; `run` runs a cell and interrupts it."""

    def __init__(self, *names: str) -> None:
        self.manager, self.client = start_new_kernel(startup_timeout=600, kernel_name="python3")
        self.lost = 0
        hurry(self.manager.provisioner.pid)
        self.run(f"%load_ext llama_magic\n{prepare(*names)}", patience=5 * WATCHDOG)

    def run(
        self, source: str, delay: float | None = None, patience: float = WATCHDOG
    ) -> tuple[float, dict[str, Any], str]:
        """Return the seconds from the signal to the reply, the reply, and what was written."""
        number = self.client.execute(source, stop_on_error=False)
        sent = time.perf_counter()
        if delay is not None:
            self._wait_for("execute_input", number)  # before that, ipykernel runs the cell all the same
            time.sleep(delay)
            sent = time.perf_counter()
            if not self.client.shell_channel.msg_ready():  # else it is over
                self.manager.interrupt_kernel()
        while True:
            try:
                reply = self.client.get_shell_msg(timeout=20 if delay is not None else patience)
            except queue.Empty:
                if delay is None:
                    raise  # a hang
                # The signal struck ipykernel itself, between a cell and its reply; the next cell is answered.
                self.lost += 1
                assert self.ask("print(7)") == "7\n"
                return 0.0, {"status": "ok"}, ""
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

    def _wait_for(self, kind: str, number: str) -> None:
        while True:
            message = self.client.get_iopub_msg(timeout=WATCHDOG)
            if message["msg_type"] == kind and message["parent_header"].get("msg_id") == number:
                return

    def ask(self, source: str) -> str:
        return self.run(source)[2]

    def interrupted(self, source: str, delay: float) -> tuple[float, str]:
        """Return the time to the reply, and what is wrong with it ("": nothing; "over": it had ended)."""
        took, reply, _ = self.run(source, delay)
        if not issubclass(getattr(lm, reply.get("ename", ""), KeyboardInterrupt), KeyboardInterrupt):
            return took, f"it is refused: {reply['evalue']}"
        if reply["status"] != "error":
            return took, "over" if took < 1 else "the interrupt was lost"
        shown = re.sub(r"\x1b\[[\d;]*m", "", "\n".join(reply["traceback"]))
        if len(reply["traceback"]) == 1 and shown.startswith("Interrupted: "):
            return took, ""
        # A cell of Python's that IPython had not begun, or had ended, is not ours.
        own = source.startswith("%") or "Cell In[" in shown or "llama_magic" in shown
        return took, f"{shown[:1500]}\n...\n{shown[-1500:]}" if own else "over"

    def close(self) -> None:
        self.client.stop_channels()
        self.manager.shutdown_kernel(now=True)


class Terminal:
    """IPython in a terminal of its own, to which Ctrl-C is typed."""

    def __init__(self, folder: str, *urls: str) -> None:
        self._cells, self._number = Path(folder) / "cells", 0
        self._cells.mkdir()
        words = ["-m", "IPython", "--simple-prompt", "--no-banner", "--colors=NoColor", "--no-confirm-exit"]
        self.child = pexpect.spawn(
            sys.executable,
            words,
            encoding="utf-8",
            timeout=5 * WATCHDOG,  # while it is prepared, beside other programs
            echo=False,
            # What a shell runs in the background ignores Ctrl-C, and so does what that starts.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        )
        self.child.delayafterterminate = 9  # beside other programs
        hurry(self.child.pid)
        self.child.expect(r"In \[\d+\]: ")
        self.ask("%load_ext llama_magic")
        for line in prepare(folder, *urls).splitlines():
            self.ask(line)
        self.child.timeout = WATCHDOG

    def _start(self, source: str) -> None:
        if "\n" in source or len(source) > 1000:  # a terminal takes lines of 4,095 characters
            self._number += 1
            file = self._cells / f"{self._number}.ipy"
            file.write_text(source)
            source = f"get_ipython().run_cell(open({str(file)!r}).read())"
        self.child.sendline(source)

    def ask(self, source: str) -> str:
        self._start(source)
        self.child.expect(r"In \[\d+\]: ")
        return str(self.child.before)

    def _settle(self) -> str:
        """Wait for the last prompt and return what came before it.

        A Ctrl-C that comes as a cell ends brings a second prompt: who took that for the next cell's would
        type ahead, and the next Ctrl-C throws away what was typed ahead, so its prompt never comes.
        """
        self._number += 1
        self.child.sendline(f"print('settled', {self._number})")
        self.child.expect(f"settled {self._number}\r?\n")
        shown = str(self.child.before)
        self.child.expect(r"In \[\d+\]: ")
        return shown

    def interrupted(self, source: str, delay: float) -> tuple[float, str]:
        """Return the time to the prompt, and what is wrong ("": nothing; "over": it had ended)."""
        self._start(source)
        if self.child.expect([r"In \[\d+\]: ", pexpect.TIMEOUT], timeout=delay) == 0:
            return 0.0, "over"
        sent = time.perf_counter()
        self.child.sendintr()
        self.child.expect(r"In \[\d+\]: ")
        took, shown = time.perf_counter() - sent, str(self.child.before)
        shown += self._settle()
        _, trace, rest = shown.partition("Traceback")
        if trace and "llama_magic" not in rest and "/cells/" in rest:
            return took, "over"  # it struck the line that reads the cell from its file
        if trace:
            return took, rest[:2000]
        return took, "" if "Interrupted: " in shown else "over"

    def close(self) -> None:
        self.child.close(force=True)


def hurry(pid: int) -> None:
    """Give a process, which has a session of its own, the CPU time that `PRIORITY` says."""
    if priority := os.environ.get("PRIORITY"):
        Path(f"/proc/{pid}/autogroup").write_text(priority)


def struck(make: Callable[..., Any], count: int, chance: random.Random) -> tuple[list[Any], list[str]]:
    """Return (cell, seconds) of interrupts that struck, and what was wrong."""
    felt: list[tuple[str, float]] = []
    wrong: list[str] = []
    hub = FakeHub()
    hub.files["/m.gguf"] = gguf_bytes(200_000)
    hub.faults.gate = threading.Event()
    with tempfile.TemporaryDirectory() as folder, socket.create_server(("127.0.0.1", 0)) as silent:
        os.environ["LLAMA_MAGIC_CACHE"] = f"{folder}/cache"
        host = make(folder, f"{hub.url}/m.gguf", f"http://127.0.0.1:{silent.getsockname()[1]}")
        expected = host.ask(ASK)
        for i in range(count):
            name = list(CELLS)[i % len(CELLS)]
            took, what = host.interrupted(CELLS[name], 0.002 + chance.random() ** 2 * 1.5)
            if took > 0.25 or what not in ("", "over"):
                load = os.getloadavg()[0]
                print(f"  {i}: {name} felt after {took:.2f} s at load {load:.1f}: {what[:60]!r}", flush=True)
            if what != "over":
                felt.append((name, took))
            if what not in ("", "over"):
                wrong.append(f"{name}: {what}")
            if host.ask(ASK) != expected:
                wrong.append(f"{name}: the seeded answer changed")
        if isinstance(host, Kernel) and host.lost:
            print(f"{host.lost} signals struck ipykernel between a cell and its reply")
        host.close()
    hub.close()
    return felt, wrong


def main(count: int = 300) -> int:
    """Print p50 and p99 by cell; return 1 where one was late, showed a traceback or changed an answer."""
    begun = {found[1] for cell in CELLS.values() if (found := re.match(r"%%?llama (\w+)", cell))}
    assert begun >= {*VERBS, *MODES} - {*AT_ONCE}, {*VERBS, *MODES} - begun
    chance = random.Random(1)
    bad = False
    for make, share in ((Kernel, count * 2 // 3), (Terminal, count // 3)):
        felt, wrong = struck(make, share, chance)
        for name in CELLS:
            if times := [time_ for cell, time_ in felt if cell == name]:
                middle = statistics.median(times)
                print(f"{name:12} {len(times):3} p50 {middle:.3f} s, slowest {max(times):.3f} s")
        every = sorted(time_ for _, time_ in felt)
        late = every[int(len(every) * 0.99)] if every else 0.0
        print(
            f"{make.__name__}: {len(every)} of {share} struck: p50 {statistics.median(every):.3f} s, "
            f"p99 {late:.3f} s; load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"
        )
        print("\n".join(f"{n} x {what}" for what, n in collections.Counter(wrong).items()), flush=True)
        bad = bad or late > 0.25 or bool(wrong)
    return int(bad)


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
