"""The magics object: traits for `%config`, and the two magics, each one parse and one call.

It is all that loading the extension imports, so what only a command needs is imported there.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from IPython.core import magic as _magic
from traitlets import Bool, Enum, Float, Int, Unicode, observe

from llama_magic.errors import shown_briefly
from llama_magic.magics import _help
from llama_magic.magics._options import FORMATS, MODES, OVERFLOW, VERBS
from llama_magic.words.counting import counted
from llama_magic.words.shown import Shown

if TYPE_CHECKING:
    from llama_magic.session.session import Session

ipython: Any = _magic  # its decorators are not typed for methods
_MAX_SEED = 0xFFFFFFFE  # engine.sampling.MAX_SEED, which is not imported at load
_SAMPLING_TRAITS = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty")
_CALL_TRAITS = ("max_tokens", "seed", "overflow")


@ipython.magics_class
class LlamaMagics(_magic.Magics):
    """Defaults of %llama and %%llama. None: what the model file says, else llama.cpp's default."""

    model = Unicode("", help="Source to load when none is named; empty: the demo model.").tag(config=True)
    ctx = Int(
        None, allow_none=True, min=0, help="Context window in tokens of models loaded from now on."
    ).tag(config=True)
    max_tokens = Int(None, allow_none=True, min=1, help="Longest answer, in tokens.").tag(config=True)
    temperature = Float(None, allow_none=True, help="Sampling temperature; 0 is greedy.").tag(config=True)
    top_k = Int(None, allow_none=True, min=-1, help="Keep the k likeliest tokens; 0: all.").tag(config=True)
    top_p = Float(None, allow_none=True, min=0, max=1, help="Keep the likeliest tokens up to this mass.").tag(
        config=True
    )
    min_p = Float(
        None, allow_none=True, min=0, max=1, help="Drop tokens below this share of the likeliest."
    ).tag(config=True)
    repeat_penalty = Float(None, allow_none=True, min=0, help="Penalty on repeated tokens; 1: off.").tag(
        config=True
    )
    seed = Int(
        None,
        allow_none=True,
        min=0,
        max=_MAX_SEED,
        help="Seed of every answer; None: one is drawn each time.",
    ).tag(config=True)
    overflow = Enum(OVERFLOW, "error", help="What to do when prompt and answer exceed the window.").tag(
        config=True
    )
    display = Enum(FORMATS, "auto", help="How answers are shown; the same values as --format.").tag(
        config=True
    )
    quiet = Bool(False, help="Show nothing while a cell runs and nothing after.").tag(config=True)

    def __init__(self, shell: Any = None, **kwargs: Any) -> None:
        super().__init__(shell, **kwargs)
        self._shown: tuple[Any, Any] | None = None  # (run of a cell, result)
        self._turns: tuple[Any, int] = (None, 0)  # (run of a cell, chat turns in it)

    @ipython.no_var_expand  # type: ignore[untyped-decorator]
    @ipython.line_magic("llama")  # type: ignore[untyped-decorator]
    def llama_line(self, line: str) -> Any:
        with shown_briefly(f"%llama {line.split(maxsplit=1)[0] if line.strip() else ''}".strip()):
            return self._line(line)

    def _line(self, line: str) -> Any:
        from llama_magic.magics._parse import parse_line

        command = parse_line(line)
        if command.help:
            print(_help.verb_help(VERBS[command.verb]) if command.verb else _help.line_help())
            return None
        from llama_magic.magics._verbs import run_verb

        result = run_verb(self, command)
        return None if command.silent else result

    @ipython.no_var_expand  # type: ignore[untyped-decorator]
    @ipython.cell_magic("llama")  # type: ignore[untyped-decorator]
    def llama_cell(self, line: str, cell: str) -> Any:
        with shown_briefly("%%llama"):
            return self._cell(line, cell)

    def _cell(self, line: str, cell: str) -> Any:
        from llama_magic.magics._parse import parse_cell

        command = parse_cell(line)
        if command.help:
            print(_help.mode_help(MODES[command.mode]))
            return None
        from llama_magic.magics._modes import run_mode

        return run_mode(self, command, cell)

    # --- what the commands ask of the kernel ---

    @property
    def host(self) -> Any:
        """The IPython shell."""
        return self.shell

    @property
    def session(self) -> Session:
        """The kernel's models, chats and history."""
        from llama_magic.session import session

        return session.current(self.shell)

    def get_model(self, name: str | None = None) -> Any:
        """Return the named or current model; one that is not loaded yet is loaded, with progress."""
        session = self.session
        session.refresh()
        if name in session.models or (name is None and session.current_name is not None):
            return session.model(name)
        from llama_magic import display

        with display.load_progress(self.shell) as progress:
            if name is None:
                return session.load(self.model or None, progress=progress, **self.load_defaults())
            return session.model(name, progress=progress, **self.load_defaults())

    def load_defaults(self) -> dict[str, Any]:
        """Return the load options that %config sets."""
        return {} if self.ctx is None else {"ctx": self.ctx}

    def sampling_defaults(self) -> dict[str, Any]:
        """Return the sampling parameters that %config, and over it `%llama sampler`, set."""
        values = {name: getattr(self, name) for name in _SAMPLING_TRAITS if getattr(self, name) is not None}
        return values | self.session.sampler

    def call_defaults(self) -> dict[str, Any]:
        """Return the other generation options that %config sets."""
        return {name: getattr(self, name) for name in _CALL_TRAITS if getattr(self, name) is not None}

    def cell_key(self) -> str | None:
        """Return the identity of the running notebook cell, None in a terminal.

        A second chat turn from the same run of the same cell (a loop over `run_cell_magic`)
        is a turn of its own: `id`, `id#2`, …
        """
        identity, run = _cell_identity(self.shell), _run_of_a_cell(self.shell)
        if identity is None:
            return None
        again = run is not None and self._turns[0] is run
        self._turns = (run, self._turns[1] + 1 if again else 1)
        return identity if self._turns[1] == 1 else f"{identity}#{self._turns[1]}"

    # --- a result that was shown while it ran is not shown again as Out[n] ---

    def mark_shown(self, result: Any) -> Any:
        """Return `result`, which the display hook of this cell will then keep but not show."""
        self._shown = (_run_of_a_cell(self.shell), result)
        return result

    def mute_shown_results(self) -> None:
        """Teach the shell's formatter to pass over a result that stands in the output already."""
        formatter = self.host.display_formatter.ipython_display_formatter
        formatter.for_type(Shown, self._display)

    def unmute_results(self) -> None:
        """Undo `mute_shown_results`."""
        formatter = self.host.display_formatter.ipython_display_formatter
        formatter.pop(Shown, None)

    def _display(self, result: Any) -> None:
        run, shown = self._shown or (None, None)
        if not _hook_is_at_work(self.shell) or shown is not result or run is not _run_of_a_cell(self.shell):
            raise NotImplementedError  # IPython's word for "go on with the other formatters"
        self._shown = None
        if not hasattr(self.shell, "kernel"):  # a terminal has written "Out[n]: " already
            print(_in_short(result))

    @observe("model")
    def _model_changed(self, change: Any) -> None:
        # The latest word wins: the next cell takes the new default, loading it where needed.
        name = change["new"] or None
        if self.shell is not None and name is not None:
            self.session.current_name = name if name in self.session.models else None

    @observe(*_SAMPLING_TRAITS)
    def _sampling_changed(self, change: Any) -> None:
        if self.shell is not None:
            self.session.sampler.pop(change["name"], None)


def _run_of_a_cell(shell: Any) -> Any:
    """Return the `ExecutionResult` of the running cell: one object a run; None outside of a run."""
    return getattr(shell.displayhook, "exec_result", None)


def _hook_is_at_work(shell: Any) -> bool:
    """Tell the display hook's own call from a `display(result)` of the user, who wants to see it again."""
    hook = shell.displayhook
    if sys.displayhook is not hook:
        return True  # %%capture puts another one in its place
    return bool(getattr(hook, "is_active", False) or getattr(hook, "msg", None))  # IPython's, ipykernel's


def _cell_identity(shell: Any) -> str | None:
    """Return the front end's id of the running cell: JupyterLab, VS Code, Colab, or `run_cell(cell_id=…)`."""
    info = getattr(_run_of_a_cell(shell), "info", None)
    if identity := getattr(info, "cell_id", None):
        return str(identity)
    if not hasattr(shell, "get_parent"):
        return None
    metadata = (shell.get_parent() or {}).get("metadata") or {}
    colab = metadata.get("colab")
    nested = colab.get("cell_id") if isinstance(colab, dict) else None
    identity = metadata.get("cellId") or metadata.get("colab.cell_id") or nested
    return str(identity) if identity else None


def _in_short(result: Any) -> str:
    if isinstance(result, list):
        return f"{len(result)} completions, shown above"
    if hasattr(result, "stages"):
        return "SamplerTrace, shown above"
    if not hasattr(result, "usage"):
        return repr(result)
    usage = result.usage
    return f"Completion, shown above: {counted(usage.completion_tokens, 'token')}, {result.finish_reason}"


LlamaMagics.llama_line.__doc__ = _help.line_help()
LlamaMagics.llama_cell.__doc__ = _help.cell_help()
