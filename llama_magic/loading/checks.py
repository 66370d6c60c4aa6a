"""What a load, and the first seeded answer after it, may ask of this machine."""

from __future__ import annotations

from llama_magic import fit
from llama_magic.doors import option
from llama_magic.engine.native.backend import supports_gpu
from llama_magic.errors import FitError, OptionError
from llama_magic.loading.options import ALL_LAYERS, LoadOptions
from llama_magic.words.amounts import size


def gpu_available(wanted: LoadOptions) -> bool:
    """Say whether layers can go to a GPU; asking for it on a build that cannot is an error."""
    available = supports_gpu()
    layers = "all" if wanted.gpu_layers == ALL_LAYERS else wanted.gpu_layers
    if wanted.gpu_layers not in (None, 0) and not available:
        raise OptionError(
            f"{option('gpu_layers', layers)} was asked for, but this llama.cpp has no GPU support.",
            remedy='Leave it out, or rebuild: CMAKE_ARGS="-DGGML_CUDA=on" (NVIDIA), "-DGGML_METAL=on" '
            '(Apple) or "-DGGML_VULKAN=on", then pip install --force-reinstall --no-cache-dir --no-binary '
            "llama-cpp-python llama-cpp-python==0.3.36",
        )
    return available


def room_for_seeded(need: int, *, on_gpu: bool) -> None:
    """Refuse the context for seeded answers where it would not fit."""
    machine = fit.machine()
    have = machine.vram_free if on_gpu and machine.gpus else machine.ram_available
    _must_fit("Answers with a seed have a context of their own, made at the first of them.", need, have)


def room_for_prompts(need: int) -> None:
    """Refuse the context in which prompts are read beside many answers; they are read among them then."""
    _must_fit("Prompts beside many answers have a context of their own.", need, fit.machine().ram_available)


def _must_fit(what: str, need: int, have: int) -> None:
    if need > have:
        raise FitError(
            f"{what} It needs {size(need)}, {size(need - have)} more than the {size(have)} there is.",
            remedy=f"Ask without a seed, unload another model, or load with a smaller {option('ctx')} or "
            f"with {option('kv_type', 'q8_0')}.",
        )
