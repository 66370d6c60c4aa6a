"""How a server looks: where it is, what it serves, a row a request."""

from __future__ import annotations

from llama_magic.display.static.doc import Grid, Head, Line, Node
from llama_magic.display.views.view import view
from llama_magic.serving.log import LoggedRequest
from llama_magic.serving.server import Server
from llama_magic.words.counting import counted
from llama_magic.words.tables import Table

_SHOWN = 20  # rows: the latest
_HEADERS = ("#", "client", "asked", "model", "prompt", "written", "tok/s", "seconds", "how it goes")


@view.register(Server)
def server(s: Server) -> list[Node]:
    """Show a server and its latest requests, the last one first."""
    rows = list(s.log)
    # True for ever: where the kernel ends before the server is stopped, the saved notebook keeps this.
    where = f"{s.url}/v1, until its process ends" if s.running else f"{s.url}, stopped"
    key = "with a key" if s.has_key else "this machine only, no key"
    out: list[Node] = [Head("serve", f"{', '.join(s.models)} · {where} · {key}")]
    if rows:
        out.append(Grid(Table(_HEADERS, tuple(_cells(row) for row in rows[: -_SHOWN - 1 : -1]))))
    out.append(Line(_summary(rows, s.running), dim=True))
    return out


def _cells(row: LoggedRequest) -> tuple[object, ...]:
    client = f"{row.client} {row.user}".strip()
    speed = row.tokens_per_second
    tokens = (row.prompt_tokens or None, row.written or None, None if speed is None else f"{speed:,.1f}")
    return (row.number, client, row.path, row.model or None, *tokens, f"{row.seconds:,.1f}", row.state)


def _summary(rows: list[LoggedRequest], running: bool) -> str:
    if not rows:
        return "No request yet." if running else "There was no request."
    count = rows[-1].number
    going = sum(not row.ended for row in rows)
    words = counted(count, "request") + (f", the latest {_SHOWN} above" if count > _SHOWN else "")
    return f"so far {words}; {going} under way" if going else words
