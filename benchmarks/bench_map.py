"""`lm.map` with a schema over short rows, against the loop that a user of llama-cpp-python would write.

    python benchmarks/bench_map.py [--rounds N] [--threads N] [MODEL.gguf …]

Each side asks for the same rows, one object of three fields a row. The loop compiles its grammar once.
"""

from __future__ import annotations

import json
import time
from typing import Any

from harness import Bench, Options, Side, main

ROWS, MAX_TOKENS = 60, 60
WORDS = [
    "river",
    "stone",
    "winter",
    "letter",
    "garden",
    "engine",
    "captain",
    "silver",
    "window",
    "market",
    "bread",
    "music",
]
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "mood": {"enum": ["glad", "sad", "angry", "calm"]},
        "stars": {"type": "integer", "minimum": 1, "maximum": 5},
        "word": {"type": "string", "maxLength": 12},
    },
    "required": ["mood", "stars", "word"],
    "additionalProperties": False,
}
QUESTION = "Read the review and say its mood, its stars and its most important word. Review: "


def review(row: int) -> str:
    """Return a review to read: its number, and two dozen words."""
    words = [WORDS[(row * 7 + k * (row % 5 + 1)) % len(WORDS)] for k in range(24)]
    return f"Number {row}. The {' '.join(words)}."


def _rate(answers: int, began: float) -> dict[str, float]:
    return {"rows": answers / (time.perf_counter() - began)}


def loop(options: Options) -> dict[str, float]:
    import llama_cpp

    model = llama_cpp.Llama(options.model, n_ctx=2048, n_threads=options.threads, verbose=False)
    grammar = llama_cpp.LlamaGrammar.from_json_schema(json.dumps(SCHEMA), verbose=False)

    def ask(row: int) -> Any:
        messages = [{"role": "user", "content": QUESTION + review(row)}]
        return model.create_chat_completion(
            messages, grammar=grammar, max_tokens=MAX_TOKENS, temperature=0.8, seed=row
        )

    ask(ROWS)
    began = time.perf_counter()
    return _rate(sum(bool(ask(row)) for row in range(ROWS)), began)


def ours(options: Options, seed: int | None = None) -> dict[str, float]:
    import llama_magic as lm

    with lm.load(options.model, ctx=2048, threads=options.threads) as model:

        def ask(rows: range) -> int:
            texts = [{"text": review(row)} for row in rows]
            how = {"max_tokens": MAX_TOKENS, "temperature": 0.8, "seed": seed, "progress": False}
            return len(lm.map(texts, QUESTION + "{{ text }}", schema=SCHEMA, model=model, **how))

        ask(range(ROWS, ROWS + 2))
        began = time.perf_counter()
        return _rate(ask(range(ROWS)), began)


def seeded(options: Options) -> dict[str, float]:
    return ours(options, 7)


BENCH = Bench(
    "map",
    "Sixty rows, an object of three fields each, against a loop over llama-cpp-python's grammar",
    "rows a second",
    [
        Side("llama-cpp-python, one after the other", loop),
        Side("lm.map", ours),
        Side("lm.map, seeded", seeded),
    ],
)

if __name__ == "__main__":
    main(BENCH)
