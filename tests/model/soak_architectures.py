"""The whole promise on every architecture of `random_models.py`: `python soak_architectures.py [NAME …]`."""

from __future__ import annotations

import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
import promise
import random_models

import llama_magic as lm


def main(names: list[str]) -> int:
    """Return 1 where a part did not hold; says which, architecture by architecture."""
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for name in names or random_models.ARCHITECTURES:
            began = time.perf_counter()
            path = random_models.build(Path(folder), [name])[name]
            with lm.load(path, ctx=512, threads=1) as model:
                sizes = model.memory
                failed = [] if _holds(partial(promise.memory, model)) else ["memory"]
                parts = promise.PARTS if model.backend.weights.generates else (promise.embedded,)
                failed += [part.__name__ for part in parts if not _holds(partial(part, model, path))]
            wrong += len(failed)
            share = sizes["predicted_total"] / sizes["actual_total"]
            said = f"{len(parts) + 1 - len(failed)} of {len(parts) + 1} parts, memory {share:.2f}"
            print(f"{name}: {said} ({time.perf_counter() - began:.0f} s) {' '.join(failed)}", flush=True)
    return wrong > 0


def _holds(part: Callable[[], None]) -> bool:
    try:
        part()
    except Exception:
        traceback.print_exc()
        return False
    return True


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
