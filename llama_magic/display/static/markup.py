"""HTML whose texts are made visible and inert by building it: no call to remember, none to forget.

`Html("<b>{}</b>").format(text)` escapes `text`; `Html` that is put into `Html` stays as it is.
"""

from __future__ import annotations

from typing import Any

from markupsafe import Markup

from llama_magic.words.harmless import visible


class Html(Markup):
    """A piece of HTML. What is formatted, joined or added into it is made visible, then escaped."""

    __slots__ = ()

    @classmethod
    def escape(cls, s: Any, /) -> Html:
        """Return `s` as HTML: as it is where it is HTML already, else as text."""
        return cls(super().escape(s if hasattr(s, "__html__") else visible(str(s))))
