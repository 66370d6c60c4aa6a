"""Which model an answer was made by, among those that are here; and what of it is another now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from llama_magic import gguf, sources
from llama_magic.errors import LlamaMagicError, OptionError
from llama_magic.loading import hooks

if TYPE_CHECKING:
    from llama_magic.model.model import Model
    from llama_magic.model.shapes import Receipt

# What of an engine decides which bits come out, as people call it.
_WORDS = {
    "threads": "threads",
    "kv_type": "KV type",
    "flash_attn": "flash attention",
    "batch": "batch",
    "ubatch": "microbatch",
    "gpu_layers": "GPU layers",
    "window": "window",
    "lora": "adapters",
}
_BUILD = ("llama_cpp", "llama_cpp_python", "features", "library", "repacked_weights")


def models_here() -> list[Model]:
    """Return the models of this process, the current one first; nothing is imported for it."""
    found = [hooks.current_model(), *hooks.loaded()]
    return list({id(model): model for model in found if model is not None and not model.closed}.values())


def made_by(receipt: Receipt, models: Iterable[Model]) -> Model | None:
    """Return the model that made an answer, of several the one most like what it was; None where none is.

    It is known by its file's fingerprint; one without a file by what it says of itself, and its name.
    """
    same = [model for model in models if is_same(receipt, model)]
    return min(same, key=lambda model: len(differences(receipt, model)), default=None)


def is_same(receipt: Receipt, model: Model) -> bool:
    """Say whether a receipt is of this file, or where there is none, of this very source."""
    if "file" in receipt:
        here = model.made_with.get("file", {})
        return bool(here.get("fingerprint") == receipt["file"]["fingerprint"])
    mine = {key: value for key, value in model.made_with.items() if key != "engine"}
    return "file" not in mine and model.name == receipt["model"]


def find_model(receipt: Receipt, model: Any = None) -> Model:
    """Return the model to ask again: the one that is given or named, else the one that made the answer."""
    if model is not None and not isinstance(model, str):
        return model
    if model is not None:
        known = hooks.named_model(model)
        if known is not None:
            return known
        from llama_magic.loading.load import load  # for weight: llama.cpp

        return load(model)
    found = made_by(receipt, models_here())
    if found is None:
        name = receipt.get("file", {}).get("name", receipt["model"])
        raise OptionError(
            f"The model that wrote this answer, {name}, is not loaded.",
            remedy="Load it, or say which one to ask: model=…",
        )
    return found


def differences(receipt: Receipt, model: Model) -> list[tuple[str, Any, Any]]:
    """Return what of file, build, threads, KV type and the rest is another now, in this order.

    Each as (what, then, now).
    """
    then, now = receipt.get("engine", {}), model.made_with.get("engine", {})
    found: list[tuple[str, Any, Any]] = []
    if not is_same(receipt, model):
        found.append(("file", _file_words(receipt), _file_words({**model.made_with, "model": model.name})))
    build = [{key: engine[key] for key in _BUILD if key in engine} for engine in (then, now)]
    if build[0] != build[1]:
        keys = [key for key in _BUILD if build[0].get(key) != build[1].get(key)]
        before, after = ({key: side.get(key) for key in keys} for side in build)
        found.append(("build", before, after))
    others = [key for key in {**then, **now} if key not in (*_BUILD, *_WORDS)]
    for key in (*_WORDS, *others):
        if then.get(key) != now.get(key):
            found.append((_WORDS.get(key, key), then.get(key), now.get(key)))
    return found


def _file_words(made: Mapping[str, Any]) -> str:
    file = made.get("file")
    return str(made["model"]) if file is None else f"{file['name']} {file['fingerprint'][:8]}"


def file_on_disk(receipt: Receipt) -> str | None:
    """Return the path of the file that a receipt names by its fingerprint, of those that need no network.

    The files of loaded models are among them, wherever they lie.
    """
    for model in models_here():
        if model.has_file and is_same(receipt, model):
            return str(model.path)
    size = receipt.get("file", {}).get("bytes")
    paths = (str(found.path) for found in sources.on_disk() if found.size == size)
    return next((path for path in paths if is_file(path, receipt)), None)


def is_file(source: str, receipt: Receipt) -> bool:
    """Say whether a source is on this disk, and the file that a receipt names by its fingerprint."""
    try:
        found = sources.resolve(source, offline=True)
        digest = gguf.inspect(found.path, parts=found.parts).digest
    except LlamaMagicError:
        return False
    return gguf.fingerprint(digest, found.parts) == receipt.get("file", {}).get("fingerprint")


def load_options(receipt: Receipt) -> dict[str, Any]:
    """Return the options of `load` that give the engine that a receipt tells of."""
    engine = receipt.get("engine", {})
    names = ("threads", "batch", "kv_type", "flash_attn", "gpu_layers")
    options = {name: engine[name] for name in names if name in engine}
    options |= {key: value for key, value in engine.items() if key.startswith(("rope_", "yarn_"))}
    if "window" in engine:
        options["ctx"] = engine["window"]
    if engine.get("repacked_weights") is False:
        options["profile"] = "quality"
    if "formatter" in receipt:
        options["formatter"] = receipt["formatter"]
    return options
