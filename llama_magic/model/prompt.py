"""From text or messages to the tokens of a prompt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from llama_magic.errors import InputTypeError, OptionError
from llama_magic.model.counted import Labelled, Start, Starts, count, split
from llama_magic.model.results import Budget, BudgetPart
from llama_magic.request.filled import Filled, spans_of
from llama_magic.request.fixed import Fixed
from llama_magic.request.messages import assistant_message
from llama_magic.request.tokenizer import PIECE, Tokenizer, TooManyTokensError, attribute_tokens, checked_ids

if TYPE_CHECKING:
    from llama_magic.formatters import Formatter


@dataclass(frozen=True)
class Prompt:
    """A prompt ready to decode: its text, its tokens, and what fills it."""

    text: str
    ids: Sequence[int]
    parts: tuple[BudgetPart, ...]
    notes: tuple[str, ...] = ()
    messages: tuple[dict[str, Any], ...] = ()
    continues: bool = False  # the answer goes on from the last of `messages`, and does not hold it
    shortened: bool = False  # to fit the window: what was given is more
    begun: tuple[int, ...] = ()  # the last of `ids`, where the answer is to hold them
    begun_text: str = ""  # and the end of `text` that they stand for
    roles: tuple[str, ...] = ()  # of each message, or what the one text is
    tokens: Mapping[int | None, int] = field(default_factory=dict, repr=False)  # by number of the message
    told: str = ""  # `ids` in JSON, where that is known

    def beginning(self, ids: Sequence[int], text: str) -> Prompt:
        """Return the prompt whose answer begins with these tokens, in place of any that it began with."""
        head = self.ids[: len(self.ids) - len(self.begun)]
        parts = list(self.parts)
        if self.begun and parts and parts[-1].kind == "assistant":
            parts.pop()
        rest = len(head) + len(ids) - sum(part.tokens for part in parts)
        parts.append(BudgetPart("beginning of the answer", "assistant", rest))
        return replace(
            self,
            text=self.head + text,
            ids=[*head, *ids],
            told="",
            parts=tuple(parts),
            begun=tuple(ids),
            begun_text=text,
        )

    @property
    def weights(self) -> list[tuple[str, int]]:
        """The role and the tokens of each message, or of the one text."""
        return [(role, self.tokens.get(at, 0)) for at, role in enumerate(self.roles)]

    @property
    def sent(self) -> tuple[dict[str, Any], ...]:
        """The conversation with the beginning of the answer, as a source that has a template is sent it."""
        if not self.begun or not self.messages:
            return self.messages
        if not self.continues:
            return (*self.messages, {"role": "assistant", "content": self.begun_text})
        *before, last = self.messages
        return (*before, {**last, "content": f"{last['content']}{self.begun_text}"})

    def answered(self, text: str, called: Sequence[Any], thinking: str) -> tuple[dict[str, Any], ...]:
        """Return the conversation with its answer: a turn of its own, or the end of the last one."""
        if self.continues:
            *before, last = self.messages
            return (*before, {**last, "content": f"{last['content']}{text}"})
        return (*self.messages, assistant_message(text, called, thinking)) if self.messages else ()

    @property
    def head(self) -> str:
        """The text without the beginning of the answer."""
        return self.text[: len(self.text) - len(self.begun_text)]

    def budget(self, window: int, max_tokens: int) -> Budget:
        return Budget(window, len(self.ids), max_tokens, self.parts)


@dataclass(frozen=True)
class Rendering:
    """How messages become text for this model: formatter, guarded texts, variables."""

    formatter: Formatter
    guarded: frozenset[str]
    variables: Mapping[str, Any] = field(default_factory=dict)
    tools: Sequence[Any] | None = None
    continue_final: bool = False
    begins: bool = False  # and the answer is to hold it


def is_begun(messages: object) -> bool:
    """Say whether a conversation ends with the beginning of an answer: an assistant's text, no tool calls."""
    if not isinstance(messages, (list, tuple)) or not messages:
        return False
    last = messages[-1]
    role, content, calls = (
        last.get(name) if isinstance(last, Mapping) else getattr(last, name, None)
        for name in ("role", "content", "tool_calls")
    )
    role = getattr(role, "value", role)
    return isinstance(role, str) and role == "assistant" and bool(content) and not calls


def with_beginning(messages: Any, beginning: str | None) -> Any:
    """Return a conversation with the beginning of its answer. Raises `OptionError` where it has one."""
    if beginning is None:
        return messages
    if is_begun(messages):
        raise OptionError(
            "The answer is begun twice: by prefill, and by the last message, an assistant's.",
            remedy="Leave one of them out.",
        )
    given = (
        list(messages) if isinstance(messages, Sequence) and not isinstance(messages, (str, bytes)) else []
    )
    return [*given, {"role": "assistant", "content": beginning}]


def from_text(tokenizer: Tokenizer, text: object, most: int | None = None) -> Prompt:
    """Tokenise a raw prompt; a `Filled` one is counted variable by variable.

    Of a long text raises TooManyTokensError as soon as it is certain that there are more than `most`.
    """
    if isinstance(text, (list, tuple)):
        if most is not None and len(text) > max(most, PIECE):
            raise TooManyTokensError(len(text))
        return _from_tokens(tokenizer, text)
    if not isinstance(text, str):
        raise InputTypeError(f"The prompt is a {type(text).__name__}; expected a str, or tokens.")
    ids = tokenizer.encode(text, most)
    if not ids:
        raise OptionError(
            "The prompt is empty, and this model has no token to begin a text with.",
            remedy="Write at least one character.",
        )
    stretches = split(Labelled("prompt", "prompt", text), spans_of(text))
    counts = attribute_tokens(tokenizer, ids, [stretch.text for stretch in stretches])
    notes: tuple[str, ...] = ()
    bos = tokenizer.text(tokenizer.bos_id) if tokenizer.add_bos and tokenizer.bos_id is not None else None
    if bos is not None and text.startswith(bos):
        notes = (f"The prompt begins with {bos}, which the tokenizer adds by itself; it is sent once.",)
    return Prompt(
        str(text),
        ids,
        Start().going_on(stretches, counts, ids).filling,
        notes,
        roles=("prompt",),
        tokens={0: len(ids)},
    )


def _from_tokens(tokenizer: Tokenizer, tokens: Sequence[Any]) -> Prompt:
    """Take tokens as they are, with no BOS in front but the one that is among them."""
    if not tokens:
        raise OptionError("The prompt is empty.", remedy="Give at least one token.")
    ids = checked_ids(tokenizer, tokens, "The prompt")
    return Prompt(tokenizer.decode(ids), ids, (BudgetPart("prompt", "prompt", len(ids)),))


def from_messages(
    tokenizer: Tokenizer,
    how: Rendering,
    messages: Sequence[Any],
    most: int | None = None,
    starts: Starts | None = None,
) -> Prompt:
    """Render and tokenise a conversation; `Filled` contents are counted variable by variable.

    It goes on from one of `starts`, the beginnings of prompts before it, where it begins so.

    Of a long text raises TooManyTokensError as soon as it is certain that there are more than `most`.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, (str, bytes)):
        raise InputTypeError(
            f"The messages are a {type(messages).__name__}; expected a list of dicts with role and content."
        )
    starts = starts or Starts()
    rendered, said, known = starts.onward.render(
        how.formatter,
        messages,
        how.guarded,
        tools=how.tools,
        continue_final=how.continue_final,
        variables=how.variables,
    )
    filled = [  # of those that are known, none is
        content
        for m in (messages[known:] if known else messages)
        if isinstance(m, (dict, Mapping))
        and isinstance(content := m.get("content"), Filled)
        and content.spans
    ]
    counted = count(tokenizer, rendered, filled, starts, begins=how.begins, most=most)
    if not counted.ids:
        raise OptionError("The conversation renders to an empty prompt; write something in the last message.")
    return Prompt(
        rendered.text,
        Fixed(counted.ids),
        counted.parts,
        tuple(dict.fromkeys((*how.formatter.notes, *rendered.notes))),
        tuple(said[:-1] if how.begins else said),
        how.continue_final and not how.begins,
        begun=tuple(counted.ids[len(counted.ids) - counted.begun :]),
        begun_text=counted.begun_text,
        roles=counted.roles,
        tokens=counted.weights,
        told=counted.told,
    )


def as_messages(prompt: object, system: str | None) -> list[dict[str, Any]]:
    """Return a prompt as one user turn, after `system` if there is one."""
    if not isinstance(prompt, str):
        raise InputTypeError(f"The prompt is a {type(prompt).__name__}; expected a str.")
    head = [] if system is None else [{"role": "system", "content": system}]
    return [*head, {"role": "user", "content": prompt}]
