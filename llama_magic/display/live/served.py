"""A server while it runs: its rows, brought up to date in the cell that began it; static at its end."""

from __future__ import annotations

import contextlib
from typing import Any

from llama_magic.display import hosts
from llama_magic.display.bundle import mimebundle
from llama_magic.serving.server import Server
from llama_magic.threads import Bell, of_the_cell, set_going

_PERIOD = 0.5  # seconds between updates, at least
_BUSY = 1.0  # and at most, while something is written


def show_server(server: Server, shell: Any = None) -> None:
    """Show a server; where displays can be updated, its rows as they change."""
    shell = shell if shell is not None else hosts.current_shell()
    where = hosts.host(shell)
    if where != "live":
        hosts.publish(shell, mimebundle(server))
        return
    output = hosts.Output(shell)
    output.publish(mimebundle(server))
    bell = Bell()
    server.log.changed = bell.ring
    set_going(of_the_cell(_follow, server, output, bell, name="llama_magic serving"))


def _follow(server: Server, output: hosts.Output, bell: Bell) -> None:
    while server.running:
        busy = any(not row.ended for row in server.log)
        if bell.wait(_BUSY if busy else 60.0) or busy:
            _update(server, output)
            server.ended.wait(_PERIOD)
    _update(server, output)


def _update(server: Server, output: hosts.Output) -> None:
    with contextlib.suppress(Exception):  # a page that is gone, a kernel that ends: the server goes on
        output.publish(mimebundle(server))
