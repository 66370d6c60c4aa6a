"""A draft model beside a model: found, judged, and its weights in memory."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from llama_magic import fit, gguf, sources
from llama_magic.doors import option
from llama_magic.engine.lanes.draft_model import DraftOptions
from llama_magic.engine.native import ContextOptions
from llama_magic.errors import InputTypeError, OptionError

if TYPE_CHECKING:
    from llama_magic.engine.native import Vocab, Weights
    from llama_magic.gguf import GGUFInfo
    from llama_magic.sources import Resolved
    from llama_magic.sources.types import Identity

_BATCH = 64  # tokens read in one step: an interrupt loses no more
_PADDING = 128  # tokens by which vocabularies of one family differ at their ends (llama.cpp allows as many)


@dataclass(frozen=True)
class Draft:
    """The file of a draft model as it lay there; `found` is None where it was not fetched (a dry run).

    `window` and `tuning` of its methods are those of the model that it drafts for.
    """

    name: str
    origin: str
    identity: Identity
    fingerprint: str
    found: Resolved | None = field(repr=False, compare=False)
    info: GGUFInfo = field(repr=False, compare=False)

    def context(self, window: int, tuning: fit.Tuning) -> ContextOptions:
        """Return the parameters of its context: one sequence, of the model's window."""
        known = self.info.positions
        return ContextOptions(
            cells=min(window, known) if known else window,
            outputs=1,
            batch=_BATCH,
            ubatch=_BATCH,
            threads=tuning.threads,
            flash_attn=tuning.flash_attn,
        )

    def bytes_for(self, window: int, tuning: fit.Tuning) -> int:
        """Predict the memory that it takes, weights and context."""
        o = self.context(window, tuning)
        how = fit.Options(
            ctx=o.cells,
            batch=o.batch,
            ubatch=o.ubatch,
            flash_attn=o.flash_attn,
            outputs=o.outputs,
            gpu_layers=tuning.gpu_layers,
            extra_bufts=tuning.extra_bufts,
            mmap=tuning.mapped,
        )
        return fit.estimate(self.info, how).total


def check_source(value: Any) -> None:
    """Raise `InputTypeError` for what names no model."""
    if not isinstance(value, (str, os.PathLike, Draft)):
        raise InputTypeError(
            f"draft is a {type(value).__name__}; expected a model's source, as load takes it."
        )


def read(found: Resolved) -> Draft:
    """Read the header of a draft model's file; refuse what cannot guess."""
    with sources.doubting(found):
        info = gguf.inspect(found.path, parts=found.parts)
        fingerprint = gguf.fingerprint(info.digest, found.parts)
        return judged(Draft(found.name, str(found.path), found.identity, fingerprint, found, info))


def judged(draft: Draft) -> Draft:
    """Return a draft model; raises `OptionError` for what cannot guess."""
    info = draft.info
    gguf.validate(info)
    if info.only_embeds or any(info.recurrent_state_bytes):
        what = (
            "makes embeddings and writes none"
            if info.only_embeds
            else "has a state that cannot be taken back"
        )
        raise OptionError(
            f"draft is {draft.name}, which {what}: it cannot guess tokens.",
            remedy=f"Name a small model of the same family, or leave {option('draft')} out.",
        )
    return draft


def options(draft: Draft, weights: Weights, target: Weights, window: int, tuning: fit.Tuning) -> DraftOptions:
    """Return what the engine needs of it; raises `OptionError` where it has other tokens than the model."""
    if difference := _difference(weights.vocab, target.vocab):
        raise OptionError(
            f"draft is {draft.name}, which has other tokens than {target.paths[0].name}: {difference}.",
            remedy="Name a smaller model of the same family, with the same tokenizer.",
        )
    return DraftOptions(weights, draft.context(window, tuning))


def _difference(draft: Vocab, model: Vocab) -> str:
    """Say how two vocabularies differ; nothing where a token of one is that of the other."""
    least = min(draft.n_tokens, model.n_tokens)
    if abs(draft.n_tokens - model.n_tokens) <= _PADDING:
        pairs = ((i, draft.piece(i, special=True), model.piece(i, special=True)) for i in range(least))
        other = next((one for one in pairs if one[1] != one[2]), None)
        if other is None:
            return ""
        return f"token {other[0]:,} is {other[1]!r}, and {other[2]!r} in the model"
    return f"{draft.n_tokens:,} of them, and {model.n_tokens:,} in the model"
