"""Finds a formatter: by name, by file, or by what a model file says."""

from __future__ import annotations

import importlib
import os
from collections.abc import Mapping
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from llama_magic.doors import here, option
from llama_magic.errors import InputTypeError, OptionError, TemplateError
from llama_magic.words.files import decoded, expanded, whole_file
from llama_magic.words.names import nearest

from ._elsewhere import ModuleFormatter
from ._formatter import Formatter

if TYPE_CHECKING:
    from ._family import Family

FAMILIES = (
    "llama2",
    "llama3",
    "chatml",
    "mistral",
    "gemma",
    "phi",
    "deepseek",
    "granite",
    "command_r",
    "gpt_oss",
)
_registered: dict[str, Formatter] = {}

# Special tokens that only one family writes turns with; the first that a vocabulary has decides.
_BY_TOKEN = (
    ("<|start_header_id|>", "llama3"),
    ("<|channel|>", "gpt_oss"),
    ("<|START_OF_TURN_TOKEN|>", "command_r"),
    ("<|start_of_role|>", "granite"),
    ("<｜Assistant｜>", "deepseek"),
    ("<start_of_turn>", "gemma"),
    ("<|im_start|>", "chatml"),
    ("<|assistant|>", "phi"),
    ("[INST]", "mistral"),
)
_BY_ARCHITECTURE = (
    ("gpt-oss", "gpt_oss"),
    ("command-r", "command_r"),
    ("cohere", "command_r"),
    ("granite", "granite"),
    ("deepseek", "deepseek"),
    ("gemma", "gemma"),
    ("phi", "phi"),
    ("mistral", "mistral"),
    ("qwen", "chatml"),
    ("llama4", "llama3"),
    ("llama", "llama2"),
)


def register(name: str, formatter: Formatter | ModuleType | Any) -> Formatter:
    """Make a formatter known under `name`; a module or object with `messages_to_prompt` will do.

    A name that is known is replaced, so a cell can be run again. Returns the formatter.
    """
    if not isinstance(name, str) or not name.strip():
        raise InputTypeError("A formatter needs a name: formatters.register(name, formatter).")
    if not isinstance(formatter, Formatter):
        if not callable(getattr(formatter, "messages_to_prompt", None)):
            raise InputTypeError(
                f"{type(formatter).__name__} is no formatter.",
                remedy="Give a Formatter, or a module with messages_to_prompt(messages, …) -> str.",
            )
        formatter = ModuleFormatter(name, formatter)
    _registered[name] = formatter
    return formatter


def names() -> tuple[str, ...]:
    """Return the names that `get` takes."""
    return (*FAMILIES, *(name for name in _registered if name not in FAMILIES))


def _family(key: str) -> Family:
    formatter: Family = importlib.import_module(f".{key}", __package__).FORMATTER
    return formatter


def get(name: str) -> Formatter:
    """Return the formatter of a family, or one that was registered. Raises OptionError."""
    if not isinstance(name, str):
        raise InputTypeError(f"A formatter's name is a string, not a {type(name).__name__}.")
    if name in _registered:
        return _registered[name]
    key = name.strip().lower().replace("-", "_")
    if key in FAMILIES:
        return _family(key)
    if key in ("gguf", "auto"):
        raise OptionError(
            f"The formatter {key!r} needs a model file's template.",
            remedy="Use formatters.detect(info), or formatters.gguf.Template(source).",
        )
    near = nearest(key, names(), cutoff=0.5)
    hint = f"Did you mean {near[0]!r}? " if near else ""
    raise OptionError(f"There is no formatter {name!r}.", remedy=f"{hint}Known: {', '.join(names())}.")


def from_jinja(source: str | os.PathLike[str], bos_token: str = "", eos_token: str = "") -> Formatter:
    """Return a formatter on a Jinja template: a path, or the template's text itself.

    Raises OptionError if the file cannot be read, TemplateError if it does not compile, or reads no messages.
    """
    text = os.fspath(source)
    if isinstance(source, str) and ("{{" in text or "{%" in text or "\n" in text):
        return _formatter(text, bos_token, eos_token, name="jinja")
    path = Path(expanded(text))
    try:
        template = decoded(whole_file(path))
    except (OSError, ValueError) as error:  # no file, no text, no name of a file
        raise OptionError(
            f"The template {str(path)!r} cannot be read: {error}",
            remedy="Give the path of a .jinja file in UTF-8.",
        ) from error
    return _formatter(template, bos_token, eos_token, name=path.name)


def _formatter(source: str, bos: str, eos: str, **more: Any) -> Formatter:
    from .gguf import GGUFFormatter, Template

    template = Template(source, bos, eos)
    template.check()
    return GGUFFormatter(template, **more)


def choose(choice: str | Formatter, info: Any) -> Formatter:
    """Return what `--formatter` names for a model: auto, a family, gguf, gguf:NAME or PATH.jinja."""
    if isinstance(choice, Formatter):
        return choice
    if choice in ("auto", "gguf", ""):
        return detect(info)
    bos, eos = getattr(info, "bos_token", "") or "", getattr(info, "eos_token", "") or ""
    named = choice.removeprefix("gguf:")
    templates = _templates(info)
    if named in templates and (choice != named or named not in names()):
        return _formatter(templates[named], bos, eos, name=f"gguf:{named}", others=templates)
    if choice.startswith("gguf:"):
        known = ", ".join(templates) or "none"
        raise OptionError(f"The model file has no template {named!r}.", remedy=f"It has: {known}.")
    if choice.endswith((".jinja", ".jinja2", ".j2")) or "/" in choice or os.sep in choice:
        return from_jinja(Path(choice), bos, eos)
    return get(choice)


def _templates(info: Any) -> dict[str, str]:
    given = getattr(info, "chat_templates", None)
    return {str(k): str(v) for k, v in given.items()} if isinstance(given, Mapping) else {}


def detect(info: Any) -> Formatter:
    """Return the formatter for a model file.

    `info` has `architecture`, `chat_template`, `chat_templates`, `bos_token`, `eos_token`, and
    perhaps `tokens.has_token(text)`. The file's template is taken if there is one that compiles;
    otherwise the family is guessed, and `notes` says so.
    """
    templates = _templates(info)
    source = getattr(info, "chat_template", None) or templates.get("default") or ""
    if not source.strip():
        return _guessed(info, "the file has no chat template")
    bos, eos = getattr(info, "bos_token", "") or "", getattr(info, "eos_token", "") or ""
    others = {name: text for name, text in templates.items() if name != "default"}
    try:
        return _formatter(source, bos, eos, others=others)
    except TemplateError as error:
        return _guessed(info, f"the file's chat template cannot be used ({error.message})", source)


def _guessed(info: Any, why: str, source: str = "") -> Formatter:
    family, reason = _guess(info, source)
    note = f"{why}; {family} is used, guessed from {reason}. Choose another: {option('formatter', 'NAME')}."
    return type(_family(family))(notes=(here(note),))


def _guess(info: Any, source: str) -> tuple[str, str]:
    for token, family in _BY_TOKEN:
        if token in source:
            return family, f"{token!r} in the template"
    lookup = getattr(info, "has_token", None) or getattr(getattr(info, "tokens", None), "has_token", None)
    if callable(lookup):
        for token, family in _BY_TOKEN:
            if lookup(token):
                return family, f"the token {token!r}"
    architecture = str(getattr(info, "architecture", "") or "").lower()
    for start, family in _BY_ARCHITECTURE:
        if architecture.startswith(start):
            return family, f"the architecture {architecture!r}"
    return "chatml", "nothing better (the commonest format)"
