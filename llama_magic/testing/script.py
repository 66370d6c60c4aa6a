"""What a scripted model answers, as it is given and checked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from llama_magic.errors import InputTypeError
from llama_magic.request.request import Request


@dataclass(frozen=True)
class Script:
    """One answer, and what goes wrong with it.

    `text` is what is written; `samples` are the texts of `n` samples, where they differ. After `at`
    tokens (None: after all) the answer waits until `hold` is set, `interrupt` presses Ctrl-C, and
    `error` ends it. Until `reading` is set, half of the prompt is read. `delay` is in seconds, before
    each token.
    """

    text: str = ""
    samples: tuple[str, ...] = ()
    at: int | None = None
    hold: threading.Event | None = None
    reading: threading.Event | None = None
    interrupt: bool = False
    error: BaseException | None = None
    delay: float = 0.0

    def of(self, index: int) -> str:
        """Return the text of a sample."""
        return self.samples[index % len(self.samples)] if self.samples else self.text


Answer = str | Script
Odds = Callable[[Request, str], float]
Answers = Mapping[str, Answer] | Sequence[Answer] | Callable[[Request], Answer]


def checked(given: Any) -> Any:
    """Return answers as they are kept: a function, a mapping, or a list. Raises `InputTypeError`."""
    if callable(given):
        return given
    if isinstance(given, Mapping):
        for answer in given.values():
            script_of(answer)
        return given
    if isinstance(given, (str, bytes)) or not isinstance(given, Iterable):
        raise InputTypeError(
            f"The answers of a script are a {type(given).__name__}; expected a dict of what is asked to "
            "what is answered, a list of answers in their order, or a function of the request.",
            remedy='For the same answer to everything: lambda request: "…".',
        )
    answers = list(given)
    for answer in answers:
        script_of(answer)
    return answers


def script_of(answer: Any) -> Script:
    """Return an answer as a script. Raises `InputTypeError` for what is neither a text nor one."""
    if isinstance(answer, Script):
        return answer
    if not isinstance(answer, str):
        raise InputTypeError(
            f"An answer of a script is a {type(answer).__name__}; expected a text or a Script."
        )
    return Script(answer)
