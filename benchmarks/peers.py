"""Other libraries to compare with, each in an environment of its own under `build/peers`.

python benchmarks/peers.py [NAME …]       install them; all of them without a name
"""

from __future__ import annotations

import subprocess
import sys
import venv
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "build" / "peers"
# What to install; llama-cpp-python is built as our own was (CMAKE_ARGS of the Makefile).
PEERS: dict[str, tuple[str, ...]] = {
    "llama-cpp-python": ("llama-cpp-python==0.3.36",),
    "guidance": ("guidance", "llama-cpp-python==0.3.36"),
    "outlines": ("outlines", "llama-cpp-python==0.3.36"),
    "llama_cpp.server": ("llama-cpp-python[server]==0.3.36",),
    "xllamacpp": ("xllamacpp",),
    "gguf-py": ("gguf",),
    "serapeum-llama-cpp": ("serapeum-llama-cpp", "llama-cpp-python==0.3.36"),
}


def python(name: str) -> str:
    """Return the interpreter of a peer; a RuntimeError where it is not installed."""
    folder = FOLDER / name
    if not (folder / ".installed").exists():
        raise RuntimeError(f"not installed; python benchmarks/peers.py {name}")
    return str(folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python"))


def install(name: str) -> str:
    """Install a peer; return what went wrong, or an empty text."""
    folder = FOLDER / name
    if (folder / ".installed").exists():
        return ""
    venv.create(folder, with_pip=True)
    interpreter = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    command = [str(interpreter), "-m", "pip", "--disable-pip-version-check", "install", "--quiet"]
    done = subprocess.run([*command, *PEERS[name]], capture_output=True, text=True)
    if done.returncode:
        return (done.stderr.strip().splitlines() or ["pip failed"])[-1]
    (folder / ".installed").touch()
    return ""


if __name__ == "__main__":
    for wanted in sys.argv[1:] or PEERS:
        # One that cannot be installed here is left out of the tables, and named in them.
        print(f"{wanted}: {install(wanted) or 'installed'}", flush=True)
