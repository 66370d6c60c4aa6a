"""Who is looking: a front end with widgets, a terminal, or nobody who can be asked.

There is no flag for it, so it is read from what each client was seen to send (ipykernel 7.4):

- JupyterLab, Notebook 7, VS Code send `cellId` in the request's metadata, Colab `colab.cell_id`;
  nbclient, nbval, papermill and Voilà send neither, and say that they take no input;
- `jupyter console` and the Qt console send no cell, and take input: they are terminals.
"""

from __future__ import annotations

import importlib.util
import sys
import uuid
import warnings
from typing import Any, Literal

Host = Literal["live", "terminal", "plain"]


def current_shell() -> Any:
    """Return IPython's shell, or `None`; never imports IPython."""
    module = sys.modules.get("IPython")
    return module.get_ipython() if module is not None else None


def host(shell: Any) -> Host:
    """Return how to show something that takes a while.

    `live`: a display that is updated. `terminal`: text as it grows. `plain`: one output, at the end.
    """
    if shell is None:
        return "terminal"
    if is_captured(shell):
        return "plain"
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return "terminal"
    parent = _request(kernel)
    if cell_in(parent) is not None:
        return "live"
    return "terminal" if (parent.get("content") or {}).get("allow_stdin") else "plain"


def is_captured(shell: Any) -> bool:
    """Return whether a cell's output goes into a variable (`%%capture`), where nothing is ever updated."""
    return type(shell.display_pub).__name__ == "CapturingDisplayPublisher"


def is_typed(shell: Any) -> bool:
    """Return whether cells are typed at a prompt, where a blank line ends a cell magic and stands in it.

    A notebook's cell has no such line, in whatever front end.
    """
    if getattr(shell, "kernel", None) is not None:
        return host(shell) == "terminal"
    return any(cls.__name__ == "TerminalInteractiveShell" for cls in type(shell).__mro__)


def cell(shell: Any) -> str | None:
    """Return the front end's id of the running cell, `None` where it sent none."""
    kernel = getattr(shell, "kernel", None)
    return None if kernel is None else cell_in(_request(kernel))


def run_number(shell: Any) -> int | None:
    """Return the `n` of the running cell's `In[n]`, `None` outside of a run."""
    run = getattr(getattr(shell, "displayhook", None), "exec_result", None)
    return getattr(run, "execution_count", None)


def cell_in(request: dict[str, Any]) -> str | None:
    """Return the id of the cell in a front end's request, `None` where it sent none."""
    metadata = request.get("metadata") or {}
    colab = metadata.get("colab")
    nested = colab.get("cell_id") if isinstance(colab, dict) else None
    found = metadata.get("cellId") or metadata.get("colab.cell_id") or nested
    return str(found) if found else None


def no_widgets(shell: Any) -> str:
    """Say why no widget can be shown here; empty where one can."""
    needs = "it needs a notebook with widgets (JupyterLab, Notebook 7, VS Code, Colab)"
    if importlib.util.find_spec("ipywidgets") is None:
        return f"{needs}, and ipywidgets is not installed here"
    reasons = {"terminal": "this is a terminal", "plain": "what runs this notebook shows none", "live": ""}
    reason = reasons[host(shell)]
    return f"{needs}, and {reason}" if reason else ""


def somebody_looks() -> bool:
    """Return whether this is shown to someone: what was measured has no place in what a batch run saves."""
    return host(current_shell()) != "plain"


def next_cell(source: str) -> None:
    """Have the shell offer source text as its next cell, where there is a shell."""
    shell = current_shell()
    if shell is not None:
        shell.set_next_input(source)


def _request(kernel: Any) -> dict[str, Any]:
    """Return the execute request that runs now (empty where the kernel is not ipykernel)."""
    get_parent = getattr(kernel, "get_parent", None)
    parent = get_parent("shell") if get_parent is not None else None
    return parent if isinstance(parent, dict) else {}


def say(text: str, out: Any = None) -> bool:
    """Write to standard output; return False where it does not take it, no reason to lose an answer."""
    try:
        out = sys.stdout if out is None else out
        out.write(text)
        out.flush()
    except Exception as error:  # a closed pipe, a full disk, none at all, an object of the user's
        warnings.warn(
            f"The output took no text ({type(error).__name__}: {error}). What was written is kept: "
            "an answer is in the history, and model.last.",
            RuntimeWarning,
            stacklevel=2,
        )
        return False
    return True


class Output:
    """An output that is brought up to date; it is `there` from the first `publish` on."""

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._display_id = uuid.uuid4().hex  # transient: it is not saved
        self.there = False

    def publish(self, bundle: dict[str, Any]) -> None:
        """Show a mimebundle, in place of the last one."""
        publish(self._shell, bundle, display_id=self._display_id, update=self.there)
        self.there = True


def publish(
    shell: Any, bundle: dict[str, Any], *, display_id: str | None = None, update: bool = False
) -> None:
    """Send a mimebundle to the display, or print its text where there is no shell."""
    if shell is None:
        say(bundle["text/plain"] + "\n")
        return
    transient = {"display_id": display_id} if display_id else {}
    shell.display_pub.publish(data=bundle, metadata={}, transient=transient, update=update)
