"""Whether a structured answer may begin with a thinking part, and the constraint that waits for its end."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from llama_magic.doors import as_written, option
from llama_magic.errors import InputTypeError, OptionError
from llama_magic.formatters import REASONING, normalise_messages
from llama_magic.request.tokenizer import TooManyTokensError
from llama_magic.words.counting import counted
from llama_magic.words.given import quoted

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from llama_magic.formatters import Formatter
    from llama_magic.request.matcher import CarriedConstraint, Matcher
    from llama_magic.request.tokenizer import Tokenizer
    from llama_magic.structured import Constraint

_AFTER = "the model thinks first; what comes after is constrained"
_ALWAYS = "this template always opens a thinking part; what comes after it is constrained"
_HEADER = "the model writes a header first; what comes after is constrained"


@dataclass(frozen=True)
class Thinking:
    """The choice for one call. `variables` go to the template; `note` says in words what was chosen."""

    wanted: bool = False
    variables: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""

    @classmethod
    def choose(cls, formatter: Formatter, wanted: object, given: Mapping[str, Any]) -> Thinking:
        """Decide by what the caller wants, and the template variables that they gave.

        A variable that switches thinking counts more than `wanted`. Raises `OptionError` where
        thinking is wanted of a template that has none.
        """
        if not isinstance(wanted, bool):
            raise InputTypeError(f"thinking is {quoted(wanted)}; expected True or False.")
        if not isinstance(given, Mapping):
            raise InputTypeError(f"template_variables is a {type(given).__name__}; expected a dict of names.")
        off = formatter.thinking_off_variables or {}
        own = {name: given[name] for name in given if name in off}
        if own:
            said = ", ".join(f"{name}={value!r}" for name, value in own.items())
            thinks = any(value != off[name] for name, value in own.items())
            how = _AFTER if thinks else "thinking is off"
            return cls(thinks and opening(formatter) is not None, dict(given), f"{how} ({said}, as given)")
        if wanted:
            if not _has_thinking(formatter):
                raise OptionError(
                    "thinking is asked for, but the template of this model has no thinking part.",
                    remedy=f"Leave thinking ({option('thinking')}) out.",
                )
            on = {name: True for name, value in off.items() if value is False}
            return cls(True, {**on, **given}, _AFTER)
        said = ", ".join(f"{name}={value!r}" for name, value in off.items())
        return cls(False, {**off, **given}, f"thinking is switched off ({said})" if off else "")


def drop_thinking(
    messages: Sequence[Any], formatter: Formatter, count: Callable[[Sequence[Any]], int]
) -> tuple[Sequence[Any], tuple[str, ...]]:
    """Leave out the thinking of earlier turns; the note says how many tokens that frees, or that none can be.

    `count` gives the tokens of a conversation, or raises `TooManyTokensError`.
    """
    kept, had = without_thinking(messages, formatter)
    if not had:
        idle = f"{as_written('drop_thinking')} does nothing: the template of this model has no thinking part."
        return messages, () if _has_thinking(formatter) else (idle,)
    try:
        freed = count(messages) - count(kept)
        words = counted(freed, "token") if freed > 0 else "none: the template leaves it out itself"
    except TooManyTokensError:
        words = "more tokens than the window holds"
    return kept, (f"Left out the thinking of {counted(had, 'earlier turn')}, which frees {words}.",)


def without_thinking(messages: object, formatter: Formatter) -> tuple[list[Any], int]:
    """Return a conversation without the thinking of earlier turns, and how many of them had some.

    It stands under a name of its own (`reasoning_content`) or between its marks in the text. What comes
    after the last user's message is the turn at work, and stays.
    """
    if not isinstance(messages, (list, tuple)):
        return messages, 0  # type: ignore[return-value]  # refused where messages are read
    plain = normalise_messages(messages)
    last = max((i for i, message in enumerate(plain) if message["role"] == "user"), default=0)
    kept, had = list(messages), 0
    for index, message in enumerate(plain[:last]):
        if message["role"] != "assistant":
            continue
        reply = formatter.parse(message["content"]) if opening(formatter) else None
        inside = reply is not None and reply.thinking and not reply.tool_calls
        if not (inside or any(message.get(name) for name in REASONING)):
            continue
        content = reply.content if inside and reply is not None else message["content"]
        kept[index] = {k: v for k, v in message.items() if k not in REASONING} | {"content": content}
        had += 1
    return kept, had


def _has_thinking(formatter: Formatter) -> bool:
    return formatter.spec.header is not None or opening(formatter) is not None


def opening(formatter: Formatter) -> str | None:
    """Return the text that opens a thinking part inside an answer, None where there is none."""
    return next((m.text for m in formatter.spec.marks if m.then == "thinking" and "text" in m.where), None)


def note_of(thinking: Thinking | None, formatter: Formatter | None, prompt: str) -> str:
    """Return what is to be said of thinking for a constrained answer to this prompt, "" for nothing."""
    state = "text" if formatter is None else formatter.reader(prompt).state
    if state != "text" and not (thinking is not None and thinking.wanted):
        return _ALWAYS if state == "thinking" else _HEADER
    return "" if thinking is None else thinking.note


def reads_marks(
    constraint: Constraint | None, formatter: Formatter | None, prompt: str, thinking: Thinking | None
) -> bool:
    """Say whether an answer to this prompt can hold marks of its family: a constrained one only before it."""
    if formatter is None or constraint is None:
        return formatter is not None
    return formatter.reader(prompt).state != "text" or (thinking is not None and thinking.wanted)


def after_thinking(
    constraint: Constraint | None,
    formatter: Formatter | None,
    prompt: str,
    tokenizer: Tokenizer,
    thinking: Thinking | None = None,
) -> CarriedConstraint | None:
    """Return what the request carries: the constraint, or one that waits for the end of a thinking part."""
    if constraint is None or formatter is None:
        return constraint
    if not reads_marks(constraint, formatter, prompt, thinking):
        return constraint
    mark = None if formatter.reader(prompt).state != "text" else opening(formatter)
    return ThinkingFirst(constraint, formatter, prompt, Ways(formatter, tokenizer), mark)


@dataclass(frozen=True)
class ThinkingFirst:
    """A constraint on what comes after a thinking part."""

    constraint: CarriedConstraint
    formatter: Formatter
    prompt: str
    ways: Ways
    mark: str | None

    @property
    def kind(self) -> str:
        return self.constraint.kind

    @property
    def schema(self) -> Any:
        return self.constraint.schema

    def start(self) -> Matcher:
        reader = self.formatter.reader(self.prompt, once=True)
        return AfterThinking(self.constraint.start(), reader, self.ways, self.mark)


class Ways:
    """What a thinking part must not do: end the answer, or go on into it within one token."""

    def __init__(self, formatter: Formatter, tokenizer: Tokenizer) -> None:
        marks = formatter.spec.marks
        self.closing = tuple(m.text for m in marks if "thinking" in m.where and m.then is not None)
        ends = {*tokenizer.eog_ids, *(tokenizer.special_id(text) for text in formatter.stop)}
        ends -= {tokenizer.special_id(m.text) for m in marks}
        self.ends = sorted(token for token in ends if token is not None)
        self.tokenizer = tokenizer
        self._over: dict[str, list[int]] = {}

    def tokens_of(self, mark: str) -> list[int]:
        """Return the tokens of a mark: the one of its own, or those of its text."""
        own = self.tokenizer.special_id(mark)
        return [own] if own is not None else list(self.tokenizer.tokenize(mark))

    def forbidden(self, held: str) -> Sequence[int]:
        """Return the tokens that may not come after `held`, the beginning of a mark that is being written."""
        if not held:
            return self.ends
        if held not in self._over:
            rests = [m[len(held) :].encode() for m in self.closing if m.startswith(held) and m != held]
            self._over[held] = [
                *self.ends,
                *(
                    token
                    for token in range(self.tokenizer.n_tokens)
                    for rest in rests
                    if (piece := self.tokenizer.piece(token)).startswith(rest) and piece[len(rest) :].strip()
                ),
            ]
        return self._over[held]


class AfterThinking:
    """A matcher that lets a thinking part be written freely, and constrains what comes after it.

    With `mark` the answer begins with that mark, which opens the thinking part. Inside it the answer
    cannot end, and no token closes the part and begins the answer at once.
    """

    def __init__(self, inner: Matcher, reader: Any, ways: Ways, mark: str | None = None) -> None:
        self._inner = inner
        self._reader = reader
        self._ways = ways
        self._opening = ways.tokens_of(mark) if mark is not None else []

    @property
    def _waiting(self) -> bool:
        return bool(self._opening) or self._reader.state != "text"

    def prepare(self) -> None:
        if not self._waiting:
            self._inner.prepare()

    def apply(self, logits: NDArray[np.float32]) -> None:
        if self._opening:
            kept = logits[self._opening[0]]
            logits.fill(-float("inf"))
            logits[self._opening[0]] = kept
        elif self._waiting:
            logits[list(self._ways.forbidden(self._reader.held))] = -float("inf")
        else:
            self._inner.apply(logits)

    def allowed_bits(self) -> NDArray[np.uint8] | None:
        if not self._waiting:
            return self._inner.allowed_bits()
        import numpy as np

        allowed = np.zeros(self._ways.tokenizer.n_tokens, dtype=np.uint8)
        if self._opening:
            allowed[self._opening[0]] = 1
        else:
            allowed[:] = 1
            allowed[list(self._ways.forbidden(self._reader.held))] = 0
        return np.packbits(allowed, bitorder="little")

    def accept(self, token: int) -> None:
        if not self._waiting:
            self._inner.accept(token)
            return
        if self._opening:
            self._opening = self._opening[1:]
        self._reader.feed(self._ways.tokenizer.piece(token).decode("utf-8", "replace"))

    def forced(self) -> list[int]:
        if self._waiting:
            return self._opening
        return self._inner.forced()

    @property
    def finished(self) -> bool:
        return not self._waiting and self._inner.finished
