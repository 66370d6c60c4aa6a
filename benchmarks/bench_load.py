"""What a load takes beside a plain one of llama.cpp: the first in a process, and the same once more.

    python benchmarks/bench_load.py [--rounds N] [--threads N] [MODEL.gguf …]

The crash check knows the file, and modules are imported before the clock starts. "read" is what
is done unasked: weights lie in huge pages and are a process's own; "mapped" is what `--mmap` does, as
llama.cpp does by itself.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from harness import Bench, Options, Side, main

CTX = 2048


def plain(options: Options) -> dict[str, float]:
    import llama_cpp

    silent = llama_cpp.llama_log_callback(lambda *_: None)
    llama_cpp.llama_log_set(silent, None)
    llama_cpp.llama_backend_init()
    settings = llama_cpp.llama_context_default_params()
    settings.n_ctx = CTX
    began = time.perf_counter()
    model = llama_cpp.llama_model_load_from_file(
        options.model.encode(), llama_cpp.llama_model_default_params()
    )
    assert llama_cpp.llama_init_from_model(model, settings)
    return {"first": (time.perf_counter() - began) * 1e3}


def ours(mmap: bool | None) -> Callable[[Options], dict[str, float]]:
    def side(options: Options) -> dict[str, float]:
        import llama_cpp  # noqa: F401 - imported before the clock starts, as are those below

        import llama_magic as lm
        import llama_magic.formatters.gguf
        import llama_magic.loading.dry
        import llama_magic.loading.opening

        found = {}
        for case in ("first", "second"):
            began = time.perf_counter()
            model = lm.load(options.model, ctx=CTX, threads=options.threads, mmap=mmap)
            found[case] = (time.perf_counter() - began) * 1e3
        model.close()
        return found

    return side


BENCH = Bench(
    "load",
    "A load, and the same load again",
    "ms",
    [
        Side("llama.cpp, model and context", plain),
        Side("llama_magic, read", ours(None)),
        Side("llama_magic, mapped", ours(True)),
    ],
    less_is_better=True,
)

if __name__ == "__main__":
    main(BENCH)
