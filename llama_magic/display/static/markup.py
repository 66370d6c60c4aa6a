"""HTML whose texts are made visible and inert by building it: no call to remember, none to forget.

`Html("<b>{}</b>").format(text)` escapes `text`; `Html` that is put into `Html` stays as it is.
"""

from __future__ import annotations

import functools
import itertools
import re
import string
from collections.abc import Iterable
from typing import Any

from markupsafe import Markup

from llama_magic.words.harmless import HIDDEN, visible

_PLAIN = re.compile(f"[^&<>'\"\r{HIDDEN}]*")


class Html(Markup):
    """A piece of HTML. What is formatted, joined or added into it is made visible, then escaped."""

    __slots__ = ()

    @classmethod
    def escape(cls, s: Any, /) -> Html:
        """Return `s` as HTML: as it is where it is HTML already, else as text."""
        if type(s) is cls:
            return s
        if type(s) is str and _PLAIN.fullmatch(s):
            return str.__new__(cls, s)
        return cls(super().escape(s if hasattr(s, "__html__") else visible(str(s))))

    # What `Markup` does here takes twice the time of all else that a live view's table needs.

    def format(self, *values: Any) -> Html:  # type: ignore[override]  # by place only
        """Put values where `{}`, `{:.2f}` or `{0}` stand."""
        out: list[str] = []
        for text, place, spec in _parsed(str(self)):
            out.append(text)
            if place is not None:
                value = values[place]
                out.append(self.escape(format(value, spec) if spec else value))
        return str.__new__(type(self), "".join(out))

    def join(self, parts: Iterable[Any], /) -> Html:
        """Put this between `parts`."""
        return str.__new__(type(self), str.join(self, map(self.escape, parts)))


@functools.lru_cache(maxsize=256)
def _parsed(template: str) -> tuple[tuple[str, int | None, str], ...]:
    """Return a template as (text, place of the value behind it, how that is written)."""
    places = itertools.count()
    return tuple(
        (text, None if name is None else int(name or next(places)), spec or "")
        for text, name, spec, _ in string.Formatter().parse(template)
    )
