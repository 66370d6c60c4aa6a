"""The one error tree.

LlamaMagicError
├── SourceError            what was asked for cannot be found, fetched or trusted
├── InvalidGGUFError       the file is not a GGUF that can be loaded; names the field and offset
├── FitError               it would not fit; says by how much and what would
├── BackendError           llama.cpp refused or failed; its own last log lines are in the message
│   └── ServerError        a server refused or failed (see below for its kinds)
├── ContextOverflowError   (also a ValueError) prompt + max_tokens is more than the window
├── TemplateError          prompt template or chat template
├── SchemaError            the schema cannot be honoured; names the keyword and where it stands
├── StructuredOutputError  the answer is not an instance; carries the text so far
├── ModelClosedError       use after close
├── OptionError            (also a ValueError) an option, verb or value that cannot be meant
├── InputTypeError         (also a TypeError) a value of the wrong type
└── OutOfTimeError         (also a TimeoutError) `timeout` was up, in a call that writes nothing

Every message says what was found, what was expected and what to do. In IPython an error is shown as its text
and the user's line, without a traceback, and one that was caught as a view; the exception itself is ordinary.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Self

from llama_magic import blocks
from llama_magic.doors import Door, entered, escaped, worded


class _Ours(BaseException):
    """What our errors and interrupts have in common: they say themselves what they are, and pickle whole."""

    def __reduce__(self) -> Any:
        # Python's own way calls the class with `args` alone, and a pool of processes hangs where that fails.
        return _again, (type(self), self.args, self.__dict__)

    def _render_traceback_(self) -> list[str]:
        """Return what IPython prints in place of a traceback (and still count as a failed cell)."""
        return [blocks.narrow(self._words())]

    def _words(self) -> str:
        return f"{type(self).__name__}: {self}"

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(self._words())  # IPython has a printer of exceptions, which goes before the view's text

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any] | None:
        return show and show(self)


show: Callable[[Any], dict[str, Any]] | None = None  # `words/shown.py`, which may look up to display, says


class LlamaMagicError(_Ours, Exception):
    """Base of every error of this package.

    `message` says what is wrong; `remedy`, if given, is one sentence on what to do; both in the words of the
    door that the call came in by, until `at` another (`said`: as given). `str(error)` has a line of each. Of
    a list of prompts, `row` is the place (from 0) of the one that failed first, `completions` what there is
    of each, None of nothing.
    """

    row: int | None = None
    completions: Sequence[Any] = ()
    door = Door.PYTHON

    def __init__(self, message: str, *, remedy: str | None = None) -> None:
        super().__init__()
        self.door = entered()
        self._say(message, remedy)

    def _render_traceback_(self) -> list[str]:
        return [*super()._render_traceback_(), *blocks.place_of(self)]

    def _say(self, message: str, remedy: str | None) -> None:
        # File names, servers' answers and llama.cpp's log stand in messages: none may steer a terminal.
        self.said = escaped(message), None if remedy is None else escaped(remedy)
        self.at(self.door)

    def at(self, door: Door) -> Self:
        """Word it for a door: options are written as they are typed there."""
        self.door, (message, remedy) = door, self.said
        self.message, self.remedy = worded(message, door), None if remedy is None else worded(remedy, door)
        self.args = (self.message if remedy is None else f"{self.message}\n{self.remedy}",)
        return self

    def add(self, sentence: str) -> None:
        """Say one thing more, once."""
        message, remedy = self.said
        if sentence not in message:
            end = "" if message.endswith((".", "!", "?", "…")) else "."
            self._say(f"{message}{end} {sentence}", remedy)

    def of_row(self, row: int, failed: int, completions: Sequence[Any]) -> LlamaMagicError:
        """Say which of a list of prompts this is about, and keep what there is of all of them."""
        self.row, self.completions = row, completions
        others = f" ({failed - 1} more failed, too)" if failed > 1 else ""
        self._say(f"Row {row + 1} of {len(completions)}{others}: {self.said[0]}", self.said[1])
        return self


def _again(kind: type[BaseException], args: tuple[Any, ...], state: dict[str, Any]) -> BaseException:
    """Return an error as it was, from its parts."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class SourceError(LlamaMagicError):
    """A model cannot be found, fetched or trusted."""


class InvalidGGUFError(LlamaMagicError):
    """A file is not a GGUF that can be loaded.

    `field` (`"header.version"`, `"tensor output.weight"`) and `offset` (bytes) are in the message, if known.
    """

    def __init__(
        self, message: str, *, field: str | None = None, offset: int | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.field, self.offset = field, offset
        if field is not None and offset is not None:
            self.add(f"Field {field}, offset {offset}.")


class FitError(LlamaMagicError):
    """A model, or its context, would not fit into memory."""


class BackendError(LlamaMagicError):
    """llama.cpp refused or failed. `log` holds its last log lines.

    `completion` is what was written of the answer before (a list of them for n > 1), None of nothing.
    """

    completion: Any = None

    def __init__(self, message: str, *, log: str = "", remedy: str | None = None) -> None:
        text = message if not log else f"{message}\nllama.cpp said: {log}"
        super().__init__(text, remedy=remedy)
        self.log = log


class ServerError(BackendError):
    """A server refused, failed or cannot be reached. `status` is its HTTP status, None where none came.

    `retry_after` is how many seconds it asks us to wait, where it says so.
    """

    retry_after: float | None = None

    def __init__(self, message: str, *, status: int | None = None, remedy: str | None = None) -> None:
        super().__init__(message, remedy=remedy)
        self.status = status


class ServerUnreachableError(ServerError):
    """Nothing answers at the address."""


class ServerKeyError(ServerError):
    """The server wants a key, or another one (401, 403)."""


class ServerModelError(ServerError):
    """The server has no such model, or no such way to ask (404)."""


class ServerBusyError(ServerError):
    """The server takes no more requests now (429), also after waiting as it said."""


class ServerLoadingError(ServerError):
    """The server is still loading its model, or is down for a while (503)."""


class ServerFailedError(ServerError):
    """The server failed (5xx), or says in the middle of an answer that it did."""


class ServerRefusedError(ServerError):
    """The server refuses the request (another 4xx)."""


class ServerAnswerError(ServerError):
    """What the server sends is not what its kind of server sends."""


class StreamCutError(ServerError):
    """The connection closed in the middle of an answer."""


class StreamStalledError(ServerError):
    """The server sends nothing more, though it did not end the answer."""


class ContextOverflowError(LlamaMagicError, ValueError):
    """Prompt and reserved answer do not fit the context window.

    `prompt_tokens`, `max_tokens` and `window` are counts of tokens; `parts` lists what fills the window as
    `(label, tokens)` pairs, in prompt order.
    """

    def __init__(
        self, message: str, *, prompt_tokens: int, max_tokens: int, window: int,
        parts: tuple[tuple[str, int], ...] = (), remedy: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message, remedy=remedy)
        self.prompt_tokens, self.max_tokens, self.window = prompt_tokens, max_tokens, window
        self.parts = parts


class TemplateError(LlamaMagicError):
    """A prompt template or a chat template cannot be compiled or rendered."""


class SchemaError(LlamaMagicError):
    """A schema cannot be honoured. `pointer` is a JSON pointer, `keyword` the keyword at fault."""

    def __init__(
        self, message: str, *, pointer: str = "", keyword: str | None = None, remedy: str | None = None
    ) -> None:
        super().__init__(message, remedy=remedy)
        self.pointer, self.keyword = pointer, keyword


class StructuredOutputError(LlamaMagicError):
    """An answer is not an instance of what was asked for.

    `text` is the answer so far, `partial` the part of it that could be read, `completion` the `Completion` it
    came with, where there is one. Of several samples it is the first that failed; `completions` holds them
    all, and `lm.vote` counts those that are instances. Of several prompts, see `LlamaMagicError`.
    """

    def __init__(
        self, message: str, *, text: str = "", partial: Any = None, completion: Any = None,
        remedy: str | None = None,
    ) -> None:  # fmt: skip
        super().__init__(message, remedy=remedy)
        self.text, self.partial, self.completion = text, partial, completion


class ModelClosedError(LlamaMagicError):
    """The model was unloaded, or closed while it was in use."""


class OptionError(LlamaMagicError, ValueError):
    """An option, a verb or a value that cannot be meant; names the nearest right one."""


class InputTypeError(LlamaMagicError, TypeError):
    """A value of the wrong type; names the types that are taken."""


class OutOfTimeError(LlamaMagicError, TimeoutError):
    """The `timeout` of a call that writes nothing was up; `completion` as of `GenerationInterrupted`."""

    completion: Any = None


class GenerationInterrupted(_Ours, KeyboardInterrupt):
    """Ctrl-C or the kernel's interrupt stopped a call; `completion` holds what is kept of it.

    That is the `Completion` of what was written (a list of them for a list of prompts, in order; None for
    what was not begun), the `ReadThrough` of what was read, the vectors of the texts that were embedded, or
    None where nothing is kept; the message says which. A `KeyboardInterrupt`, so that loops and *Run All*
    stop as they do for any interrupt.
    """

    def __init__(self, completion: Any = None, words: str | None = None) -> None:
        begun = getattr(completion, "text", None) != ""
        kept = "nothing is kept" if completion is None else "what was written is kept"
        self.words = words or (kept if begun else "nothing was written yet")
        super().__init__(f"interrupted; {self.words}")
        self.completion = completion

    def _words(self) -> str:
        return f"Interrupted: {self.words}."


@contextmanager
def shown_briefly(what: str) -> Iterator[None]:
    """Turn a KeyboardInterrupt of `what`, wherever it struck, into one that IPython shows in a line."""
    try:
        yield
    except GenerationInterrupted:
        raise
    except KeyboardInterrupt:
        raise GenerationInterrupted(None, f"{what} was stopped; nothing of it is kept") from None
