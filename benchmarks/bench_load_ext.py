"""What `%load_ext llama_magic` costs a kernel that has just started.

    python benchmarks/bench_load_ext.py [--rounds N]

IPython itself is imported before the clock starts. CPU time is shown too: what a busy machine adds is in the
wall time only. The goal is 100 ms.
"""

from __future__ import annotations

import time
from pathlib import Path

from harness import Bench, Options, Side, main


def load_ext(_options: Options) -> dict[str, float]:
    from IPython.core.interactiveshell import InteractiveShell
    from traitlets.config import Config

    config = Config()
    config.HistoryManager.enabled = False
    shell = InteractiveShell.instance(config=config)
    wall, cpu = time.perf_counter(), time.process_time()
    shell.run_line_magic("load_ext", "llama_magic")
    return {"wall": (time.perf_counter() - wall) * 1e3, "CPU": (time.process_time() - cpu) * 1e3}


BENCH = Bench(
    "load_ext", "%load_ext in a new kernel", "ms", [Side("llama_magic", load_ext)], less_is_better=True
)

if __name__ == "__main__":
    main(BENCH, [Path("no-model")])
