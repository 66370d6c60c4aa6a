"""The magics object: traits for `%config`, and the two magics, each one parse and one call.

It is all that loading the extension imports, so what only a command needs is imported there.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from IPython.core import magic as _magic
from traitlets import Bool, Enum, Float, Int, TraitError, Unicode, observe, validate

from llama_magic.doors import Door, through
from llama_magic.errors import GenerationInterrupted, LlamaMagicError, shown_briefly
from llama_magic.magics import _help
from llama_magic.magics._kernel import SAMPLING_TRAITS, Kernel, called_by
from llama_magic.magics._options import FORMATS, MODES, OVERFLOW, VERBS
from llama_magic.magics._parse import parse_cell, parse_line
from llama_magic.magics._words import continued
from llama_magic.request.stages import MAX_SEED, PARAMETERS

ipython: Any = _magic  # its decorators are not typed for methods


@ipython.magics_class
class LlamaMagics(_magic.Magics):
    """Defaults of %llama and %%llama. None: what the model file says, else llama.cpp's default."""

    model = Unicode("", help="Source to load when none is named; empty: the demo model.").tag(config=True)
    ctx = Int(
        None, allow_none=True, min=0, help="Context window in tokens of models loaded from now on."
    ).tag(config=True)
    max_tokens = Int(None, allow_none=True, min=1, help="Longest answer, in tokens.").tag(config=True)
    # Their ranges are those of the sampling parameters: `_in_range`.
    temperature = Float(None, allow_none=True, help="Sampling temperature; 0 is greedy.").tag(config=True)
    top_k = Int(None, allow_none=True, help="Keep the k likeliest tokens; 0: all.").tag(config=True)
    top_p = Float(None, allow_none=True, help="Keep the likeliest tokens up to this mass.").tag(config=True)
    min_p = Float(None, allow_none=True, help="Drop tokens below this share of the likeliest.").tag(
        config=True
    )
    repeat_penalty = Float(None, allow_none=True, help="Penalty on repeated tokens; 1: off.").tag(config=True)
    seed = Int(
        None,
        allow_none=True,
        min=0,
        max=MAX_SEED,
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
        self.kernel = Kernel(shell, self)  # first: a config file's values are observed while they are set
        super().__init__(shell, **kwargs)

    @ipython.no_var_expand  # type: ignore[untyped-decorator]
    @ipython.line_magic("llama")  # type: ignore[untyped-decorator]
    def llama_line(self, line: str) -> Any:
        what = f"%llama {line.split(maxsplit=1)[0] if line.strip() else ''}".strip()
        return self._stoppable(what, lambda: self._line(line))

    @ipython.no_var_expand  # type: ignore[untyped-decorator]
    @ipython.cell_magic("llama")  # type: ignore[untyped-decorator]
    def llama_cell(self, line: str, cell: str) -> Any:
        return self._stoppable("%%llama", lambda: self._cell(line, cell))

    def _stoppable(self, what: str, run: Callable[[], Any]) -> Any:
        """Return what a magic does; an interrupt ends a notebook's cell with a line."""
        try:
            with shown_briefly(what), called_by(sys._getframe()), through(Door.MAGIC):
                return run()
        except LlamaMagicError as error:
            error.at(Door.MAGIC)
            raise
        except GenerationInterrupted as stop:
            from llama_magic.display.live.stopped import end_quietly  # weight: what shows results

            if not end_quietly(self.shell, stop):
                raise
            return None

    def _line(self, line: str) -> Any:
        command = parse_line(line, self.kernel.namespace)
        if command.help:
            print(_help.verb_help(VERBS[command.verb]) if command.verb else _help.line_help())
            return None
        from llama_magic.magics import _verbs  # weight: the session and what shows its results

        result = _verbs.run_verb(self.kernel, command)
        return None if command.silent else result

    def _cell(self, line: str, cell: str) -> Any:
        line, cell = continued(line, cell)
        command = parse_cell(line, self.kernel.namespace)
        if command.help:
            print(_help.mode_help(MODES[command.mode]))
            return None
        from llama_magic.magics import _modes  # weight: the session and what shows its results

        return _modes.run_mode(self.kernel, command, cell)

    @validate(*SAMPLING_TRAITS)
    def _in_range(self, proposal: Any) -> Any:
        """Refuse what no call would take: NaN, and what lies outside of the parameter's range."""
        name, value = proposal["trait"].name, proposal["value"]
        row = PARAMETERS[name]
        if value is not None and not row.low <= value <= row.high:
            raise TraitError(
                f"{name} is {value}; expected a number from {row.low:g} to {row.high:g}, or None."
            )
        return value

    @observe("model")
    def _model_changed(self, change: Any) -> None:
        # The latest word wins: the next cell takes the new default, loading it where needed.
        name = change["new"] or None
        if self.shell is not None and name is not None:
            session = self.kernel.session
            session.current_name = name if name in session.models else None

    @observe(*SAMPLING_TRAITS)
    def _sampling_changed(self, change: Any) -> None:
        if self.shell is not None:
            self.kernel.session.sampler.pop(change["name"], None)


LlamaMagics.llama_line.__doc__ = _help.line_help()
LlamaMagics.llama_cell.__doc__ = _help.cell_help()
