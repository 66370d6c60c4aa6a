"""What is true of an experiment only while it runs, above its table: how long it will take yet, and Stop."""

from __future__ import annotations

import traitlets

from llama_magic.display.live import leaving
from llama_magic.words.amounts import duration


class Waiting(leaving.Leaving):
    """A line that goes when the experiment ends."""

    _esm = leaving.script("waiting.js")
    words = traitlets.Unicode("at work").tag(sync=True)

    def say(self, left_s: float | None) -> None:
        """Tell how much time is left, where that is known."""
        self.words = "at work" if left_s is None else f"{duration(left_s)} left"
