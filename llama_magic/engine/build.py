"""What the processor offers, what the build of llama.cpp uses of it, and the line that builds it anew.

Imports no `llama_cpp`, so that it can be asked where that one does not load.
"""

from __future__ import annotations

import importlib.metadata
import platform
from collections.abc import Iterable
from pathlib import Path

# llama.cpp's name of an instruction set, and the flags of /proc/cpuinfo that its code needs. An x86
# build takes each by a CMake option of the same name (ggml/src/ggml-cpu/CMakeLists.txt). AMX is not
# among them, and -march=native, which would switch it on (GGML_AMX_TILE=OFF does not reach that far),
# is not used: built by GCC 12 the kernels of AMX crash (ggml-org/llama.cpp#20824).
_X86 = {
    "AVX": "avx",
    "AVX2": "avx2",
    "F16C": "f16c",
    "FMA": "fma",
    "BMI2": "bmi2",
    "AVX_VNNI": "avx_vnni",
    "AVX512": "avx512f avx512cd avx512vl avx512dq avx512bw",
    "AVX512_VBMI": "avx512vbmi",
    "AVX512_VNNI": "avx512_vnni",
    "AVX512_BF16": "avx512_bf16",
}
_ARM = {
    "NEON": "asimd",
    "FP16_VA": "asimdhp",
    "DOTPROD": "asimddp",
    "MATMUL_INT8": "i8mm",
    "SVE": "sve",
}
_BASE = ("AVX", "AVX2", "F16C", "FMA", "BMI2")  # on in every x86 build with -DGGML_NATIVE=OFF

# One thread, CPU time, 5 alternating pairs of processes, an AVX2 build and one by `rebuild`'s options.
# Gemma 3 270M Q4_K_M: reads 367 and 570 tokens a second, writes 80 and 81. SmolLM2 135M Q4_1: reads 263
# and 253, writes 101 and 120.
AVX512_GAIN = (
    "Where measured, AVX-512 read prompts of Q4_K_M 1.5 times faster and wrote Q4_1 1.2 times faster."
)


def processor_flags(cpuinfo: Path = Path("/proc/cpuinfo")) -> frozenset[str]:
    """Return the instruction sets of this processor in Linux's words; empty where it does not say."""
    try:
        text = cpuinfo.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return frozenset()
    for line in text.splitlines():
        name, _, value = line.partition(":")
        if name.strip() in ("flags", "Features"):
            return frozenset(value.split())
    return frozenset()


def offered(flags: Iterable[str]) -> tuple[str, ...]:
    """Name, in llama.cpp's words, the instruction sets that a processor has and llama.cpp could use."""
    there = frozenset(flags)
    names = [name for name, needs in (_X86 | _ARM).items() if there.issuperset(needs.split())]
    if "AVX512_VNNI" in names and "AVX_VNNI" in names:
        names.remove("AVX_VNNI")  # the same instruction: llama.cpp takes either
    return tuple(names)


def used(features: str) -> frozenset[str]:
    """Read the names out of `llama_print_system_info`'s `CPU : AVX = 1 | AVX2 = 1 |`."""
    parts = (part.rpartition(":")[2].partition("=") for part in features.split("|"))
    return frozenset(name.strip() for name, _, value in parts if value.strip() not in ("", "0"))


def unused(features: str, flags: Iterable[str]) -> tuple[str, ...]:
    """Name what a build leaves unused of a processor.

    `features` is what `llama_print_system_info` says, `flags` what `processor_flags` says.
    """
    there = used(features)
    return tuple(name for name in offered(flags) if name not in there)


def rebuild(flags: Iterable[str]) -> str:
    """Return the shell line that builds llama.cpp for a processor with these flags, without AMX."""
    names = offered(flags)
    x86 = bool(_X86.keys() & names) if names else platform.machine() in ("x86_64", "AMD64")
    options = ["-DGGML_NATIVE=OFF" if x86 else "-DGGML_NATIVE=ON"]
    if x86:
        options += [f"-DGGML_{name}=ON" for name in names if name not in _BASE]
    version = importlib.metadata.version("llama-cpp-python")
    return (
        f'CMAKE_ARGS="{" ".join(options)}" pip install --force-reinstall --no-deps --no-cache-dir '
        f"--no-binary llama-cpp-python llama-cpp-python=={version}"
    )
