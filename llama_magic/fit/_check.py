"""Does it fit? And if not: what is the nearest that does?"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from llama_magic.doors import option
from llama_magic.errors import FitError
from llama_magic.fit._estimate import Estimate, odd_head, round_context
from llama_magic.fit._machine import Machine
from llama_magic.words import amounts

_CONTEXT_CAP = 1 << 24  # a trained context beyond this is an error in the file
_HEADROOM = 512 << 20  # left to the kernel, the browser and the rest when we choose the context ourselves


def check(predicted: Estimate, machine: Machine) -> tuple[str, ...]:
    """Refuse what truly cannot fit; raises `FitError` that says by how much, and what would.

    Mapped weights are page cache: they may be larger than the *free* memory (then they are read again from
    disk, slowly: a note is returned), but not larger than all of it. Everything else must be free.
    """
    problem = _problem(predicted, machine)
    if problem is None:
        return _notes(predicted, machine)
    what, need, have = problem
    raise FitError(
        f"Does not fit: {what} needs {amounts.size(need)}, {amounts.size(need - have)} more than the "
        f"{amounts.size(have)} there is.\n" + predicted.explained(),
        remedy=_remedy(predicted, machine) + _limited(machine),
    )


def _limited(machine: Machine) -> str:
    if machine.address_space is None:
        return ""
    return (
        f" Or raise the limit of this process: `ulimit -v` lets it map {amounts.size(machine.address_space)}."
    )


def _problem(e: Estimate, machine: Machine) -> tuple[str, int, int] | None:
    """Return (what, bytes needed, bytes there), or None if it fits."""
    if e.gpu > machine.vram_free and e.gpu and machine.gpus:
        return "the part on the GPU", e.gpu, machine.vram_free
    on_gpu = e.gpu if machine.gpus else 0
    weights_in_ram = max(0, e.weights - on_gpu)
    private = max(0, e.private - max(0, on_gpu - e.weights))
    if not e.options.mmap:
        private += weights_in_ram
        weights_in_ram = 0
    if private > machine.ram_available:
        what = "memory beside the mapped weights" if e.options.mmap else "the model"
        return what, private, machine.ram_available
    if private + weights_in_ram > machine.ram_total:
        return "the model", private + weights_in_ram, machine.ram_total
    return None


def _notes(e: Estimate, machine: Machine) -> tuple[str, ...]:
    need = e.total - (e.gpu if machine.gpus else 0)
    if need <= machine.ram_available:
        return ()
    return (
        f"Of the {amounts.size(need)} only {amounts.size(machine.ram_available)} are free: parts of the "
        "weights will be read from disk again and again, slowly.",
    )


def _remedy(e: Estimate, machine: Machine) -> str:
    """Name the nearest choices that fit, least loss first."""
    found: list[str] = []
    o = e.options
    if e.gpu and machine.gpus:
        for layers in range(max(0, min(o.gpu_layers, e.info.block_count) - 1), -1, -1):
            if _problem(e.replace(gpu_layers=layers), machine) is None:
                found.append(option("gpu_layers", layers))
                break
    for type_ in () if odd_head(e.info) else ("q8_0", "q4_0"):
        changed: dict[str, Any] = {"type_k": type_, "type_v": type_, "flash_attn": "auto"}
        if e.replace(**changed).kv < e.kv and _problem(e.replace(**changed), machine) is None:
            found.append(option("kv_type", type_))
            break
    shorter = _largest(e, machine, o.ctx)
    if shorter >= 256 and shorter < o.ctx:
        found.append(option("ctx", shorter))
    if o.ubatch > 64 and _problem(e.replace(ubatch=64, batch=64), machine) is None:
        found.append(option("batch", 64))
    if found:
        return f"What fits: {', or '.join(found)}."
    bits = _bits_that_fit(e, machine)
    if bits >= 1.5:
        return f"Take a smaller quantisation: {bits:.1f} bits a weight fit (this one has {_bits(e):.1f})."
    return "No quantisation of this model fits this machine: take a smaller model."


def _bits(e: Estimate) -> float:
    return 8 * e.weights / max(1, e.info.n_params)


def _bits_that_fit(e: Estimate, machine: Machine) -> float:
    smallest = e.replace(ctx=min(e.options.ctx, 2048), cells=None, n_seq=1, type_k="q8_0", type_v="q8_0")
    room = machine.ram_total - smallest.private
    if smallest.private > machine.ram_available:
        return 0.0
    return 8 * room / max(1, e.info.n_params)


def _largest(e: Estimate, machine: Machine, limit: int) -> int:
    """Return the longest context, a multiple of 256 up to `limit`, that fits; 0 if none does.

    One that leaves the weights in memory too, where there is such a one. Cells grow with the context.
    """
    o = e.options
    for easy in (True, False):
        low, high = 0, max(1, limit // 256)
        while low < high:
            middle = (low + high + 1) // 2
            ctx = 256 * middle
            tried = e.replace(ctx=ctx, cells=None if o.cells is None else ctx * o.cells // o.ctx)
            fits = _problem(tried, machine) is None and not (easy and _notes(tried, machine))
            low, high = (middle, high) if fits else (low, middle - 1)
        if low:
            return 256 * low
    return 0


def affordable_cells(one: Estimate, machine: Machine, windows: int) -> int:
    """Return the KV cells for so many windows: one at least, the others in half of the RAM that it leaves.

    `one` is the estimate for one window.
    """
    window = one.options.ctx
    each = max(1, (one.replace(cells=2 * window).private - one.private) // window)
    left = max(0, machine.ram_available - _HEADROOM - one.private)
    return min(window * windows, window + left // 2 // each // 256 * 256)


def largest_context(least: Estimate, machine: Machine) -> int:
    """Return the context for `--ctx 0`: what the model was trained for, capped by what fits.

    A multiple of 256. `least` is the estimate for the shortest, 256 tokens. Leaves 512 MiB of RAM to the
    rest of the machine. Raises `FitError` where not even 256 tokens fit.
    """
    info = least.info
    trained = min(info.context_length, _CONTEXT_CAP) if info.context_length > 0 else 4096
    smaller = replace(machine, ram_available=max(0, machine.ram_available - _HEADROOM))
    found = _largest(least, smaller, max(256, trained))
    if not found:
        check(least, machine)
    return max(256, min(found, round_context(trained)))
