"""Whether a row has the same bits whatever is decoded beside it, and how llama.cpp is brought to that."""

from __future__ import annotations

import ctypes
from functools import cached_property
from typing import TYPE_CHECKING, Any

from llama_magic.engine.native.backend import LIBRARY

if TYPE_CHECKING:
    from llama_magic.engine.native.context import Context

_MANY = 16  # rows of the largest batch that is tried


def rows_alike(context: Context) -> bool:
    """Bring a fresh, empty context to where a row has the same bits beside any others, and try that.

    llama.cpp's attention takes one of three ways by the number of rows: a single one is split over the
    threads from 512 cells on, 64 and more go in tiles. Its reference way, which looks at each row by itself,
    can be asked for, and costs nothing while tokens are written. Whether products with weights are alike too
    depends on the types of the weights, on the build and on the processor, so it is tried: a row alone,
    and beside others. False leaves the context as it was.
    """
    weights, options = context.weights, context.options
    if weights.recurrent or weights.options.gpu_layers or options.flash_attn == "off":
        return False
    if (weights.n_swa and not options.swa_full) or options.sequences <= _MANY or options.batch < 2 * _MANY:
        return False
    by_row = RowByRow(context)
    if not by_row.ask(True):
        return False
    alone = row_beside(context, 0)
    if all(row_beside(context, beside) == alone for beside in (2, _MANY - 1)):
        return True
    by_row.ask(False)
    return False


def row_beside(context: Context, beside: int) -> bytes:
    """Return the logits of a third token, decoded beside the second ones of so many others."""
    n_vocab = context.n_vocab
    others = list(range(1, beside + 1))
    context.clear()
    tokens = [37 * (i + 1) % n_vocab for i in (*others, 0, 1)]
    # The others lie in front of it, so it lies elsewhere, too.
    context.decode(tokens, [*[0] * beside, 0, 1], [*others, 0, 0], [])
    place = beside // 2
    rows = [*others[:place], 0, *others[place:]]
    context.decode(
        [41 * (row + 1) % n_vocab for row in rows], [1 if row else 2 for row in rows], rows, range(len(rows))
    )
    row = context.logits(place).tobytes()
    context.clear()
    return row


class RowByRow:
    """Have a context compute the reference way, which looks at each row by itself, or as it likes."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._on = False

    def ask(self, on: bool) -> bool:
        """Have the next decodes go that way or not; False where that cannot be asked."""
        if on != self._on:
            for backend, setter in self._setters:
                ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_bool)(setter)(backend, on)
            self._on = on and bool(self._setters)
        return on == self._on

    @cached_property
    def _setters(self) -> list[tuple[int, int]]:
        """The backends of the context, each with the function that asks it; none where one has none."""
        scheduler = _function("_ZNK13llama_context9get_schedEv", ctypes.c_void_p, ctypes.c_void_p)
        count = _function("ggml_backend_sched_get_n_backends", ctypes.c_int, ctypes.c_void_p)
        backend = _function("ggml_backend_sched_get_backend", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)
        device = _function("ggml_backend_get_device", ctypes.c_void_p, ctypes.c_void_p)
        registry = _function("ggml_backend_dev_backend_reg", ctypes.c_void_p, ctypes.c_void_p)
        address = _function(
            "ggml_backend_reg_get_proc_address", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_char_p
        )
        if None in (scheduler, count, backend, device, registry, address):
            return []  # another build of llama.cpp, which does not show what it has inside
        owner = scheduler(self._context.pointer)
        found = [backend(owner, i) for i in range(count(owner))]
        setters = [address(registry(device(one)), b"ggml_backend_cpu_set_use_ref") for one in found]
        return list(zip(found, setters, strict=True)) if all(setters) else []


def _function(name: str, result: Any, *arguments: Any) -> Any:
    """Return a function of llama.cpp that the bindings do not have, None where it is not there."""
    found = getattr(LIBRARY, name, None)
    if found is not None:
        found = ctypes.CFUNCTYPE(result, *arguments)((name, LIBRARY))
    return found
