"""What masks cost: to compile a schema, to build a vocabulary's trie, and at each step.

    python benchmarks/bench_masks.py [MODEL.gguf ...]

Without a model: a vocabulary of 49,152 and one of 262,144 invented words. With models: their
vocabularies, weights not loaded. Prints one table; `--json` prints it as JSON. The step is what
the engine pays between two decodes: the mask, its writing into the logits, the token's acceptance.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

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


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("models", nargs="*", type=Path)
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    vocabularies: list[Any] = [Words(49_152), Words(262_144)]
    if arguments.models:
        sys.path.insert(0, str(ROOT / "tests" / "structured"))
        from structured_support import NativeVocabulary

        vocabularies = [NativeVocabulary(path) for path in arguments.models]
    rows = [_compile_row()] + [_step_row(vocabulary) for vocabulary in vocabularies]
    if arguments.json:
        print(json.dumps(rows, indent=1))
        return
    for row in rows:
        print(row.pop("what"))
        for name, figure in row.items():
            print(f"    {name:32} {figure}")


def _compile_row() -> dict[str, Any]:
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
    return {
        "what": f"compile {len(times)} schemas",
        "p50 ms": _ms(times, 0.5),
        "p99 ms": _ms(times, 0.99),
        "max ms": _ms(times, 1),
    }


def _step_row(vocabulary: Any) -> dict[str, Any]:
    begun = time.perf_counter()
    structured.compile({"type": "null"}, vocabulary=vocabulary)
    trie = time.perf_counter() - begun
    constraint = structured.compile(PERSON, vocabulary=vocabulary)
    begun = time.perf_counter()
    constraint.start()
    first = time.perf_counter() - begun
    tokens = vocabulary.tokenize(TEXT)
    prepare, apply, accept, whole = [], [], [], []
    logits = np.random.default_rng(0).normal(size=vocabulary.n_tokens).astype(np.float32)
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
            for times, cost in ((prepare, t1 - t0), (apply, t2 - t1), (accept, t3 - t2), (whole, t3 - t0)):
                times.append(cost)
        assert matcher.can_stop
    return {
        "what": f"{vocabulary.n_tokens:,} tokens ({vocabulary.fingerprint})",
        "trie, once (s)": round(trie, 2),
        "first matcher of a schema (ms)": round(first * 1e3, 2),
        "mask p50 / p99 (ms)": f"{_ms(prepare, 0.5)} / {_ms(prepare, 0.99)}",
        "apply p50 / p99 (ms)": f"{_ms(apply, 0.5)} / {_ms(apply, 0.99)}",
        "accept p50 (ms)": _ms(accept, 0.5),
        "step p50 / mean / p99 (ms)": f"{_ms(whole, 0.5)} / {round(sum(whole) / len(whole) * 1e3, 3)} / "
        f"{_ms(whole, 0.99)}",
    }


def _ms(times: list[float], share: float) -> float:
    ordered = sorted(times)
    return round(ordered[min(len(ordered) - 1, int(len(ordered) * share))] * 1e3, 3)


if __name__ == "__main__":
    main()
