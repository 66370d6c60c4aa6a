"""Each lesson on SmolLM2 itself, with the answers for instructors; `make test` has a short model for most."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from lesson_runs import LESSONS, run, wrong

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        ran = run(LESSONS, Path(folder))
    bad = [fault for path in LESSONS for fault in wrong(path, ran[path.name])]
    print(*bad, f"{len(LESSONS)} lessons, {sum(map(len, ran.values()))} cells, {len(bad)} failed.", sep="\n")
    sys.exit(bool(bad))
