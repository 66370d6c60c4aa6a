"""`%llama verify` and `llama-magic verify`: the answers of a file, written again here."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from llama_magic import display, sources
from llama_magic.doors import Door
from llama_magic.errors import LlamaMagicError, OptionError
from llama_magic.experiments.verification import Verdict, Verification, verify
from llama_magic.magics import _help
from llama_magic.magics._kernel import Kernel
from llama_magic.magics._options import LOAD, MODEL, TIMEOUT
from llama_magic.magics._parse import LineCommand, parse_arguments
from llama_magic.magics._rows import Option, Verb
from llama_magic.words.amounts import duration
from llama_magic.words.progress import Progress
from llama_magic.words.screens import is_screen

_TAG = "llama-magic-verified"


def verify_verb(kernel: Kernel, command: LineCommand) -> Any:
    """Verify a file; without one the notebook at work, else the record that is kept, else the history."""
    options = dict(command.options)
    model = options.pop("model", None)
    of: Any = command.words[0] if command.words else _at_work(kernel)
    done: list[Verdict] = []
    with display.LoadProgress(kernel.shell) as progress:

        def told(verdict: Verdict, every: int) -> None:
            done.append(verdict)
            label = f"{len(done)} of {every} answers"
            progress(Progress("verify", round(100 * len(done) / every), 100, label, "%"))

        found = verify(of, model=model, told=told, **options)
        progress.done(found)  # takes the place of the progress bar, so Out[n] need not show it again
    return kernel.mark_shown(found)


def _at_work(kernel: Kernel) -> Any:
    path = os.environ.get("JPY_SESSION_NAME") or kernel.namespace.get("__vsc_ipynb_file__")
    if path and str(path).endswith(".ipynb") and os.path.isfile(path):
        return path
    if kernel.session.recording is not None:
        return kernel.session.recording.record
    if not len(kernel.session.history):
        raise OptionError(
            "There is nothing to verify: no notebook is known, and nothing was generated.",
            remedy="Write %llama verify NOTEBOOK, or the path of a record.",
        )
    return kernel.session.history


_COMMAND = Verb(
    "verify",
    "FILE…",
    "write the seeded answers of notebooks, records or exports of one again; exit status 1 if any differs",
    "an exit status",
    (Option(("--badge",), "flag", "leave a line under each notebook"), MODEL, TIMEOUT, *LOAD[1:]),
    least=1,
    most=10_000,
)


def command(arguments: Sequence[str]) -> int:
    """Verify files, say how each comes out; return 1 where an answer differs, 2 where a file is none."""
    asked = parse_arguments(_COMMAND, arguments)
    if asked.help:
        print(_help.verb_help(_COMMAND).replace("%llama", "llama-magic"))
        return 0
    options = dict(asked.options)
    badge, several, status = options.pop("badge", False), len(asked.words) > 1, 0
    for file in asked.words:
        try:
            status = max(status, _verify_file(file, badge, f"{file}: " * several, **options))
        except LlamaMagicError as error:  # one that cannot be read costs no other
            if not several:
                raise
            print(f"{file}: {error.at(Door.SHELL)}", file=sys.stderr)
            status = 2
    return status


def _verify_file(file: str, badge: bool, named: str, **options: Any) -> int:
    found = verify(file, told=_say, **options)
    print(named + (found.badge if found else display.to_text(found)))
    if found:
        print(found.beside, end="\n" * bool(found.beside), file=sys.stderr)
        print(f"it took {duration(found.seconds)}", file=sys.stderr)
    if badge:
        write_badge(Path(file), found)
    return 0 if found else 1


def _say(verdict: Verdict, every: int) -> None:
    """Print a line for an answer that is another here, as it comes."""
    if not verdict.equal and is_screen(sys.stderr):
        print(f"{verdict.where} of {every} is another here", file=sys.stderr, flush=True)


def write_badge(path: Path, found: Verification) -> None:
    """Leave one line under a notebook, in place of an earlier one. Raises `OptionError` for other files."""
    try:
        notebook = json.loads(sources.read_whole(path, "The notebook").decode("utf-8"))
        cells = notebook["cells"]
    except (ValueError, KeyError, TypeError):
        raise OptionError(f"{path} is no notebook, so no badge can stand under it.") from None
    cells[:] = [cell for cell in cells if _TAG not in cell.get("metadata", {}).get("tags", ())]
    badge = {"cell_type": "markdown", "metadata": {"tags": [_TAG]}, "source": [f"*{found.badge}*"]}
    if (notebook.get("nbformat", 4), notebook.get("nbformat_minor", 0)) >= (4, 5):
        badge["id"] = _TAG
    cells.append(badge)
    text = json.dumps(notebook, ensure_ascii=False, indent=1) + "\n"
    sources.write_whole(path, [text.encode("utf-8", "surrogatepass")], "The notebook")
