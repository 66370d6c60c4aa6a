"""What masks cost: to compile a schema, to build a vocabulary's trie, and at each step.

    python benchmarks/bench_masks.py [--rounds N]

On a vocabulary of 49,152 and one of 262,144 invented words. The step is what an engine would pay between two
decodes if masks were not computed beside them: the mask, its writing into the logits, the token's acceptance.
Schemas to compile are those of maskbench where `../shared` has them.
"""

from __future__ import annotations

import gzip
import json
import random
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from harness import Bench, Options, Side, main

from llama_magic import structured
from llama_magic.errors import SchemaError

ROOT = Path(__file__).resolve().parents[1]
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"type": "string", "maxLength": 40}, "maxItems": 5},
        "mood": {"enum": ["happy", "sad"]},
    },
    "required": ["name", "age", "tags", "mood"],
    "additionalProperties": False,
}
TEXT = '{"name": "Ada Lovelace of London", "age": 36, "tags": ["mathematics", "engines"], "mood": "happy"}'


class Words:
    """A vocabulary of invented words: all bytes, then random texts, then two ends."""

    def __init__(self, size: int) -> None:
        chance = random.Random(size)
        letters = "etaoinshrdlu ETAOIN,.:;'\"{}[]0123456789\n" + "éüñçж中"
        words = {
            "".join(chance.choices(letters, k=chance.randint(2, 9))).encode() for _ in range(size * 5 // 4)
        }
        pieces = [bytes([value]) for value in range(256)] + sorted(words)
        self.pieces = [*pieces[: size - 2], b"<end>", b"<turn>"]
        self.n_tokens = size
        self.eos_id = size - 2
        self.eog_ids = [size - 2, size - 1]
        self.fingerprint = f"words-{size}"
        self._longest_first = {piece: token for token, piece in enumerate(self.pieces)}

    def token_bytes(self, token: int) -> bytes:
        return self.pieces[token]

    def is_control(self, token: int) -> bool:
        return token >= self.n_tokens - 2

    def tokenize(self, text: str) -> list[int]:
        data, tokens = text.encode(), []
        while data:
            size = next(n for n in range(min(40, len(data)), 0, -1) if data[:n] in self._longest_first)
            tokens.append(self._longest_first[data[:size]])
            data = data[size:]
        return tokens


def _compiling() -> dict[str, float]:
    path = ROOT.parent / "shared" / "data" / "maskbench.jsonl.gz"
    schemas = [PERSON]
    if path.exists():
        with gzip.open(path, "rt") as file:
            schemas = [json.loads(line)["schema"] for line in file]
    structured.compile({"type": "null"})  # imports
    times = []
    for schema in schemas:
        begun = time.perf_counter()
        try:
            structured.compile(schema)
        except SchemaError:
            continue
        times.append(time.perf_counter() - begun)
    what = f"compile one of {len(times)} schemas"
    return {f"{what}, p50": _ms(times, 0.5), f"{what}, p99": _ms(times, 0.99)}


def _costs(size: int, _options: Options) -> dict[str, float]:
    vocabulary: Any = Words(size)
    begun = time.perf_counter()
    structured.compile({"type": "null"}, vocabulary=vocabulary)
    trie = time.perf_counter() - begun
    constraint = structured.compile(PERSON, vocabulary=vocabulary)
    begun = time.perf_counter()
    constraint.start()
    first = time.perf_counter() - begun
    return {
        **_compiling(),
        "trie, once": trie * 1e3,
        "first matcher of a schema": first * 1e3,
        **_steps(constraint, vocabulary),
    }


def _steps(constraint: Any, vocabulary: Words) -> dict[str, float]:
    tokens = vocabulary.tokenize(TEXT)
    logits = np.random.default_rng(0).normal(size=vocabulary.n_tokens).astype(np.float32)
    costs: dict[str, list[float]] = {"mask": [], "apply": [], "accept": [], "step": []}
    for _ in range(30):
        matcher = constraint.start()
        for token in tokens:
            row = logits.copy()
            t0 = time.perf_counter()
            matcher.prepare()
            t1 = time.perf_counter()
            matcher.apply(row)
            t2 = time.perf_counter()
            matcher.accept(token)
            t3 = time.perf_counter()
            for part, cost in zip(costs, (t1 - t0, t2 - t1, t3 - t2, t3 - t0), strict=True):
                costs[part].append(cost)
        assert matcher.can_stop
    found = {f"{part}, p50": _ms(times, 0.5) for part, times in costs.items()}
    mean = sum(costs["step"]) / len(costs["step"])
    return found | {"step, mean": mean * 1e3, "step, p99": _ms(costs["step"], 0.99)}


def _ms(times: list[float], share: float) -> float:
    ordered = sorted(times)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1e3


SIZES = (49_152, 262_144)
BENCH = Bench(
    "masks",
    "What masks cost, by the size of the vocabulary",
    "ms",
    [Side(f"{size:,} tokens", partial(_costs, size)) for size in SIZES],
    less_is_better=True,
)

if __name__ == "__main__":
    main(BENCH, [Path("invented-words")])
