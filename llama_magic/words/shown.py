"""Results show themselves: the one arrow from below up to `display`, followed when something is shown.

A result's own file says that it is shown (`class Vote(Shown)`), its file under `display/views/` says how.
The imports stand inside the functions: display knows every result, and no result costs more for being shown.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from llama_magic import errors
from llama_magic.errors import shown_briefly


def bundle(shown: Any) -> dict[str, Any]:
    """Return what a front end shows of a result or an error, by MIME type."""
    from llama_magic.display import mimebundle

    return mimebundle(shown)


errors.show = bundle


class Shown:
    """A result that a front end asks for itself: as HTML, Markdown and text, from its view."""

    __slots__ = ()

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        with shown_briefly("The display"):  # IPython shows a cell's last value after the magic has returned
            return bundle(self)


class Printed(Shown):
    """A shown result that is printed as its view's text too."""

    __slots__ = ()

    def __str__(self) -> str:
        from llama_magic.display import to_text

        return to_text(self)


def board(question: Any) -> Any:
    """Return the live view of a question; where no widget can be shown, the question itself."""
    from llama_magic.display import question_board

    return question_board(question)


def live(result: Any) -> Any:
    """Return the live view of a result; where no widget can be shown, say so and return the result."""
    from llama_magic.display import live_view

    return live_view(result)


def watched(
    results: Any, progress: bool | Callable[[Any], Any]
) -> AbstractContextManager[Callable[[], None]]:
    """Show how far an experiment is while it is carried out; yields what is to be called again and again.

    `progress` False shows nothing; a function is told the `Standing` in place of that.
    """
    if progress is False:
        return nullcontext(lambda: None)
    from llama_magic.display.live.watching import watching

    return watching(results, progress)
