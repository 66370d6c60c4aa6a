"""The options of a call as keywords: what `**options` stands for, and how `help()` comes to show it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from llama_magic.model.prompt import Overflow
from llama_magic.request.sampling import Sampling, SamplingOptions

F = TypeVar("F", bound=Callable[..., Any])


class CallOptions(SamplingOptions, total=False):
    """What every call takes. `Model.complete` says what each means."""

    max_tokens: int | None
    seed: int | None
    stop: str | Sequence[str] | None
    logprobs: int | None
    overflow: Overflow
    reuse: bool
    ignore_eos: bool
    sampling: Sampling | None


class StructuredOptions(CallOptions, total=False):
    """What a structured call takes besides."""

    pressure: bool


DEFAULTS: dict[str, Any] = {
    "max_tokens": None,
    "seed": None,
    "stop": None,
    "logprobs": None,
    "overflow": "error",
    "reuse": True,
    "ignore_eos": False,
    "sampling": None,
    "pressure": False,
}


class _Own:
    """Stands in a signature for a default that is the model's own."""

    def __repr__(self) -> str:
        return "model.sampling"


def spelled_out(options: type) -> Callable[[F], F]:
    """Return a decorator that shows each key of a TypedDict in place of `**options`.

    Shift-Tab, `help()` and completers read the signature; the function itself is not touched.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        kept = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        shown = {
            name: inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=DEFAULTS.get(name, _Own()),
                annotation=_written(annotation),
            )
            for name, annotation in _keys(options).items()
        }
        first = [shown.pop(name) for name in DEFAULTS if name in shown]
        named = [p for p in kept if p.kind is inspect.Parameter.KEYWORD_ONLY]
        others = [p for p in kept if p.kind is not inspect.Parameter.KEYWORD_ONLY]
        function.__signature__ = signature.replace(  # type: ignore[attr-defined]
            parameters=[*others, *named, *first, *shown.values()]
        )
        return function

    return decorate


def _keys(options: type) -> dict[str, Any]:
    """Return the keys of a TypedDict in the order in which they are written, a base's own first."""
    return dict(options.__annotations__)


def _written(annotation: Any) -> Any:
    """Return an annotation as it stands in the source."""
    return getattr(annotation, "__forward_arg__", annotation)
