"""Copy-heavy work and prose, with and without guesses.

    python benchmarks/bench_speculation.py [--rounds N] [--threads N] [MODEL.gguf …]

Greedy, the prompt read before, so that only writing is timed; each run in a process of its own. A side also
says the crc of what it wrote, so that the table shows whether both wrote the same tokens: their ratio is 1.
"""

from __future__ import annotations

import time
import zlib
from typing import Any

from harness import Bench, Options, Side, main

TOKENS = 128
CODE = """def total(prices, rate):
    result = 0
    for price in prices:
        result = result + price * (1 + rate)
    return round(result, 2)

def average(values):
    if not values:
        return None
    return sum(values) / len(values)

def largest(values):
    best = values[0]
    for value in values:
        if value > best:
            best = value
    return best
"""
TEXT = (
    "The lighthouse stood at the end of the pier, and every evening old Marta climbed its ninety-one steps "
    "to light the lamp. In winter the wind came over the water so hard that she tied a rope around her "
    "waist. She had done so for forty years, and no ship had been lost in all that time. When the town "
    "council wrote to say that the lamp would be electric from spring, she read the letter twice, folded "
    "it, and put it away."
)


def cases() -> dict[str, list[dict[str, str]]]:
    """Return conversations: what an answer begins with keeps a small model to its work."""

    def asked(question: str, begun: str = "") -> list[dict[str, str]]:
        turns = [{"role": "user", "content": question}]
        return [*turns, {"role": "assistant", "content": begun}] if begun else turns

    lines = TEXT.replace(". ", ".\n- ")
    other = CODE.replace("    ", "  ")
    return {
        "edit this text": asked(f"Write this text again, with Anna in place of Marta:\n\n{TEXT}", TEXT[:60]),
        "extract": asked(f"List the sentences of this text:\n\n{TEXT}", f"- {lines[:150]}"),
        "reformat code": asked(f"Indent this code by two blanks:\n\n{CODE}", other[:90]),
        "prose": asked("Write a story about a boy who finds a map in an old book."),
    }


def _side(options: Options, speculate: str) -> dict[str, float]:
    import llama_magic as lm

    figures = {}
    with lm.load(options.model, ctx=2048, threads=options.threads) as model:
        for name, messages in cases().items():

            def write(messages: Any = messages) -> tuple[float, float, Any]:
                begun, used = time.perf_counter(), time.process_time()
                answer = model.chat(messages, max_tokens=TOKENS, temperature=0, speculate=speculate)
                seconds = time.perf_counter() - begun, time.process_time() - used
                return *(len(answer.token_ids) / one for one in seconds), answer

            write()
            figures[name], figures[f"{name}, processor time"], answer = write()
            figures[f"{name}, crc of the tokens"] = zlib.crc32(str(answer.token_ids).encode())
    return figures


def plain(options: Options) -> dict[str, float]:
    return _side(options, "off")


def guessed(options: Options) -> dict[str, float]:
    return _side(options, "auto")


BENCH = Bench(
    "speculation",
    "Copy-heavy work and prose, with guesses against without",
    "tokens a second",
    [Side("plain", plain), Side("guessed", guessed)],
)

if __name__ == "__main__":
    main(BENCH)
