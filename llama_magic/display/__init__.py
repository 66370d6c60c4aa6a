"""Everything that people see: live and static views, terminals, the prompt pad, the pen.

Each thing is described once (`views`), as a few kinds of node (`static.doc`), and written as HTML,
Markdown and plain text. Widgets and IPython are imported on use only.

`hosts` says who is looking, `bundle` makes what Jupyter stores. `static/` has the nodes and what writes them,
`views/` what each result says, `live/` what is shown while something runs, `boards/` widgets with controls.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from llama_magic.display import hosts
from llama_magic.display.bundle import (
    Format,
    mimebundle,
    saved_receipt,
    show,
    to_html,
    to_markdown,
    to_text,
)
from llama_magic.display.live.progress import LoadProgress
from llama_magic.display.live.stream import show_stream
from llama_magic.display.views.view import together, view
from llama_magic.errors import LlamaMagicError
from llama_magic.model.results import Completion

if TYPE_CHECKING:
    from llama_magic.lesson.question import Question
    from llama_magic.microscope.tracing import SamplerTrace
    from llama_magic.model.model import Model
    from llama_magic.serving.server import Server

__all__ = [
    "Format",
    "LoadProgress",
    "live_tokens",
    "live_view",
    "mimebundle",
    "pad",
    "question_board",
    "saved_receipt",
    "show",
    "show_board",
    "show_pen",
    "show_server",
    "show_stream",
    "to_html",
    "to_markdown",
    "to_text",
    "together",
    "view",
]


def question_board(question: Question) -> Any:
    """Return a question with its buttons; where no widget can be shown, the question, which shows itself."""
    if hosts.no_widgets(hosts.current_shell()):
        return question
    from llama_magic.display.boards.question import QuestionBoard  # ipywidgets

    return QuestionBoard(question)


def pad(model: Model, **options: Any) -> Any:
    """Return the prompt pad of a model: an ipywidgets box with text area, sliders, gauge, Run and Stop.

    Where no widget can be shown, that is said with what to do instead, and nothing is made (a runner
    such as nbclient would store the state of every widget in the notebook); then `None` comes back.
    """
    if why := hosts.no_widgets(hosts.current_shell()):
        print(f"There is no prompt pad here: {why}.\nWrite %%llama chat and the prompt below it instead.")
        return None
    from llama_magic.display.boards.pad import Pad  # ipywidgets

    return Pad(model, **options)


def show_server(server: Server, shell: Any = None) -> None:
    """Show a server with a row a request, brought up to date while it runs where the host can do that."""
    from llama_magic.display.live.served import show_server as show_it  # what serves

    show_it(server, shell)


def live_view(result: SamplerTrace | Completion | Sequence[Completion], called: str = "answer") -> Any:
    """Return the live view of a result.

    That of a `SamplerTrace` has sliders that run its chain again at every move; that of an answer, or of
    several, is the pen, in which it is `called` so. Where no widget can be shown that is said, and the
    result itself comes back.
    """
    answers = isinstance(result, (Completion, list, tuple))
    if why := hosts.no_widgets(hosts.current_shell()):
        print(f"The {'answer' if answers else 'trace'} is not live here: {why}.")
        return result
    if answers:
        from llama_magic.display.boards.pen import pen_of  # ipywidgets

        return pen_of(result, called)
    from llama_magic.display.boards.trace import LiveTrace  # ipywidgets

    return LiveTrace(cast("SamplerTrace", result))


def show_pen(answers: Completion | Sequence[Completion], called: str) -> None:
    """Show the pen below answers that stand in the output; where it cannot be, what says why: they stay."""
    try:
        made = live_view(answers, called)
    except LlamaMagicError as error:
        print(f"There is no pen here: {error}")
        return
    if made is not answers:
        made._ipython_display_()


def live_tokens(model: Model, text: str = "") -> Any:
    """Return a text field over its token strip, which follows the typing.

    Where no widget can be shown that is said, and the `TokenStrip` of the text comes back.
    """
    if why := hosts.no_widgets(hosts.current_shell()):
        print(f"The token strip is not live here: {why}.")
        return model.token_strip(text)
    from llama_magic.display.boards.tokens import LiveTokens  # ipywidgets

    return LiveTokens(model, text)


def show_board(made: Any, shell: Any = None) -> None:
    """Show what `live_view` or `live_tokens` has returned: a board, or the static result in its place."""
    if hasattr(made, "_ipython_display_"):
        made._ipython_display_()
    else:
        show(made, shell)
