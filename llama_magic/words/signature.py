"""Signatures: one that names every option that a function takes as `**options`; calls that fit none."""

from __future__ import annotations

import functools
import inspect
import re
import traceback
from collections.abc import Callable, Mapping
from types import FrameType
from typing import Any, ParamSpec, TypeVar

from llama_magic.errors import InputTypeError, LlamaMagicError
from llama_magic.words.names import nearest
from llama_magic.words.plain import said

# By `__len__` and its like an object is looked at. These carry something out, and raise what they like.
_CARRIES_OUT = re.compile(
    "__(a?call|a?next|a?enter|a?exit|await|del|delete|get|init|new|post_init|set|set_name)__"
)
_SPECIAL = re.compile(r"__\w+__")
POSITIONAL = inspect.Parameter.POSITIONAL_OR_KEYWORD
P = ParamSpec("P")
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])


def refusing(cls: type[T]) -> type[T]:
    """Decorate a class: its public methods raise `InputTypeError` where a call does not fit their signature.

    The nearest name is named. Costs nothing until a call fails.
    """
    for name, method in vars(cls).copy().items():
        if not name.startswith("_") and inspect.isfunction(method):
            setattr(cls, name, checked(method))
    return cls


def checked(method: Callable[P, T]) -> Callable[P, T]:
    """Decorate a function, or a method: see `refusing`."""
    signature = inspect.signature(method)

    @functools.wraps(method)
    def call(*args: P.args, **options: P.kwargs) -> T:
        try:
            return method(*args, **options)
        except LlamaMagicError:
            raise
        except Exception as error:
            if isinstance(error, TypeError):
                try:
                    signature.bind(*args, **options)
                except TypeError as unfit:
                    # The class that people know, not the part of it that holds the method.
                    of_class = args and "self" in signature.parameters
                    name = f"{type(args[0]).__name__}.{method.__name__}" if of_class else method.__qualname__
                    raise InputTypeError(_words(name, signature, options, unfit)) from None
            if failed := _looked_at(error):
                raise InputTypeError(
                    f"What was given to {method.__name__} cannot be read: its {failed} raised "
                    f"{type(error).__name__}: {said(error)}."
                ) from error
            raise

    return call


def _looked_at(error: Exception) -> str:
    """Return the special method of a given object in which this was raised, `__len__`; "" where in none.

    It was called from here. A tool, a validator or a score raises what it likes.
    """
    called: list[str] = []
    for frame, _ in traceback.walk_tb(error.__traceback__):
        if frame.f_globals.get("__name__", "").partition(".")[0] == "llama_magic":
            called = []
        else:
            called.append(_called_as(frame))
    if not called and isinstance(error, TypeError) and str(error).startswith("unhashable type"):
        return "__hash__"
    special = [name for name in called if _SPECIAL.fullmatch(name) and not _CARRIES_OUT.fullmatch(name)]
    return special[-1] if special and special[0] is called[0] else ""


def _called_as(frame: FrameType) -> str:
    """Return the special method as which a function runs, whatever it is called itself; else its name."""
    code = frame.f_code
    if code.co_argcount and not _SPECIAL.fullmatch(code.co_name):
        for kind in type(frame.f_locals.get(code.co_varnames[0])).__mro__:
            for name, held in vars(kind).items():
                if getattr(held, "__code__", None) is code and _SPECIAL.fullmatch(name):
                    return name
    return code.co_name


def _words(name: str, signature: inspect.Signature, options: Mapping[str, Any], unfit: TypeError) -> str:
    named = [
        p.name
        for p in signature.parameters.values()
        if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY) and p.name != "self"
    ]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in signature.parameters.values())
    wrong = None if takes_any else next((option for option in options if option not in named), None)
    if wrong is None and "positional" in str(unfit):
        ordered = [name for name in named if signature.parameters[name].kind is POSITIONAL]
        takes = f"{' and '.join(ordered)} alone" if ordered else "nothing"
        return f"{name}: {unfit}. It takes {takes} without a name; write the others as name=value."
    if wrong is None:
        needed = [signature.parameters[n] for n in named]
        needed = [p for p in needed if p.default is p.empty]
        words = ", ".join(p.name if p.kind is POSITIONAL else f"{p.name}=…" for p in needed)
        return f"{name}: {unfit}. Write {name.rpartition('.')[2]}({words})."
    takes = f" It takes {', '.join(named)}." if named else ""
    near = nearest(wrong, named, cutoff=0.5)
    return f"{name} has no option {wrong!r}." + (f" Did you mean {near[0]}?" if near else takes)


class _Own:
    """Stands in a signature for a default that is not one value."""

    def __init__(self, words: str) -> None:
        self._words = words

    def __repr__(self) -> str:
        return self._words


def spelled_out(options: type, defaults: Mapping[str, Any], others: str) -> Callable[[F], F]:
    """Return a decorator that shows each key of a TypedDict in place of `**options`.

    Keys in `defaults` come first, with these; the default of the others is `others`, in words.
    Shift-Tab, `help()` and completers read the signature; the function itself is not touched.
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        kept = [p for p in signature.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
        keys = options.__annotations__
        order = [
            *(name for name in defaults if name in keys),
            *(name for name in keys if name not in defaults),
        ]
        shown = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(name, _Own(others)),
                annotation=getattr(keys[name], "__forward_arg__", keys[name]),
            )
            for name in order
        ]
        function.__signature__ = signature.replace(parameters=[*kept, *shown])  # type: ignore[attr-defined]
        return function

    return decorate
