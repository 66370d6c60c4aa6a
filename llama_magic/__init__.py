"""Run, teach and take apart GGUF language models in Jupyter and IPython, over llama.cpp.

    %load_ext llama_magic
    %llama load smollm2

    import llama_magic as lm
    model = lm.load("smollm2", ctx=4096)
    model.chat([{"role": "user", "content": "Hi"}])

A model (`help(lm.Model)`) writes by `chat`, `complete` and `structured`. Here stand

    lm.load, lm.connect, lm.serve      a model of a file, of a server; one for other programs
    lm.map, lm.sweep, lm.decide        many prompts as one value
    lm.inspect, lm.compare, lm.bench   files before they are loaded; how fast a model is
    lm.open_record, lm.rerun, lm.diff, lm.verify, lm.tree, lm.vote   answers kept, asked again, compared

`%llama?` and `%%llama?` list what cells take. Importing this package costs nothing; llama.cpp is loaded with
the first model.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llama_magic import errors as errors
    from llama_magic import experiments as experiments
    from llama_magic import formatters as formatters
    from llama_magic import lesson as lesson
    from llama_magic import testing as testing
    from llama_magic.errors import BackendError as BackendError
    from llama_magic.errors import ContextOverflowError as ContextOverflowError
    from llama_magic.errors import FitError as FitError
    from llama_magic.errors import GenerationInterrupted as GenerationInterrupted
    from llama_magic.errors import InputTypeError as InputTypeError
    from llama_magic.errors import InvalidGGUFError as InvalidGGUFError
    from llama_magic.errors import LlamaMagicError as LlamaMagicError
    from llama_magic.errors import ModelClosedError as ModelClosedError
    from llama_magic.errors import OptionError as OptionError
    from llama_magic.errors import OutOfTimeError as OutOfTimeError
    from llama_magic.errors import SchemaError as SchemaError
    from llama_magic.errors import ServerError as ServerError
    from llama_magic.errors import SourceError as SourceError
    from llama_magic.errors import StructuredOutputError as StructuredOutputError
    from llama_magic.errors import TemplateError as TemplateError
    from llama_magic.experiments.awaited import adecide as adecide
    from llama_magic.experiments.awaited import amap as amap
    from llama_magic.experiments.awaited import asweep as asweep
    from llama_magic.experiments.ballot import vote as vote
    from llama_magic.experiments.branches import Tree as Tree
    from llama_magic.experiments.branches import tree as tree
    from llama_magic.experiments.choice import decide as decide
    from llama_magic.experiments.combinations import sweep as sweep
    from llama_magic.experiments.difference import diff as diff
    from llama_magic.experiments.each_row import map as map
    from llama_magic.experiments.odds import Odds as Odds
    from llama_magic.experiments.repeat import rerun as rerun
    from llama_magic.experiments.runs import Run as Run
    from llama_magic.experiments.runs import Runs as Runs
    from llama_magic.experiments.throughput import bench as bench
    from llama_magic.experiments.verification import verify as verify
    from llama_magic.gguf import GGUFInfo as GGUFInfo
    from llama_magic.loading.alias import alias as alias
    from llama_magic.loading.compare import compare as compare
    from llama_magic.loading.inspect import inspect as inspect
    from llama_magic.loading.load import load as load
    from llama_magic.model.model import Model as Model
    from llama_magic.model.results import Chunk as Chunk
    from llama_magic.model.results import Completion as Completion
    from llama_magic.record.record import Record as Record
    from llama_magic.record.record import open_record as open_record
    from llama_magic.remote.connection import connect as connect
    from llama_magic.request.sampling import Sampling as Sampling
    from llama_magic.serving.server import serve as serve
    from llama_magic.sources import add_alias as add_alias

__version__ = "0.1.0"
_PLACES = {
    "Chunk": "llama_magic.model.results",
    "Completion": "llama_magic.model.results",
    "GGUFInfo": "llama_magic.gguf",
    "Model": "llama_magic.model.model",
    "Odds": "llama_magic.experiments.odds",
    "Record": "llama_magic.record.record",
    "Run": "llama_magic.experiments.runs",
    "Runs": "llama_magic.experiments.runs",
    "Sampling": "llama_magic.request.sampling",
    "adecide": "llama_magic.experiments.awaited",
    "amap": "llama_magic.experiments.awaited",
    "asweep": "llama_magic.experiments.awaited",
    "add_alias": "llama_magic.sources",
    "alias": "llama_magic.loading.alias",
    "bench": "llama_magic.experiments.throughput",
    "compare": "llama_magic.loading.compare",
    "connect": "llama_magic.remote.connection",
    "decide": "llama_magic.experiments.choice",
    "inspect": "llama_magic.loading.inspect",
    "load": "llama_magic.loading.load",
    "serve": "llama_magic.serving.server",
    "map": "llama_magic.experiments.each_row",
    "open_record": "llama_magic.record.record",
    "diff": "llama_magic.experiments.difference",
    "rerun": "llama_magic.experiments.repeat",
    "verify": "llama_magic.experiments.verification",
    "Tree": "llama_magic.experiments.branches",
    "tree": "llama_magic.experiments.branches",
    "sweep": "llama_magic.experiments.combinations",
    "vote": "llama_magic.experiments.ballot",
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
    "OutOfTimeError",
    "SchemaError",
    "ServerError",
    "SourceError",
    "StructuredOutputError",
    "TemplateError",
)
_ROOMS = ("errors", "experiments", "formatters", "lesson", "testing")  # that people know by their names
_ELSEWHERE = {  # what others have at this place
    **dict.fromkeys(
        ("Llama", "LLM", "AutoModel", "from_pretrained"),
        "lm.load('file.gguf'), lm.load('owner/repo:Q4_K_M').",
    ),
    **dict.fromkeys(
        ("OpenAI", "AsyncOpenAI", "Client"),
        "lm.serve() answers OpenAI's client, lm.connect(url) asks a server.",
    ),
    "version": "lm.__version__; %llama doctor has all of them.",
    "current": "lm.load() is the current model.",
    "save": "answer.receipt is a dict to keep; lm.map(…, record=path) and %llama record PATH keep all.",
}
__all__ = [*sorted(_PLACES), *_ERRORS, "lesson", "load_ipython_extension", "unload_ipython_extension"]  # noqa: PLE0604 - texts, all of them


def __getattr__(name: str) -> Any:
    if name in _ROOMS:
        return importlib.import_module(f"llama_magic.{name}")
    if name in _PLACES:
        return getattr(importlib.import_module(_PLACES[name]), name)
    if name in _ERRORS:
        return getattr(importlib.import_module("llama_magic.errors"), name)
    raise AttributeError(_Unknown(name))


class _Unknown:
    """What is said of a name that is not here: put together when it is read.

    `from llama_magic import errors` asks for the name before it looks for the file, and reads nothing.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return f"module {__name__!r} has no attribute {self.name!r}{_meant(self.name)}"


def _meant(name: str) -> str:
    """Return what a name may have meant: a model's method, a verb of %llama, a misspelling."""
    if name in _ELSEWHERE:
        return f". Here: {_ELSEWHERE[name]}"
    model = importlib.import_module("llama_magic.model.model").Model
    if hasattr(model, name) and not name.startswith("_"):
        call = "(…)" if callable(getattr(model, name)) else ""
        return f". Here: ask a model: lm.load(…).{name}{call}."
    if name in importlib.import_module("llama_magic.magics._options").VERBS:
        return f". Here: %llama {name}, in a notebook."
    if name in model._elsewhere:
        return f". Here: ask a model: {model._elsewhere[name]}"
    said: str = importlib.import_module("llama_magic.words.names").hint(name, __all__)
    return said and f".{said}"


def __dir__() -> list[str]:
    """Return what is for people, not the rooms of the house that happen to be loaded."""
    return sorted({*__all__, *_ROOMS, *(name for name in globals() if name.startswith("__"))})


def load_ipython_extension(ipython: Any) -> None:
    """Register `%llama` and `%%llama`; called by `%load_ext llama_magic`."""
    from llama_magic.magics import register

    register(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    """Take the magics away again; loaded models stay. Called by `%unload_ext llama_magic`."""
    from llama_magic.magics import unregister

    unregister(ipython)
