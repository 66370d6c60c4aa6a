"""An IPython extension as `llama_magic` is one: two lazy imports."""

from __future__ import annotations

from typing import Any


def load_ipython_extension(ipython: Any) -> None:
    from llama_magic.magics import register

    register(ipython)


def unload_ipython_extension(ipython: Any) -> None:
    from llama_magic.magics import unregister

    unregister(ipython)
