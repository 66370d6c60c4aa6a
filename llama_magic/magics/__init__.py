"""`%llama` and `%%llama`: parse a line, make one call on the Python API, show what comes back.

Importing this package and registering the magics costs a few milliseconds: no llama.cpp,
no widgets, no numpy. Everything else is imported by the first command that needs it.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llama_magic.magics._magics import LlamaMagics

__all__ = ["reference_markdown", "register", "unregister"]

# The magics object holds %config's values, so a reload must find the same one again.
_known: weakref.WeakKeyDictionary[Any, LlamaMagics] = weakref.WeakKeyDictionary()
_HOOK_KEYS = ("%llama", "%%llama")
# What verbs and modes give back; `display.install` looks after the results of generations.
_RESULTS = (
    ("llama_magic.model", "Model"),
    ("llama_magic.loading", "DryRun"),
    ("llama_magic.choosing", "Comparison"),
    ("llama_magic.planning", "Plan"),
    ("llama_magic.tokens", "TokenStrip"),
    ("llama_magic.gguf._info", "GGUFInfo"),
)


def register(ipython: Any) -> None:
    """Add the magics and their tab completion to an IPython shell; a second call changes nothing."""
    from llama_magic import display
    from llama_magic.magics._magics import LlamaMagics

    magics = _known.get(ipython)
    if magics is None:
        magics = _known[ipython] = LlamaMagics(shell=ipython, parent=ipython)
    if magics not in ipython.configurables:
        ipython.configurables.append(magics)
    ipython.register_magics(magics)
    magics.mute_shown_results()
    display.install(ipython)
    for module, name in _RESULTS:
        ipython.display_formatter.mimebundle_formatter.for_type_by_name(module, name, _bundle)
    _remove_hooks(ipython)
    for key in _HOOK_KEYS:
        ipython.set_hook("complete_command", _on_tab, str_key=key)


def unregister(ipython: Any) -> None:
    """Take the magics out of the shell again; the session with its models stays."""
    from llama_magic import display

    magics: Any = _known.get(ipython)
    if magics is None:
        return
    manager = ipython.magics_manager
    for kind in ("line", "cell"):
        if getattr(manager.magics[kind].get("llama"), "__self__", None) is magics:
            del manager.magics[kind]["llama"]
    manager.registry.pop(type(magics).__name__, None)
    if magics in ipython.configurables:
        ipython.configurables.remove(magics)
    magics.unmute_results()
    display.uninstall(ipython)
    for module, name in _RESULTS:
        ipython.display_formatter.mimebundle_formatter.pop(f"{module}.{name}", None)
    _remove_hooks(ipython)


def reference_markdown() -> str:
    """Return the tables of verbs, modes and options as Markdown, for README."""
    from llama_magic.magics._help import reference_markdown as render

    return render()


def _bundle(obj: Any, include: Any = None, exclude: Any = None) -> dict[str, Any]:
    from llama_magic.magics._card import bundle

    return bundle(obj)


def _on_tab(shell: Any, event: Any) -> list[str]:
    from llama_magic.magics._complete import complete_hook

    return complete_hook(shell, event)


def _remove_hooks(ipython: Any) -> None:
    dispatch = ipython.strdispatchers.get("complete_command")
    for key in _HOOK_KEYS:
        if dispatch is not None:
            dispatch.strs.pop(key, None)
