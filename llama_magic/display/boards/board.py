"""A widget that leaves something to read in a saved notebook.

JupyterLab prefers a widget to whatever else an output holds, and where no kernel has the widget it
shows only "Error displaying widget: model not found". So a board is shown as two outputs: first a
static one, its *stand-in*, which always says what the board says now, then the widget. The
stand-in's own style (`standin.css`) hides it beside a living widget, and hides the
error, or the widget of a kernel that was restarted, beside it. No widget state is stored.

*Keep as output* ends the widget: the stand-in stays, and the widget's place takes the line that
makes the same again.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import ipywidgets

from llama_magic.display import hosts
from llama_magic.display.boards import controls
from llama_magic.display.bundle import both
from llama_magic.display.static import html as render_html
from llama_magic.display.static import text as render_text
from llama_magic.display.static.doc import Line, Node

_RULES = f"<style>{Path(__file__).with_name('standin.css').read_text('utf-8')}</style>"
STOPS_S = 5.0  # seconds after which a stream that does not stop is not waited for
SAID = 400  # characters of an answer that are announced
_LOST = (
    "The page was reloaded since this cell ran, so this view cannot be saved in its place. "
    "To save it, run the cell again with what stands above."
)


class Board(ipywidgets.VBox):  # type: ignore[misc]  # ipywidgets has no types
    """The base of all boards: says itself in nodes, and can be kept.

    A subclass says its `name`, `view()` and `recipe()`.
    """

    name = "This view"

    def __init__(self, children: Sequence[Any]) -> None:
        self._shown = False
        self._stands_in: str | None = None  # the front end's id of the cell that showed it last
        self._place = uuid.uuid4().hex  # of the displays: transient, so it is not saved
        self.voice = controls.Voice()
        self._parts = (*children, self.voice)
        super().__init__(self._parts)
        self.add_class("lm-board")
        self._view_count = 0  # the front end counts its views from now on; None would mean "do not count"

    def view(self) -> list[Node]:
        """Return what the board says now, as a static view."""
        raise NotImplementedError

    def recipe(self) -> list[Node]:
        """Return the line or cell that makes the same again."""
        raise NotImplementedError

    def refresh(self) -> None:
        """Bring the stand-in up to date."""
        if self._shown:
            nodes = [*self.view(), *self.recipe()]
            self._stand_in(nodes, render_html.page(nodes))

    def _stand_in(self, nodes: Sequence[Node], html: str, *, update: bool = True) -> None:
        """Save a view in the board's place, with the rules that hide it beside a living widget."""
        if self._shown:
            html = _RULES + html.replace('class="lm', 'class="lm lm-standin', 1)
            self._publish("view", {"text/html": html, "text/plain": render_text.page(nodes)}, update=update)

    def keep(self) -> None:
        """Put static output in the board's place, and close its widgets.

        A front end that reloaded its page no longer knows the place; there the board says so.
        """
        view, recipe = self.view(), self.recipe()
        self._publish("view", both(view), update=True)
        nothing = {"text/html": "", "text/plain": ""}  # a view without a word would be a short line
        self._publish("widget", both(recipe) if recipe else nothing, update=True)
        self.children = (ipywidgets.HTML(render_html.page([*view, *recipe, Line(_LOST, tone="warn")])),)
        for child in self._parts:
            _close(child)
        self._shown = False
        self.observe(self._gone, "_view_count")
        self._gone({"new": self._view_count})

    def _gone(self, change: Any) -> None:
        if change["new"] == 0:
            _close(self)

    def _publish(self, place: str, bundle: dict[str, Any], *, update: bool = False) -> None:
        shell = hosts.current_shell()
        if shell is not None:
            hosts.publish(shell, bundle, display_id=f"{self._place}-{place}", update=update)

    def _ipython_display_(self) -> None:
        """Show stand-in and widget; where the host has no widgets, the static view and why."""
        shell = hosts.current_shell()
        if why := hosts.no_widgets(shell):  # made in a notebook, shown inside %%capture
            line = Line(f"{self.name} is not live here: {why}.", dim=True)
            hosts.publish(shell, both([*self.view(), *self.recipe(), line]))
            return
        again = f"{self.name}: run this cell again to use it."
        widget = dict(super()._repr_mimebundle_() or {}) | both([Line(again, dim=True)])
        nodes = [*self.view(), *self.recipe()]
        self._shown, self._stands_in = True, hosts.cell(shell)
        self._stand_in(nodes, render_html.page(nodes), update=False)
        self._publish("widget", widget)

    def _repr_mimebundle_(self, **options: Any) -> dict[str, Any]:
        """Return the widget and its static view in one bundle, for hosts that ask for one."""
        widget = dict(super()._repr_mimebundle_(**options) or {})
        return widget | both([*self.view(), *self.recipe()])


def _close(widget: Any) -> None:
    """Close a widget, what it holds, and the models of its looks."""
    for child in getattr(widget, "children", ()):
        _close(child)
    looks = [getattr(widget, name, None) for name in ("layout", "style")]
    widget.close()
    for look in looks:
        if look is not None:
            look.close()
