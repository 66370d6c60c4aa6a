"""Two chats of about 1,000 tokens take turns: time to the first token, against llama-cpp-python.

    python benchmarks/bench_chat.py [--rounds N] [--threads N] [MODEL.gguf …]

"read again" is ours without reuse: what a turn costs that begins from nothing.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from typing import Any

from harness import Bench, Options, Side, installed, main

TURNS = 3
Messages = list[dict[str, str]]


def _first_token(answer: Callable[[Messages], Iterator[str]]) -> dict[str, float]:
    """Return the median seconds to the first token, from the second turn on."""
    words = " The river of chapter {} runs through the valley to the sea." * 62
    chats: list[Messages] = [[{"role": "user", "content": f"Chat {i}.{words}"}] for i in (1, 2)]
    times = []
    for turn in range(TURNS):
        for chat in chats:
            began = time.perf_counter()
            stream = answer(chat)
            pieces = [next(stream)]
            if turn:
                times.append(time.perf_counter() - began)
            pieces += stream
            chat.append({"role": "assistant", "content": "".join(pieces)})
            chat.append({"role": "user", "content": f"And what comes after that, in part {turn}?"})
    return {"first token": statistics.median(times)}


def _ours(options: Options, *, reuse: bool) -> dict[str, float]:
    import llama_magic as lm

    with lm.load(options.model, ctx=4096, threads=options.threads) as model:

        def answer(chat: Messages) -> Iterator[str]:
            for chunk in model.chat(chat, stream=True, max_tokens=16, temperature=0, reuse=reuse):
                yield chunk.delta

        return _first_token(answer)


def ours(options: Options) -> dict[str, float]:
    return _ours(options, reuse=True)


def again(options: Options) -> dict[str, float]:
    return _ours(options, reuse=False)


def theirs(options: Options) -> dict[str, float]:
    from llama_cpp import Llama

    threads = options.threads
    llm = Llama(options.model, n_ctx=4096, n_threads=threads, n_threads_batch=threads, verbose=False)

    def answer(chat: Messages) -> Iterator[str]:
        chunks: Any = llm.create_chat_completion(chat, stream=True, max_tokens=16, temperature=0)
        for chunk in chunks:
            delta = chunk["choices"][0]["delta"]
            if "content" in delta:
                yield delta["content"]

    return _first_token(answer)


BENCH = Bench(
    "chat",
    "Two chats in turn, seconds to the first token",
    "seconds",
    [
        Side("llama_magic", ours),
        Side("llama_magic, read again", again),
        Side("llama-cpp-python", theirs, peer="llama-cpp-python"),
    ],
    less_is_better=True,
)

if __name__ == "__main__":
    main(BENCH, installed()[:1])
