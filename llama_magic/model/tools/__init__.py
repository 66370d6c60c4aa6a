"""Tools: functions that a model may call, how a call is asked for, and the turns in which it happens.

A `tool` is one function, described by its `docstring`; `offer` is what a call offers, `loop` the turns in
which tools are run.
"""

from __future__ import annotations

ROUNDS = 8  # of tool calls in one call of a model, unless it says otherwise
