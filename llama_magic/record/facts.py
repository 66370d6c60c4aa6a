"""What a record keeps of a model, so that its answers can be replayed without it: no weights, no header."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from llama_magic import formatters
from llama_magic.formatters import gguf
from llama_magic.model.file import LoadedFile
from llama_magic.request.sampling import Sampling

if TYPE_CHECKING:
    from llama_magic.formatters import Formatter
    from llama_magic.model.hearing import Heard

_PLAIN = ("window", "n_ctx_train", "kv_bytes_per_token", "made_with", "notes", "memory", "options")


def of_model(heard: Heard) -> dict[str, Any]:
    """Return the facts of a model as JSON data: window, template, defaults, where it came from."""
    file = heard.file
    found = file.source
    source = None if found is None else {"kind": found.kind, "name": found.name, "origin": found.origin}
    return {
        **{name: getattr(file, name) for name in _PLAIN},
        "name": heard.name,
        "sampling": file.sampling.to_dict(),
        "guarded": sorted(file.guarded),
        "formatter": _formatter(file.formatter),
        "source": source,
    }


def of_vocabulary(heard: Heard) -> dict[str, Any]:
    """Return the facts of a vocabulary as JSON data: how many tokens there are, and which are no text."""
    inner: Any = heard.inner
    return {
        "n_tokens": inner.n_tokens,
        "bos_id": inner.bos_id,
        "eos_id": inner.eos_id,
        "add_bos": inner.add_bos,
        "eog_ids": list(inner.eog_ids),
        "control": {str(token): inner.text(token) for token in sorted(inner.control_ids)},
        "user_defined": {str(token): inner.text(token) for token in sorted(inner.user_defined_ids)},
        "longest": inner.longest,
        "lost": getattr(getattr(inner, "native", None), "lost", ""),
    }


def _formatter(formatter: Formatter) -> dict[str, Any]:
    if not isinstance(formatter, gguf.GGUFFormatter):
        return {"family": formatter.name}
    template = formatter.template
    return {
        "name": formatter.name,
        "notes": list(formatter.notes),
        "templates": {"": template.source, **formatter.others},
        "bos_token": template.bos_token,
        "eos_token": template.eos_token,
    }


def file_of(facts: Mapping[str, Any]) -> LoadedFile:
    """Return what a model keeps of its file, from facts."""
    return LoadedFile(
        window=facts["window"],
        formatter=_made(facts["formatter"]),
        sampling=Sampling(**facts["sampling"]),
        options=dict(facts["options"]),
        memory=dict(facts["memory"]),
        notes=tuple(facts["notes"]),
        guarded=frozenset(facts["guarded"]),
        made_with=dict(facts["made_with"]),
        n_ctx_train=facts["n_ctx_train"],
        kv_bytes_per_token=facts["kv_bytes_per_token"],
    )


def _made(facts: Mapping[str, Any]) -> Formatter:
    if "family" in facts:
        return formatters.get(facts["family"])
    others = dict(facts["templates"])
    template = gguf.Template(others.pop(""), facts["bos_token"], facts["eos_token"])
    return gguf.GGUFFormatter(template, name=facts["name"], others=others, notes=tuple(facts["notes"]))
