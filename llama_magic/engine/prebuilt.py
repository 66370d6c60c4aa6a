"""The extra `[prebuilt]`: llama.cpp's library out of the package llama-cpp-py-sync, so that nothing is built.

It is used where llama-cpp-python was installed without a library of its own, and only the one release
whose library is of the llama.cpp that llama-cpp-python's structs describe. Others load just as well and
then read fields at the wrong places. So version and digest are pinned, and a child process reads the
default parameters through the structs before this process loads anything.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from llama_magic import sources
from llama_magic.engine import build
from llama_magic.errors import BackendError

PACKAGE, VERSION = "llama-cpp-py-sync", "0.11227"
OWN = "llama-cpp-python's own"
_MODULE = "llama_cpp_py_sync"
_GLIBC = (2, 38)  # of Ubuntu 24.04, where the library for Linux was built; the wheel's tag says 2.17
# SHA-256 over names and contents of the libraries, see `digest`.
DIGESTS = {
    ("linux", "x86_64"): "cbc8aeedb52aa6f379a6c57143f6be5a38cd56a3748a2d9fab07d00cf7a08320",
    ("darwin", "arm64"): "6bd77def601b3954968601acf1e66a39469eb0f6f880dd778378aa96518ddc24",
    ("win32", "AMD64"): "77e87a318e9a25b8ae171500558398686080f49b32b6286f4b900f1327708acf",
}
_ENDINGS = (".so", ".dylib", ".dll")
_VARIABLE = "LLAMA_CPP_LIB_PATH"  # llama_cpp looks there instead of in its own folder
# What llama.cpp sets in its default parameters; every field that is not named here is 0, False or NULL.
_CONTEXT = {
    "n_ctx": 512, "n_batch": 2048, "n_ubatch": 512, "n_seq_max": 1, "n_outputs_max_per_seq": 1,
    "n_threads": 4, "n_threads_batch": 4, "rope_scaling_type": -1, "pooling_type": -1,
    "attention_type": -1, "flash_attn_type": -1, "yarn_ext_factor": -1.0, "yarn_attn_factor": -1.0,
    "yarn_beta_fast": -1.0, "yarn_beta_slow": -1.0, "defrag_thold": -1.0, "type_k": 1, "type_v": 1,
    "offload_kqv": True, "no_perf": True, "op_offload": True, "swa_full": True,
}  # fmt: skip
_MODEL = {"n_gpu_layers": -1, "split_mode": 1, "load_mode": -1, "lazy_mode": 1, "use_extra_bufts": True}
KNOWN: dict[str, Mapping[str, Any]] = {"context": _CONTEXT, "model": _MODEL}

_CHILD = """
import json, llama_cpp, llama_cpp.llama_cpp_ext
found = {}
for kind in ("context", "model"):
    values = getattr(llama_cpp, f"llama_{kind}_default_params")()
    pairs = {name: getattr(values, name) for name, *_ in values._fields_}
    found[kind] = {name: value for name, value in pairs.items() if isinstance(value, (int, float))}
print("found " + json.dumps(found))
"""


def choose() -> None:
    """Let `llama_cpp` load the prebuilt library where llama-cpp-python has none of its own.

    To be called before `llama_cpp` is imported. Raises `BackendError` where there is no library that fits.
    """
    if _VARIABLE in os.environ or "llama_cpp" in sys.modules or _has_own():
        return
    os.environ[_VARIABLE] = str(_checked())


def origin() -> str:
    """Say where the library in use comes from."""
    chosen = os.environ.get(_VARIABLE)
    if chosen is None:
        return OWN
    folder = _folder(_MODULE)
    if folder is not None and Path(chosen) == folder:
        return f"{PACKAGE} {VERSION}, prebuilt"
    return f"the environment's {_VARIABLE}"


def digest(folder: Path) -> str:
    """Return one SHA-256 over the names and contents of a folder's libraries."""
    total = hashlib.sha256()
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.endswith(_ENDINGS) or ".so." in path.name:
            total.update(f"{path.name} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return total.hexdigest()


def differing(found: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Name the default parameters that are not llama.cpp's, as `context.n_ctx is 0, expected 512`."""
    return [
        f"{kind}.{name} is {value}, expected {KNOWN[kind].get(name, 0)}"
        for kind, values in found.items()
        for name, value in values.items()
        if value != KNOWN[kind].get(name, 0)
    ]


def misfit(system: str, machine: str, libc: tuple[str, str]) -> str:
    """Say why no prebuilt library is for a system; empty where one is.

    The arguments are `sys.platform`, `platform.machine()` and `platform.libc_ver()`.
    """
    if (system, machine) not in DIGESTS:
        known = ", ".join(" ".join(pair) for pair in DIGESTS)
        return f"it has no library for {system} {machine} (only for {known})"
    if system == "linux" and (libc[0] != "glibc" or _numbers(libc[1]) < _GLIBC):
        here = " ".join(libc).strip() or "another C library"
        return f"its library needs glibc {_GLIBC[0]}.{_GLIBC[1]} or newer, and this system has {here}"
    return ""


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdigit())


def _folder(module: str) -> Path | None:
    """Return where a package lies, without importing it."""
    spec = importlib.util.find_spec(module)
    places = list(spec.submodule_search_locations or ()) if spec is not None else []
    return Path(places[0]) if places else None


def _has_own() -> bool:
    bindings = _folder("llama_cpp")
    # Not installed at all: the import says so better than this module could.
    return bindings is None or any((bindings / "lib").glob("*llama.*"))


def _checked() -> Path:
    folder = _folder(_MODULE)
    if folder is None:
        raise BackendError(
            "llama-cpp-python was installed without llama.cpp's library, and no prebuilt one is here.",
            remedy=f'pip install "llama-magic[prebuilt]". Or build it: {_build()}',
        )
    version = importlib.metadata.version(PACKAGE)
    if version != VERSION:
        raise _refused(f"only {VERSION} is of the llama.cpp that llama-cpp-python describes", version)
    if why := misfit(sys.platform, platform.machine(), platform.libc_ver()):
        raise _refused(why)
    found = digest(folder)
    if found != DIGESTS[sys.platform, platform.machine()]:
        raise _refused(f"its libraries are not those that were published (digest {found[:16]})")
    _prove(folder, found)
    return folder


def _refused(why: str, version: str = VERSION) -> BackendError:
    return BackendError(f"{PACKAGE} {version} cannot be used here: {why}.", remedy=f"Build it: {_build()}")


def _build() -> str:
    return build.rebuild(build.processor_flags())


def _prove(folder: Path, found: str) -> None:
    """Read the default parameters in a child process; what has passed here once is remembered."""
    bindings = importlib.metadata.version("llama-cpp-python")
    seal = f"{bindings} {found} {platform.platform()} {platform.processor()}\n"
    memory = sources.cache_dir() / "prebuilt.txt"
    try:
        if memory.read_text(encoding="utf-8") == seal:
            return
    except (OSError, UnicodeDecodeError):
        pass  # never tried here
    if wrong := try_out(folder):
        raise _refused("; ".join(wrong[:3]))
    try:
        memory.parent.mkdir(parents=True, exist_ok=True)
        memory.write_text(seal, encoding="utf-8")
    except OSError:
        pass  # costs the child again in the next kernel, nothing more


def try_out(folder: Path) -> list[str]:
    """Load a library in a child process; return what is wrong with it (0.3 s)."""
    try:
        child = subprocess.run(
            [sys.executable, "-c", _CHILD],
            env={**os.environ, _VARIABLE: str(folder)},
            capture_output=True, text=True, errors="replace", timeout=60, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return ["a process that loads it does not end"]
    lines = child.stdout.splitlines()
    said = next((line[6:] for line in lines if line.startswith("found ")), None)
    if child.returncode or said is None:
        last: Iterable[str] = child.stderr.strip().splitlines()[-1:]
        return [f"a process that loads it ends with status {child.returncode}: {' '.join(last)}"]
    return differing(json.loads(said))
