"""Which kind of server answers at an address, found by what each kind alone has."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import quote

from llama_magic.doors import option
from llama_magic.errors import (
    LlamaMagicError,
    OptionError,
    ServerAnswerError,
    ServerError,
    ServerKeyError,
    ServerLoadingError,
    ServerModelError,
    ServerUnreachableError,
)
from llama_magic.remote.llama_cpp_python import LlamaCppPythonServer
from llama_magic.remote.llama_server import LlamaMagicServer, LlamaServer
from llama_magic.remote.ollama import Ollama
from llama_magic.remote.openai import OpenAIServer
from llama_magic.remote.values import MISREAD
from llama_magic.remote.vllm import VLLM
from llama_magic.remote.wire import Wire
from llama_magic.words.names import nearest

_SERIOUS = (ServerKeyError, ServerLoadingError, ServerUnreachableError)

Found = LlamaServer | OpenAIServer


def find(wire: Wire, model: str | None, window: int) -> Found:
    """Return the server's dialect. Raises `ServerError` where none answers, `OptionError` for its models."""
    try:
        return _find(wire, model, window)
    except LlamaMagicError:
        raise
    except MISREAD as error:
        words = f"{wire.address.base} tells of itself what its kind of server does not tell"
        raise ServerAnswerError(f"{words} ({type(error).__name__}: {error}).") from None


def _find(wire: Wire, model: str | None, window: int) -> Found:
    models = _models(wire)
    version = _try(wire, "/api/version")
    if version and "version" in version:
        return Ollama(wire, models, _choose(models, model), str(version["version"]), window)
    if any(row.get("owned_by") == "llama_magic" for row in models):
        chosen = _choose(models, model)
        props = wire.ask(f"/props?model={quote(chosen, safe='')}")
        return LlamaMagicServer(wire, props, models, chosen)
    props = _try(wire, "/props")
    if props and "default_generation_settings" in props:
        return LlamaServer(wire, props, models, _choose(models, model))
    chosen = _choose(models, model)
    build = _try(wire, "/version")
    if build and "version" in build and _owner(models, chosen) == "vllm":
        return VLLM(wire, models, chosen, str(build["version"]))
    if _tells_tokens(wire):
        return LlamaCppPythonServer(wire, models, chosen)
    return OpenAIServer(wire, models, chosen)


def _models(wire: Wire) -> list[Mapping[str, Any]]:
    try:
        found = wire.ask("/v1/models", patient=True)
    except ServerModelError as error:
        # Some have a version of another name in their address: …/v1beta/openai, …/paas/v4.
        wire.address = replace(wire.address, bare=True)
        found = _try(wire, "/v1/models")
        if found is None:
            raise ServerModelError(
                error.message,
                status=error.status,
                remedy="Is this the address of the server? It lists no models.",
            ) from None
    rows = found.get("data") if isinstance(found, Mapping) else found
    rows = rows if isinstance(rows, list) else []
    models = [row for row in rows if isinstance(row, Mapping) and row.get("id")]
    if not models:
        raise OptionError(
            f"{wire.address.base} lists no model.", remedy="Load or pull one there, and connect again."
        )
    return models


def _choose(models: Sequence[Mapping[str, Any]], model: str | None) -> str:
    names = [str(row["id"]) for row in models]
    if model is None:
        if len(names) > 1:
            raise OptionError(
                f"The server has {len(names)} models: {', '.join(names[:12])}.",
                remedy=f"Choose one: {option('model', names[0])}",
            )
        return names[0]
    if model in names:
        return model
    near = nearest(model, names, cutoff=0.4)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise OptionError(f"The server has no model {model!r}.", remedy=f"{hint}It has: {', '.join(names[:12])}.")


def _owner(models: Sequence[Mapping[str, Any]], chosen: str) -> str:
    return str(next((row.get("owned_by") for row in models if row["id"] == chosen), ""))


def _try(wire: Wire, path: str) -> Mapping[str, Any] | None:
    """Return what stands at a path, None where this kind of server has nothing there."""
    try:
        found = wire.ask(path)
    except _SERIOUS:
        raise
    except ServerError:
        return None
    return found if isinstance(found, Mapping) else None


def _tells_tokens(wire: Wire) -> bool:
    with contextlib.suppress(ServerError, KeyError, TypeError):
        return isinstance(wire.ask("/extras/tokenize", {"input": "a"})["tokens"], list)
    return False
