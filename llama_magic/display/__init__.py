"""Everything that people see: live and static views, terminals, the prompt pad.

Each thing is described once (`views`), as a few kinds of node (`doc`), and written as HTML,
Markdown and plain text. Widgets and IPython are imported on use only.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from llama_magic.display.live.progress import LoadProgress, load_progress
    from llama_magic.display.live.stream import show_stream
    from llama_magic.display.static.bundle import Format as Format
    from llama_magic.display.static.bundle import mimebundle, saved_receipt, to_html, to_markdown, to_text
    from llama_magic.words.harmless import blanks_shown, escaped, one_line, visible
    from llama_magic.words.tables import Share, Table

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
    "Format": "display.static.bundle",
    "LoadProgress": "display.live.progress",
    "Share": "words.tables",
    "Table": "words.tables",
    "blanks_shown": "words.harmless",
    "escaped": "words.harmless",
    "load_progress": "display.live.progress",
    "mimebundle": "display.static.bundle",
    "one_line": "words.harmless",
    "saved_receipt": "display.static.bundle",
    "show_stream": "display.live.stream",
    "to_html": "display.static.bundle",
    "to_markdown": "display.static.bundle",
    "to_text": "display.static.bundle",
    "visible": "words.harmless",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that loading the extension stays quick."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f"llama_magic.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


_SHOWN = (
    ("llama_magic.model.results", "Completion"),
    ("llama_magic.model.results", "Budget"),
    ("llama_magic.session.history", "HistoryEntry"),
    ("llama_magic.request.sampling", "Sampling"),
)


def show(obj: Any, shell: Any = None, format: Format = "auto") -> None:
    """Publish `obj` as a static output; print its text where there is no IPython."""
    from llama_magic.display import hosts
    from llama_magic.display.static import bundle

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
    from llama_magic.display.boards.pad import Pad

    return Pad(model, **options)


def live_trace(trace: Any) -> Any:
    """Return the live view of a `SamplerTrace`: sliders that run its chain again at every move.

    Where no widget can be shown that is said, and the trace itself comes back.
    """
    from llama_magic.display import hosts

    if why := hosts.no_widgets(hosts.current_shell()):
        print(f"The trace is not live here: {why}.")
        return trace
    from llama_magic.display.boards.trace import LiveTrace

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
    from llama_magic.display.static import bundle

    return bundle.mimebundle(obj)
