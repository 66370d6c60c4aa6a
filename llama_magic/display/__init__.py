"""Everything that people see: live and static views, terminals, the prompt pad.

Each thing is described once (`views`), as a few kinds of node (`doc`), and written as HTML,
Markdown and plain text. Widgets and IPython are imported on use only.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llama_magic.display.bundle import Format as Format
    from llama_magic.display.bundle import mimebundle, saved_receipt, to_html, to_markdown, to_text
    from llama_magic.display.escape import blanks_shown, escaped, one_line, visible
    from llama_magic.display.progress import LoadProgress, load_progress
    from llama_magic.display.stream import show_stream
    from llama_magic.display.table import Share, Table

__all__ = [
    "Format",
    "LoadProgress",
    "Share",
    "Table",
    "blanks_shown",
    "escaped",
    "install",
    "live_trace",
    "load_progress",
    "mimebundle",
    "one_line",
    "pad",
    "saved_receipt",
    "show",
    "show_live",
    "show_stream",
    "to_html",
    "to_markdown",
    "to_text",
    "uninstall",
    "visible",
]

_HOMES = {
    "Format": "bundle",
    "LoadProgress": "progress",
    "Share": "table",
    "Table": "table",
    "blanks_shown": "escape",
    "escaped": "escape",
    "load_progress": "progress",
    "mimebundle": "bundle",
    "one_line": "escape",
    "saved_receipt": "bundle",
    "show_stream": "stream",
    "to_html": "bundle",
    "to_markdown": "bundle",
    "to_text": "bundle",
    "visible": "escape",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that loading the extension stays quick."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


_SHOWN = (
    ("llama_magic.results", "Completion"),
    ("llama_magic.results", "Budget"),
    ("llama_magic.results", "HistoryEntry"),
    ("llama_magic.engine.sampling", "Sampling"),
)


def show(obj: Any, shell: Any = None, format: Format = "auto") -> None:
    """Publish `obj` as a static output; print its text where there is no IPython."""
    from llama_magic.display import bundle, hosts

    shell = shell if shell is not None else hosts.current_shell()
    hosts.publish(shell, bundle.mimebundle(obj, format))


def pad(model: Any, **options: Any) -> Any:
    """Return the prompt pad of a model: an ipywidgets box with text area, sliders, gauge, Run and Stop.

    Where no widget can be shown, that is said with what to do instead, and nothing is made (a runner
    such as nbclient would store the state of every widget in the notebook); then `None` comes back.
    """
    from llama_magic.display import hosts

    if why := hosts.no_widgets(hosts.current_shell()):
        print(f"There is no prompt pad here: {why}.\nWrite %%llama chat and the prompt below it instead.")
        return None
    from llama_magic.display.prompt_pad import Pad

    return Pad(model, **options)


def live_trace(trace: Any) -> Any:
    """Return the live view of a `SamplerTrace`: sliders that run its chain again at every move.

    Where no widget can be shown that is said, and the trace itself comes back.
    """
    from llama_magic.display import hosts

    if why := hosts.no_widgets(hosts.current_shell()):
        print(f"The trace is not live here: {why}.")
        return trace
    from llama_magic.display.trace_board import LiveTrace

    return LiveTrace(trace)


def show_live(trace: Any, shell: Any = None) -> None:
    """Show a trace's live view; where there can be none, one line that says why, and the trace."""
    made = live_trace(trace)
    if made is trace:
        show(trace, shell)
    else:
        made._ipython_display_()


def install(shell: Any) -> None:
    """Let IPython show our plain results (which know nothing of displays) when they end a cell."""
    formatter = shell.display_formatter.mimebundle_formatter
    for module, name in _SHOWN:
        formatter.for_type_by_name(module, name, _formatted)


def uninstall(shell: Any) -> None:
    """Take back what `install` registered."""
    formatter = shell.display_formatter.mimebundle_formatter
    for module, name in _SHOWN:
        formatter.pop(f"{module}.{name}", None)


def _formatted(obj: Any, include: Any = None, exclude: Any = None) -> dict[str, Any]:
    from llama_magic.display import bundle

    return bundle.mimebundle(obj)
