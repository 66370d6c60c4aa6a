"""An interrupt ends a cell of ours with a quiet line, and still stops the cells behind it."""

from __future__ import annotations

import re
from typing import Any

from llama_magic.display import hosts
from llama_magic.display.bundle import both
from llama_magic.display.static.doc import Line
from llama_magic.errors import GenerationInterrupted

_OURS = re.compile(r"\s*%(?:%llama\b|llama\b[^\n]*\s*\Z)")  # a cell of which the magic is all


def end_quietly(shell: Any, stop: GenerationInterrupted) -> bool:
    """End a notebook's cell that a person stopped: a line says what is kept. False: it is to be raised.

    An error that is raised makes a red box. What stops *Run All* is another thing, the kernel's reply, and
    that is made of the run's result; so the result gets the error. It must be raised where more code of the
    cell would run, and where nobody looks.
    """
    run = getattr(getattr(shell, "displayhook", None), "exec_result", None)
    if run is None or hosts.host(shell) != "live" or not _OURS.match(run.info.raw_cell or ""):
        return False
    run.error_in_exec = stop
    hosts.publish(shell, both([Line(f"Interrupted: {stop.words}.", dim=True)]))
    return True
