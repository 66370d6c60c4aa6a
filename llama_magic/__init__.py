"""Run, teach and take apart GGUF language models in Jupyter and IPython, over llama.cpp.

    %load_ext llama_magic
    %llama load smollm2

    import llama_magic as lm
    model = lm.load("smollm2", ctx=4096)
    model.chat([{"role": "user", "content": "Hi"}])

Importing this package costs nothing; llama.cpp is loaded with the first model.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llama_magic.experiments.vote import vote as vote
    from llama_magic.gguf import GGUFInfo
    from llama_magic.loading.compare import compare as compare
    from llama_magic.loading.load import load as load
    from llama_magic.model.model import Model as Model
    from llama_magic.model.results import Chunk as Chunk
    from llama_magic.model.results import Completion as Completion
    from llama_magic.request.sampling import Sampling as Sampling

__version__ = "0.1.0"
_PLACES = {
    "Chunk": "llama_magic.model.results",
    "Completion": "llama_magic.model.results",
    "GGUFInfo": "llama_magic.gguf",
    "Model": "llama_magic.model.model",
    "Sampling": "llama_magic.request.sampling",
    "add_alias": "llama_magic.sources",
    "compare": "llama_magic.loading.compare",
    "load": "llama_magic.loading.load",
    "vote": "llama_magic.experiments.vote",
}
_ERRORS = (
    "BackendError",
    "ContextOverflowError",
    "FitError",
    "GenerationInterrupted",
    "InputTypeError",
    "InvalidGGUFError",
    "LlamaMagicError",
    "ModelClosedError",
    "OptionError",
    "SchemaError",
    "SourceError",
    "StructuredOutputError",
    "TemplateError",
)
__all__ = [*sorted(_PLACES), *_ERRORS, "inspect", "load_ipython_extension", "unload_ipython_extension"]


def __getattr__(name: str) -> Any:
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    if name in _ERRORS:
        return getattr(importlib.import_module("llama_magic.errors"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def inspect(source: Any = None, **options: Any) -> GGUFInfo:
    """Read the header of a model file, here or remote, without loading weights.

    `source` is anything that `load` takes; of a remote file only the header travels.
    Raises `SourceError` and `InvalidGGUFError`.
    """
    from llama_magic import gguf, sources

    located = sources.locate(source, **options)
    if located.path is not None:
        return gguf.inspect(located.path, parts=located.parts)
    options.pop("offline", None)  # what is not here was looked up just now
    readers = sources.open_parts(source, **options)
    return gguf.inspect(readers[0], parts=readers[1:])


def load_ipython_extension(ipython: Any) -> None:
    """Register `%llama` and `%%llama`; called by `%load_ext llama_magic`."""
    from llama_magic.magics import register

    register(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    """Take the magics away again; loaded models stay. Called by `%unload_ext llama_magic`."""
    from llama_magic.magics import unregister

    unregister(ipython)
