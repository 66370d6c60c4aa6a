"""Tools: functions that a model may call, how a call is asked for, and the turns in which it happens."""

from __future__ import annotations

ROUNDS = 8  # of tool calls in one call of a model, unless it says otherwise
