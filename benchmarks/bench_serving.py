"""Many clients at once: callers in this process, our server, llama-server and llama_cpp.server.

    python benchmarks/bench_serving.py [--rounds N] [--threads N] [MODEL.gguf …]

Each of 8 or 16 clients asks for one streamed answer after another: prompts of 40 to 450 tokens, no two
with the same beginning, 48 tokens written, nothing reused, the same samplers. Every side has a window of
512 tokens for each client. A server is a process of its own; the same bare HTTP client talks to all of
them. Processor time is the server's (of the callers' process: all), where the system tells it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import peers
from harness import Bench, Options, Side, main

CLIENTS = {8: 2, 16: 1}  # how many there are -> how many answers each asks for
SHORT, LONG, LENGTH, WINDOW = 40, 450, 48, 512
DRAW = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}
WORDS = [
    "river", "stone", "winter", "letter", "garden", "engine",
    "captain", "silver", "window", "market", "bread", "music",
]  # fmt: skip

Ask = Callable[[str], Awaitable[tuple[int, float]]]  # prompt -> tokens, seconds to the first of them

_LLAMA_SERVER = """
import sys, time, xllamacpp
wanted = xllamacpp.CommonParams()
path, clients, window, threads = sys.argv[1], *map(int, sys.argv[2:])
wanted.model.path, wanted.port, wanted.hostnames = path, 0, ["127.0.0.1"]
wanted.n_parallel, wanted.n_ctx, wanted.warmup = clients, clients * window, False
wanted.cpuparams.n_threads = wanted.cpuparams_batch.n_threads = threads
server = xllamacpp.Server(wanted)  # runs for as long as it has a name
print(server.listening_address, flush=True)
time.sleep(1e6)
"""

_OURS = """
import sys, time, llama_magic as lm
path, clients, window, threads = sys.argv[1], *map(int, sys.argv[2:])
model = lm.load(path, ctx=clients * window, threads=threads)
print(lm.serve(model, port=0).url, flush=True)
time.sleep(1e6)
"""


def prompts(count: int) -> list[str]:
    """Return as many prompts, of lengths spread evenly: a word is one token, or little more."""
    draw = random.Random(1)
    sizes = [SHORT + (LONG - SHORT) * place // (count - 1) for place in range(count)]
    draw.shuffle(sizes)
    return [f"{n} {' '.join(draw.choices(WORDS, k=size * 9 // 10))}" for n, size in enumerate(sizes)]


async def _clients(ask: Ask, clients: int) -> tuple[int, float, list[float]]:
    """Let all clients ask; return tokens, seconds, and those to the first token of each answer."""
    mine = [prompts(clients * CLIENTS[clients])[place::clients] for place in range(clients)]

    async def client(texts: list[str]) -> list[tuple[int, float]]:
        return [await ask(text) for text in texts]

    began = time.perf_counter()
    answers = [one for made in await asyncio.gather(*map(client, mine)) for one in made]
    took = time.perf_counter() - began
    return sum(tokens for tokens, _ in answers), took, [first for _, first in answers]


def _measure(ask: Ask, clients: int, processor: Callable[[], float | None]) -> dict[str, float]:
    async def run() -> dict[str, float]:
        await ask("Once upon a time")  # to warm up
        before = processor()
        tokens, took, firsts = await _clients(ask, clients)
        after = processor()
        slowest = statistics.quantiles(firsts, n=20, method="inclusive")[-1]
        figures = {"tokens a second": tokens / took, "first token, 1 / p95": 1 / slowest}
        if before is not None and after is not None:
            figures["tokens a second of processor time"] = tokens / (after - before)
        return {f"{clients} clients: {name}": value for name, value in figures.items()}

    return asyncio.run(run())


# --- in this process -------------------------------------------------------------------------


def callers(options: Options) -> dict[str, float]:
    import llama_magic as lm

    figures = {}
    for clients in CLIENTS:
        with lm.load(options.model, ctx=clients * WINDOW, threads=options.threads) as model:

            async def ask(prompt: str, model: Any = model) -> tuple[int, float]:
                began, first, tokens = time.perf_counter(), 0.0, 0
                how = {"max_tokens": LENGTH, "ignore_eos": True, "reuse": False, **DRAW}
                async for chunk in model.acomplete(prompt, stream=True, **how):
                    first = first or time.perf_counter() - began
                    tokens += len(chunk.token_ids)
                return tokens, first

            figures |= _measure(ask, clients, time.process_time)
    return figures


# --- over HTTP -------------------------------------------------------------------------------


def _over_http(address: str, fields: dict[str, Any]) -> Ask:
    """Return what asks a server for a completion, with no more of HTTP than that takes."""
    host, port = address.removeprefix("http://").rstrip("/").split(":")

    async def ask(prompt: str) -> tuple[int, float]:
        body = json.dumps({"prompt": prompt, "max_tokens": LENGTH, "stream": True, **DRAW, **fields}).encode()
        head = f"POST /v1/completions HTTP/1.1\r\nHost: {host}:{port}\r\nConnection: close\r\n"
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        began, first, tokens, told = time.perf_counter(), 0.0, 0, 0
        reader, writer = await asyncio.open_connection(host, int(port))
        writer.write(head.encode() + body)
        with contextlib.closing(writer):
            async for line in reader:
                if not line.startswith(b"data: {"):
                    continue
                data = json.loads(line[6:])
                told = told or (data.get("usage") or {}).get("completion_tokens", 0)
                if data.get("choices") and data["choices"][0]["text"]:
                    first = first or time.perf_counter() - began
                    tokens += 1
        if not tokens:
            raise RuntimeError("the server wrote nothing")
        return told or tokens, first

    return ask


@contextlib.contextmanager
def _server(*command: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a server that prints its address, or listens at one that is known."""
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        assert child.stdout is not None
        yield child, next((line.strip() for line in child.stdout if line.startswith("http")), "")
    finally:
        child.kill()
        child.wait()


def _processor_time(process: int) -> float | None:
    """Return the seconds of processor time of another process; None where the system does not tell."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _serving(options: Options, python: str, program: str, fields: dict[str, Any]) -> dict[str, float]:
    figures = {}
    for clients in CLIENTS:
        sizes = map(str, (clients, WINDOW, options.threads))
        with _server(python, "-c", program, options.model, *sizes) as (child, address):
            ask = _over_http(address, fields)
            figures |= _measure(ask, clients, lambda pid=child.pid: _processor_time(pid))
    return figures


def server(options: Options) -> dict[str, float]:
    fields = {"ignore_eos": True, "cache_prompt": False, "stream_options": {"include_usage": True}}
    return _serving(options, sys.executable, _OURS, fields)


def llama_server(options: Options) -> dict[str, float]:
    fields = {"ignore_eos": True, "cache_prompt": False, "stream_options": {"include_usage": True}}
    return _serving(options, peers.python("xllamacpp"), _LLAMA_SERVER, fields)


_LLAMA_CPP = """
import sys, uvicorn
from llama_cpp.server.app import create_app
from llama_cpp.server.settings import ModelSettings, ServerSettings
path, clients, window, threads = sys.argv[1], *map(int, sys.argv[2:])
model = ModelSettings(model=path, n_ctx=window, n_threads=threads, n_threads_batch=threads, verbose=False)
app = create_app(server_settings=ServerSettings(interrupt_requests=False), model_settings=[model])
listener = __import__("socket").create_server(("127.0.0.1", 0))
print(f"http://127.0.0.1:{listener.getsockname()[1]}", flush=True)
uvicorn.Server(uvicorn.Config(app, log_level="error")).run([listener])
"""


def llama_cpp_server(options: Options) -> dict[str, float]:
    # It has no ignore_eos, and cuts streams short where another request comes unless told not to.
    return _serving(options, peers.python("llama_cpp.server"), _LLAMA_CPP, {"logit_bias": {"2": -100.0}})


BENCH = Bench(
    "serving",
    "8 and 16 clients, mixed prompts, against llama-server",
    "a second",
    [
        Side("llama-server", llama_server),
        Side("llama_magic, async callers", callers),
        Side("llama_magic, server", server),
        Side("llama_cpp.server", llama_cpp_server),
    ],
)

if __name__ == "__main__":
    main(BENCH)
