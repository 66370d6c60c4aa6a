"""The pen's way back into a conversation: the answer that is shown becomes the turn of its chat."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from llama_magic.display import hosts
from llama_magic.display.boards import controls
from llama_magic.errors import LlamaMagicError, OptionError
from llama_magic.session import session
from llama_magic.words.counting import counted

if TYPE_CHECKING:
    from llama_magic.model.results import Completion
    from llama_magic.session.chat import Chat

_HINT = "Let this answer stand as its turn of the chat; what stood there, and what followed, is kept"


class InChat:
    """A button for the answer that a pen shows, seen where a chat of this kernel has it or what it grew from.

    `tell` is called with what was done, `refuse` with an error.
    """

    def __init__(self, tell: Callable[[str], Any], refuse: Callable[[Exception], Any]) -> None:
        self._tell, self._refuse = tell, refuse
        self._answer: Completion[Any] | None = None
        self.button = controls.button("Use in chat", _HINT, self.press)

    def show(self, answer: Completion[Any] | None) -> None:
        """Bring the button up to date; None: an answer that is still being written."""
        self._answer = answer
        if answer is None:
            self.button.disabled = True
            return
        found = _chat_of(answer)
        self.button.layout.display = "none" if found is None else None
        if found is not None:
            chat, at = found
            stands = chat.turns[at].completion is answer
            name = "" if chat.name == "default" else f" {chat.name}"
            self.button.disabled = stands
            self.button.description = f"Stands in chat{name}" if stands else f"Use in chat{name}"

    def press(self) -> None:
        """Let the answer stand as the turn, and say what became of what stood there."""
        answer = self._answer
        found = None if answer is None else _chat_of(answer)
        try:
            if answer is None or found is None:
                raise OptionError("The chat that had this answer was reset, or changed before it.")
            chat, at = found
            after = len(chat.turns) - at - 1
            chat.take(answer)
        except LlamaMagicError as error:
            self._refuse(error)
            return
        follow = f", with the {counted(after, 'turn')} after it," if after else ""
        self._tell(
            f"This is the answer of turn {at + 1} of the chat “{chat.name}” now; "
            f"what stood there{follow} is kept as branch {len(chat.branches)}."
        )
        self.show(answer)


def _chat_of(answer: Completion[Any]) -> tuple[Chat, int] | None:
    """Return the chat that has an answer, or what it grew from, and the place of its turn."""
    for chat in session.current(hosts.current_shell()).chats.values():
        at = chat.turn_of(answer)
        if at is not None:
            return chat, at
    return None
