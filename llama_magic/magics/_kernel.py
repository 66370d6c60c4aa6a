"""What a command asks of the kernel that it runs in: shell, session, model, defaults, the cell at work.

The verbs and modes take a `Kernel`; nothing here knows of them, or of the magics object, whose traits are
read as plain attributes. It is imported when the extension is loaded, so weight stays inside functions.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import FrameType
from typing import TYPE_CHECKING, Any

from llama_magic.words.counting import counted
from llama_magic.words.shown import Shown

if TYPE_CHECKING:
    from llama_magic.model.model import Model
    from llama_magic.session.session import Session

SAMPLING_TRAITS = ("temperature", "top_k", "top_p", "min_p", "repeat_penalty")
CALL_TRAITS = ("max_tokens", "seed", "overflow")
_CALLER: ContextVar[FrameType | None] = ContextVar("caller", default=None)


class Kernel:
    """One IPython shell and what its commands share.

    `settings` holds `%config`'s values as attributes: `model`, `ctx`, `display`, `quiet`, and those that
    `SAMPLING_TRAITS` and `CALL_TRAITS` name; None means that the user set nothing.
    """

    def __init__(self, shell: Any, settings: Any) -> None:
        self.shell = shell
        self.settings = settings
        self._shown: tuple[Any, Any] | None = None  # (run of a cell, result)
        self._where = ""  # in words
        self._turns: tuple[Any, int] = (None, 0)  # (run of a cell, chat turns in it)

    @property
    def namespace(self) -> dict[str, Any]:
        """The user's variables; over them those of the function or script (`%run`) that calls the magic."""
        caller = _CALLER.get()
        own = self.shell.user_ns if caller is None else caller.f_locals
        return self.shell.user_ns if own is self.shell.user_ns else {**self.shell.user_ns, **own}

    def bind(self, name: str, value: Any) -> None:
        """Bind a variable of the user's, and of the script that calls the magic."""
        self.shell.push({name: value})
        caller = _CALLER.get()
        if (
            caller is not None and caller.f_globals.get("__name__") == "__main__"
        ):  # a script has globals of its own
            caller.f_globals[name] = value

    @property
    def session(self) -> Session:
        """The kernel's models, chats and history."""
        from llama_magic.session import session  # weight: 35 ms, and the extension loads in under 100

        return session.current(self.shell)

    def get_model(self, name: Model | str | None = None) -> Model:
        """Return the named or current model; one that is not loaded yet is loaded, with progress.

        A model, which a variable on the line held, is that one.
        """
        if name is not None and not isinstance(name, str):
            return name
        session = self.session
        session.refresh()
        if name in session.models or (name is None and session.current_name is not None):
            return session.model(name)
        from llama_magic import display  # weight: 40 ms, for the first cell that loads

        with display.LoadProgress(self.shell) as progress:
            if name is None:
                source = self.settings.model or None
                return session.load(source, progress=progress, **self.load_defaults(source))
            return session.model(name, progress=progress, **self.load_defaults(name))

    # --- what %config and %llama sampler set ---

    def load_defaults(self, source: str | None) -> dict[str, Any]:
        """Return the load options that %config sets, and that what is loaded, an alias, does not."""
        from llama_magic import sources  # weight: only what loads needs it

        set_ = self.settings.ctx is not None and "ctx" not in sources.meaning(source).options
        return {"ctx": self.settings.ctx} if set_ else {}

    def sampling_defaults(self) -> dict[str, Any]:
        """Return the sampling parameters that %config, and over it `%llama sampler`, set."""
        return self._set(SAMPLING_TRAITS) | self.session.sampler

    def call_defaults(self) -> dict[str, Any]:
        """Return the other generation options that %config sets."""
        return self._set(CALL_TRAITS)

    def _set(self, names: tuple[str, ...]) -> dict[str, Any]:
        values = {name: getattr(self.settings, name) for name in names}
        return {name: value for name, value in values.items() if value is not None}

    # --- the cell at work ---

    def cell_key(self) -> str | None:
        """Return the identity of the running notebook cell, None in a terminal.

        A second chat turn from the same run of the same cell (a loop over `run_cell_magic`)
        is a turn of its own: `id`, `id#2`, …
        """
        identity, run = cell_identity(self.shell), _run_of_a_cell(self.shell)
        if identity is None:
            return None
        again = run is not None and self._turns[0] is run
        self._turns = (run, self._turns[1] + 1 if again else 1)
        return identity if self._turns[1] == 1 else f"{identity}#{self._turns[1]}"

    # --- a result that was shown while it ran is not shown again as Out[n] ---

    def mark_shown(self, result: Any, *, quiet: bool = False) -> Any:
        """Return `result`, which the display hook of this cell will then keep but not show.

        `quiet`: it was shown nowhere, as `-q` asks for.
        """
        self._shown = (_run_of_a_cell(self.shell), result)
        self._where = "not shown" if quiet else "shown above"
        return result

    def was_shown(self, result: Any) -> bool:
        """Say whether this run of the cell has shown a result already."""
        run, shown = self._shown or (None, None)
        return shown is result and run is _run_of_a_cell(self.shell)

    def mute_shown_results(self) -> None:
        """Teach the shell's formatter to pass over a result that stands in the output already."""
        self.shell.display_formatter.ipython_display_formatter.for_type(Shown, self._display)

    def unmute_results(self) -> None:
        """Undo `mute_shown_results`."""
        self.shell.display_formatter.ipython_display_formatter.pop(Shown, None)

    def _display(self, result: Any) -> None:
        run, shown = self._shown or (None, None)
        if not _hook_is_at_work(self.shell) or shown is not result or run is not _run_of_a_cell(self.shell):
            raise NotImplementedError  # IPython's word for "go on with the other formatters"
        self._shown = None
        if not hasattr(self.shell, "kernel"):  # a terminal has written "Out[n]: " already
            print(_in_short(result, self._where))


@contextmanager
def called_by(frame: FrameType | None) -> Iterator[None]:
    """Let the first frame from here on that is the user's be where the magic is called."""
    while frame is not None and str(frame.f_globals.get("__name__")).startswith(("IPython.", "llama_magic.")):
        frame = frame.f_back
    token = _CALLER.set(frame)
    try:
        yield
    finally:
        _CALLER.reset(token)


def cell_identity(shell: Any) -> str | None:
    """Return the front end's id of the running cell: JupyterLab, VS Code, Colab, or `run_cell(cell_id=…)`."""
    info = getattr(_run_of_a_cell(shell), "info", None)
    if identity := getattr(info, "cell_id", None):
        return str(identity)
    if not hasattr(shell, "get_parent"):
        return None
    from llama_magic.display import hosts  # weight: 40 ms, and a cell that runs shows its answer anyway

    return hosts.cell_in(shell.get_parent() or {})


def _run_of_a_cell(shell: Any) -> Any:
    """Return the `ExecutionResult` of the running cell: one object a run; None outside of a run."""
    return getattr(shell.displayhook, "exec_result", None)


def _hook_is_at_work(shell: Any) -> bool:
    """Tell the display hook's own call from a `display(result)` of the user, who wants to see it again."""
    hook = shell.displayhook
    if sys.displayhook is not hook:
        return True  # %%capture puts another one in its place
    return bool(getattr(hook, "is_active", False) or getattr(hook, "msg", None))  # IPython's, ipykernel's


def _in_short(result: Any, where: str) -> str:
    if isinstance(result, list):
        return f"{len(result)} completions, {where}"
    if hasattr(result, "stages"):
        return f"SamplerTrace, {where}"
    if not hasattr(result, "usage"):
        brief = repr(result)
        return brief if brief.startswith("<") else f"{type(result).__name__}, {where}"
    usage = result.usage
    return f"Completion, {where}: {counted(usage.completion_tokens, 'token')}, {result.finish_reason}"
