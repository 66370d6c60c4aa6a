"""A model and a context over the plain C API, for the sides that ours are set against."""

from __future__ import annotations

import ctypes
from typing import Any

from harness import Options

_kept: list[Any] = []  # what llama.cpp calls must stay


def opened(options: Options, **parameters: Any) -> tuple[Any, Any]:
    """Return a model and a context of it, with `parameters` of llama.cpp's; nothing is logged."""
    import llama_cpp as c

    c.llama_backend_init()
    _kept.append(c.llama_log_callback(lambda *_: None))
    c.llama_log_set(_kept[-1], ctypes.c_void_p(0))
    model = c.llama_model_load_from_file(options.model.encode(), c.llama_model_default_params())
    wanted = c.llama_context_default_params()
    given = {"n_threads": options.threads, "n_threads_batch": options.threads, "no_perf": True, **parameters}
    for name, value in given.items():
        setattr(wanted, name, value)
    return model, c.llama_init_from_model(model, wanted)
