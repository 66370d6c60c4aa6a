"""The memory of a load, predicted for the contexts that the engine will make (`engine.contexts`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llama_magic import fit
from llama_magic.engine.contexts import Contexts

if TYPE_CHECKING:
    from llama_magic.engine.native import ContextOptions
    from llama_magic.fit import Estimate, Machine
    from llama_magic.gguf import GGUFInfo


def of_context(info: GGUFInfo, window: int, context: ContextOptions, **load: Any) -> Estimate:
    """Predict the weights and one context of a window of so many tokens; `load` says how the weights are."""
    return fit.estimate(
        info,
        ctx=window,
        cells=context.cells,
        n_seq=context.sequences,
        type_k=context.type_k,
        type_v=context.type_v,
        batch=context.batch,
        ubatch=context.ubatch,
        flash_attn=context.flash_attn,
        swa_full=context.swa_full,
        outputs=context.outputs,
        adapters=sum(adapter.stamp[0] for adapter in context.adapters),
        **load,
    )


def largest_window(info: GGUFInfo, machine: Machine, base: ContextOptions) -> int:
    """Return the longest window that fits: what the model was trained for, or less. Raises `FitError`.

    `cells` of `base` does not count: all sequences share those of one window.
    """
    context = Contexts(base).shared
    return fit.largest_context(
        info,
        machine,
        type_k=context.type_k,
        type_v=context.type_v,
        batch=context.batch,
        ubatch=context.ubatch,
        outputs=context.outputs,
    )
