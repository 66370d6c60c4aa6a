"""Stand-ins for front ends: what IPython gives them, and what a page makes of the messages of a live view."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from as_ipython import page_says

from llama_magic.display.live.live import LiveView


class Publisher:
    """A display publisher that keeps what it is given, as a front end would show it."""

    def __init__(self) -> None:
        self.sent: list[tuple[dict[str, Any], str | None, bool]] = []

    def publish(self, data: dict[str, Any], metadata: Any, transient: dict[str, str], update: bool) -> None:
        self.sent.append((data, transient.get("display_id"), update))

    def shown(self) -> list[dict[str, Any]]:
        """Return the outputs of the cell after all updates."""
        places: dict[Any, dict[str, Any]] = {}
        for number, (data, display_id, update) in enumerate(self.sent):
            assert not update or display_id in places
            places[display_id or number] = data
        return list(places.values())


class _Shell(SimpleNamespace):
    """Unlike its base it can be referred to weakly, as IPython's can."""


def shell(metadata: dict[str, Any] | None = None, allow_stdin: bool = False, kernel: bool = True) -> Any:
    """Return a stand-in for IPython's shell whose running request came from such a client."""
    parent = {"metadata": metadata or {}, "content": {"allow_stdin": allow_stdin}}
    own = {"kernel": SimpleNamespace(get_parent=lambda channel: parent)} if kernel else {}
    return _Shell(display_pub=Publisher(), **own)


LAB = {"cellId": "4f1c"}
WIDGET = "application/vnd.jupyter.widget-view+json"


def answer_views() -> None:
    """Say for every ended view, as a page does, that its static output stands in its cell."""
    for view in list(LiveView.unanswered):
        page_says(view, {"settled": True})


def replay(messages: list[dict[str, Any]], skip: int = 0) -> list[Any]:
    """Put messages together as nodes.js does; `skip` are lost, and a gap waits for all of it."""
    root: list[Any] = []
    state = 0
    for message in messages[skip:]:
        for _, before, after, changes, *whole in message.get("nodes", ()):
            if before == state:
                apply(root, changes)
            elif whole:
                root.clear()
                apply(root, whole[0])
            else:
                continue
            state = after
    return root


def apply(root: list[Any], changes: list[Any]) -> None:
    """Change JSON elements in place, as `Growing.change` of nodes.js changes nodes."""
    for path, kept, what in json.loads(json.dumps(changes)):
        children = root
        for index in path:
            children = children[index][1]
        if isinstance(what, str):
            children[kept] += what
        else:
            children[kept:] = what


def text_of(elements: list[Any]) -> str:
    return "".join(one if isinstance(one, str) else text_of(one[1]) for one in elements)
