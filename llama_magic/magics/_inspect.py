"""`%llama inspect`: a header with how to load it here, parts of a header, or the quants of a repository."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from llama_magic import display, fit, sources
from llama_magic.display.hosts import somebody_looks
from llama_magic.display.static.doc import Code, Grid, Head, Line, Node
from llama_magic.display.views.gguf.tensors import tensors
from llama_magic.errors import InvalidGGUFError
from llama_magic.loading import compare as choosing
from llama_magic.loading import hooks
from llama_magic.loading.inspect import inspect
from llama_magic.loading.plan import Plan, plan
from llama_magic.magics._kernel import Kernel
from llama_magic.magics._parse import LineCommand
from llama_magic.words.shown import Shown
from llama_magic.words.tables import Table

_PARTS = ("tensors", "tokenizer", "template")


def inspect_verb(kernel: Kernel, command: LineCommand) -> Any:
    """Return the header of a source or a loaded model; where parts of it are asked for, show those alone.

    A hub repository that holds several models, none of them named, gives a `Comparison`.
    """
    options = dict(command.options)
    parts = [part for part in _PARTS if options.pop(part, False)]
    name = kernel.session.current_name
    if command.words:
        name = command.words[0]
    if name in kernel.session.models:
        info = kernel.session.model(name).info
    else:
        source = name or kernel.settings.model or hooks.usual_source()
        if not parts and (several := _several(source, options)) is not None:
            return several
        info = _header(source, options, with_plan=not parts)
    if parts and not command.silent:
        for part in parts:
            display.show(_Part(part, info), kernel.shell)
        return kernel.mark_shown(info)
    return info


def _several(source: str | None, options: dict[str, Any]) -> Any:
    """Return the comparison of a repository's models; None where one is named, or there is one only."""
    parsed = sources.parse(source)
    if parsed.kind != "hub" or parsed.quant is not None or parsed.file is not None:
        return None
    listing = sources.hub_models(source, **options)
    return choosing.compare_models(listing, None, fit.machine()) if len(listing.models) > 1 else None


def _header(source: str | None, options: dict[str, Any], *, with_plan: bool) -> Any:
    info = inspect(source, **options)
    if with_plan:
        shown = source or "smollm2"
        try:
            found = plan(info, shown)
        except InvalidGGUFError as error:
            found = Plan(shown, 0, "f16", 0, 0, False, why=f"It cannot be loaded. {error}")
        info.plan = found if somebody_looks() else replace(found, speed=None, speed_full=None)
    return info


@dataclass(frozen=True)
class _Part(Shown):
    """One part of a header, shown alone."""

    name: str
    info: Any


@display.view.register(_Part)
def _part(part: _Part) -> list[Node]:
    """Show the tensors by block, the tokenizer, or each chat template of the file."""
    info = part.info
    if part.name == "tensors":
        return [Head("tensors", f"{len(info.tensors):,} in {info.name}"), *tensors(info.tensors.values())]
    if part.name == "tokenizer":
        return [Head("tokenizer", info.name), Grid(_tokenizer_table(info))]
    if not info.chat_templates:
        return [Line("The file holds no chat template.")]
    out: list[Node] = []
    for name, text in info.chat_templates.items():
        out += [Head("chat template", name), Code(text, template=True)]
    return out


def _with_piece(info: Any, key: str, value: Any) -> str:
    """Say a value; of a special token's id, also how that token is written."""
    ids = not isinstance(value, bool) and isinstance(value, int) and key.endswith("_token_id")
    tokens = info.tokens if ids else None
    if tokens is None or not 0 <= value < len(tokens):
        return str(value)
    return f"{value} ⟦{tokens[value]}⟧"


def _tokenizer_table(info: Any) -> Any:
    rows = [("tokens", f"{info.vocab_size:,}")]
    for key, value in info.metadata.items():
        if (
            key.startswith("tokenizer.")
            and isinstance(value, (str, int, float, bool))
            and "template" not in key
        ):
            rows.append((key.removeprefix("tokenizer."), _with_piece(info, key, value)))
    return Table(("", ""), tuple(rows))
