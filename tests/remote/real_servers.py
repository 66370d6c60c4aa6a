"""Real servers as child processes: llama.cpp's own (from xllamacpp) and llama-cpp-python's."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

_XLLAMACPP = """
import sys, time, xllamacpp
wanted = xllamacpp.CommonParams()
wanted.model.path, wanted.port, wanted.n_ctx = sys.argv[1], 0, 1024
wanted.hostnames, wanted.n_parallel, wanted.warmup = ["127.0.0.1"], 2, False
wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = 1
wanted.endpoint_props = True
server = xllamacpp.Server(wanted)
print(server.listening_address, flush=True)
while True:
    time.sleep(60)
"""


def _free_port() -> int:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@contextlib.contextmanager
def llama_server(model: Path) -> Iterator[str]:
    """Run llama.cpp's own server with a window of 512 tokens a slot; give its address."""
    child = subprocess.Popen(
        [sys.executable, "-c", _XLLAMACPP, str(model)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert child.stdout is not None
        yield next(line.strip() for line in child.stdout if line.startswith("http"))
    finally:
        child.kill()
        child.wait()


@contextlib.contextmanager
def llama_cpp_python_server(model: Path) -> Iterator[str]:
    """Run `python -m llama_cpp.server` with a window of 512 tokens; give its address."""
    port = _free_port()
    options = ["--model", str(model), "--port", str(port), "--n_ctx", "512"]
    options += ["--n_threads", "1", "--n_threads_batch", "1"]
    child = subprocess.Popen(
        [sys.executable, "-m", "llama_cpp.server", *options],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    address = f"http://127.0.0.1:{port}"
    try:
        _wait(child, f"{address}/v1/models")
        yield address
    finally:
        child.kill()
        child.wait()


def _wait(child: subprocess.Popen[bytes], url: str) -> None:
    """Return when the server answers; a watchdog of five minutes ends a test that would wait for ever."""
    for _ in range(3000):
        assert child.poll() is None, "the server ended"
        with contextlib.suppress(OSError):
            urllib.request.urlopen(url, timeout=600).close()
            return
        time.sleep(0.1)
    raise AssertionError(f"{url} does not answer")
