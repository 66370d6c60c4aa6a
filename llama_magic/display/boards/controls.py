"""Sampler controls that the prompt pad and the live trace share. Plain ipywidgets, and one small script.

The script (`controls.js`) does what ipywidgets leave out: it names each slider's handle for screen
readers, and holds the region whose sentence is announced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import anywidget
import ipywidgets
import traitlets

from llama_magic.errors import OptionError
from llama_magic.request.sampling import Sampling, check_seed, default_sampling
from llama_magic.request.stages import PARAMETERS

LABEL = "10.5em"  # width of every label, so that the controls stand in columns
_HERE = Path(__file__).parent
SLIDERS = tuple(name for name, parameter in PARAMETERS.items() if parameter.slider)


def column() -> Any:
    """Return the layout of one control among others side by side."""
    return ipywidgets.Layout(flex="1 1 23em", width="auto", max_width="32em")


def slider(name: str, sampling: Sampling | None = None) -> Any:
    """Return the slider of a sampling parameter at its value in `sampling`, which its range takes in."""
    shape = PARAMETERS[name].slider
    assert shape is not None, f"{name} has no slider"
    value = getattr(sampling or default_sampling(), name)
    more: dict[str, Any] = {}
    kind = ipywidgets.IntSlider
    if isinstance(shape.step, float):
        kind, more = ipywidgets.FloatSlider, {"readout_format": ".3f" if shape.step < 0.01 else ".2f"}
    return kind(
        value, min=min(shape.low, value), max=max(shape.high, value), step=shape.step,
        description=name, tooltip=shape.hint,
        style={"description_width": LABEL}, layout=column(), **more,
    )  # fmt: skip


def sliders(names: Iterable[str], sampling: Sampling | None = None) -> dict[str, Any]:
    """Return the sliders of several parameters, by name."""
    return {name: slider(name, sampling) for name in names}


def side_by_side(widgets: Iterable[Any]) -> Any:
    """Return a box that wraps: two columns where there is room, one in a side panel."""
    return ipywidgets.Box(tuple(widgets), layout=ipywidgets.Layout(flex_flow="row wrap", width="99%"))


def button(text: str, hint: str, press: Callable[[], Any], **more: Any) -> Any:
    """Return a button that calls `press`."""
    made = ipywidgets.Button(
        description=text, tooltip=hint, layout=ipywidgets.Layout(width="max-content"), **more
    )
    made.on_click(lambda _: press())
    return made


def folded(title: str, *widgets: Any) -> Any:
    """Return widgets behind a button that shows and hides them (ipywidgets' accordion has no keyboard)."""
    inner = ipywidgets.VBox(widgets, layout=ipywidgets.Layout(display="none"))
    wide = ipywidgets.Layout(width="max-content")
    hint = f"Show or hide {title}"
    toggle = ipywidgets.ToggleButton(description=f"Show {title}", tooltip=hint, layout=wide)

    def turned(change: Any) -> None:
        inner.layout.display = None if change["new"] else "none"
        toggle.description = f"{'Hide' if change['new'] else 'Show'} {title}"

    toggle.observe(turned, "value")
    return ipywidgets.VBox((toggle, inner))


def seed_field(value: int | None = None) -> Any:
    """Return the field of the seed; empty means one is drawn."""
    return ipywidgets.Text(
        "" if value is None else str(value), placeholder="drawn", description="seed", continuous_update=False,
        style={"description_width": LABEL}, layout=column(),
    )  # fmt: skip


def read_seed(text: str) -> int | None:
    """Return the seed in a field, `None` where it is empty. Raises `OptionError` for anything else."""
    if not (text := text.strip()):
        return None
    if not (text.isdecimal() and text.isascii()):
        raise OptionError(f"The seed is {text!r}; expected a whole number, or nothing to draw one.")
    return check_seed(int(text))


class Voice(anywidget.AnyWidget):
    """The unseen member of a board: its `text` is announced once moves rest; it names the board's sliders.

    Where the board `runs`, Shift+Enter in it comes here as a message, with the texts of its fields by their
    placeholders, and does not run the cell that the board stands in.
    """

    _esm = (_HERE / "controls.js").read_text("utf-8")
    _css = (_HERE / "controls.css").read_text("utf-8")
    text = traitlets.Unicode().tag(sync=True)
    runs = traitlets.Bool().tag(sync=True)
