"""`%llama connect`: a server in place of a file, and the card of what holds there."""

from __future__ import annotations

from typing import Any

from llama_magic import display
from llama_magic.magics._kernel import Kernel
from llama_magic.magics._parse import LineCommand
from llama_magic.remote.connection import connect


def connect_verb(kernel: Kernel, command: LineCommand) -> Any:
    """Connect, make the model current, and show its card."""
    model = connect(command.words[0] if command.words else None, **command.options)
    try:
        kernel.session.keep(model, command.options.get("name"))
    except BaseException:
        model.close()
        raise
    display.show(model.card, kernel.shell)
    return kernel.mark_shown(model)
