"""From text or messages to the tokens of a prompt."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from llama_magic import formatters
from llama_magic.errors import InputTypeError, OptionError
from llama_magic.model.results import Budget, BudgetPart
from llama_magic.request.filled import Filled, Span, spans_in, spans_of
from llama_magic.request.messages import assistant_message
from llama_magic.request.tokenizer import PIECE, Tokenizer, TooManyTokensError, attribute_tokens, going_on

if TYPE_CHECKING:
    from llama_magic.formatters import Formatter


@dataclass(frozen=True)
class Prompt:
    """A prompt ready to decode: its text, its tokens, and what fills it."""

    text: str
    ids: list[int]
    parts: tuple[BudgetPart, ...]
    notes: tuple[str, ...] = ()
    messages: tuple[dict[str, Any], ...] = ()
    continues: bool = False  # the answer goes on from the last of `messages`, and does not hold it
    shortened: bool = False  # to fit the window: what was given is more
    begun: tuple[int, ...] = ()  # the last of `ids`, where the answer is to hold them
    begun_text: str = ""  # and the end of `text` that they stand for
    weights: tuple[tuple[str, int], ...] = ()  # role and tokens of each message, or of the one text

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
            parts=tuple(parts),
            begun=tuple(ids),
            begun_text=text,
        )

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
    stretches = _split("prompt", "prompt", text, spans_of(text))
    counts = attribute_tokens(tokenizer, ids, [text for _, _, text in stretches])
    notes: tuple[str, ...] = ()
    bos = tokenizer.text(tokenizer.bos_id) if tokenizer.add_bos and tokenizer.bos_id is not None else None
    if bos is not None and text.startswith(bos):
        notes = (f"The prompt begins with {bos}, which the tokenizer adds by itself; it is sent once.",)
    return Prompt(str(text), ids, _summed(stretches, counts), notes, weights=(("prompt", len(ids)),))


def _from_tokens(tokenizer: Tokenizer, tokens: Sequence[Any]) -> Prompt:
    """Take tokens as they are, with no BOS in front but the one that is among them."""
    if not tokens:
        raise OptionError("The prompt is empty.", remedy="Give at least one token.")
    for token in tokens:
        if isinstance(token, bool) or not isinstance(token, int):
            raise InputTypeError(f"The prompt holds {token!r}; expected a str, or the ids of tokens.")
        if not 0 <= token < tokenizer.n_tokens:
            last = tokenizer.n_tokens - 1
            raise OptionError(f"The prompt holds the token {token}; this tokenizer has ids 0 to {last}.")
    ids = list(tokens)
    return Prompt(tokenizer.decode(ids), ids, (BudgetPart("prompt", "prompt", len(ids)),))


def from_messages(
    tokenizer: Tokenizer, how: Rendering, messages: Sequence[Any], most: int | None = None
) -> Prompt:
    """Render and tokenise a conversation; `Filled` contents are counted variable by variable.

    Of a long text raises TooManyTokensError as soon as it is certain that there are more than `most`.
    """
    if not isinstance(messages, Sequence) or isinstance(messages, (str, bytes)):
        raise InputTypeError(
            f"The messages are a {type(messages).__name__}; expected a list of dicts with role and content."
        )
    contents = [m.get("content") for m in messages if isinstance(m, Mapping)]
    filled = [content for content in contents if isinstance(content, Filled)]
    plain = formatters.normalise_messages(messages)
    rendered = how.formatter.render(
        messages,
        add_generation_prompt=not how.continue_final,
        continue_final=how.continue_final,
        tools=how.tools,
        guarded=how.guarded,
        **how.variables,
    )
    begun = _begun_parts(rendered) if how.begins else 0
    ids, n_begun = _encoded(tokenizer, [(part.text, part.literal) for part in rendered.parts], begun, most)
    if not ids:
        raise OptionError("The conversation renders to an empty prompt; write something in the last message.")
    notes = tuple(dict.fromkeys((*how.formatter.notes, *rendered.notes)))
    stretches, owners = _stretches(rendered, filled)
    counts = attribute_tokens(tokenizer, ids, [text for _, _, text in stretches])
    weights: Counter[int | None] = Counter()
    for owner, count in zip(owners, counts, strict=True):
        weights[owner] += count
    said = tuple(dict(m) for m in plain)[: -1 if how.begins else None]
    begun_text = "".join(part.text for part in rendered.parts[len(rendered.parts) - begun :])
    return Prompt(
        rendered.text,
        ids,
        _summed(stretches, counts),
        notes,
        said,
        how.continue_final and not how.begins,
        begun=tuple(ids[len(ids) - n_begun :]),
        begun_text=begun_text,
        weights=tuple((str(m["role"]), weights[i]) for i, m in enumerate(rendered.messages)),
    )


def _begun_parts(rendered: formatters.Rendered) -> int:
    """Return how many of the last parts are the text of the last message."""
    last = len(rendered.messages) - 1
    return sum(1 for _ in itertools.takewhile(lambda part: part.index == last, reversed(rendered.parts)))


def _encoded(
    tokenizer: Tokenizer, parts: Sequence[tuple[str, bool]], begun: int, most: int | None
) -> tuple[list[int], int]:
    """Return the tokens of a prompt, and how many of them are those of its last `begun` parts.

    Where a token would reach across, the answer begins with one of its own.
    """
    ids = tokenizer.encode_parts(parts, most)
    if not begun:
        return ids, 0
    head = tokenizer.encode_parts(parts[:-begun], most)
    if ids[: len(head)] == head:
        return ids, len(ids) - len(head)
    tail = going_on(tokenizer.tokenize, "".join(text for text, _ in parts[-begun:]))
    return [*head, *tail], len(tail)


def as_messages(prompt: object, system: str | None) -> list[dict[str, Any]]:
    """Return a prompt as one user turn, after `system` if there is one."""
    if not isinstance(prompt, str):
        raise InputTypeError(f"The prompt is a {type(prompt).__name__}; expected a str.")
    head = [] if system is None else [{"role": "system", "content": system}]
    return [*head, {"role": "user", "content": prompt}]


def _ordinals(messages: Sequence[Mapping[str, Any]]) -> list[int]:
    """Return of each message the how manieth of its role it is, from 1."""
    seen: Counter[Any] = Counter()
    numbers = []
    for message in messages:
        seen[message.get("role")] += 1
        numbers.append(seen[message.get("role")])
    return numbers


def _stretches(
    rendered: formatters.Rendered, filled: Sequence[Filled]
) -> tuple[list[tuple[str, str, str]], list[int | None]]:
    """Return the prompt in order, as (label, kind, text): what the template wrote, turns, variables.

    With each the message that it stands in, None for what the template wrote.
    """
    stretches: list[tuple[str, str, str]] = []
    owners: list[int | None] = []
    ordinals = _ordinals(rendered.messages)
    for part in rendered.parts:
        if part.kind == "template":
            stretches.append(("template", "template", part.text))
            owners.append(None)
            continue
        label = (
            "system"
            if part.kind == "system"
            else f"{part.kind} {'' if part.index is None else ordinals[part.index]}"
        )
        if filled:
            stretches += _split(label, part.kind, part.text, spans_in(part.text, filled))
        else:
            stretches.append((label, part.kind, part.text))
        owners += [part.index] * (len(stretches) - len(owners))
    return stretches, owners


def _split(label: str, kind: str, text: str, spans: Sequence[Span]) -> list[tuple[str, str, str]]:
    """Cut a stretch at its variables."""
    out: list[tuple[str, str, str]] = []
    cursor = 0
    for name, start, end in sorted(spans, key=lambda span: span[1]):
        if start < cursor or end > len(text):
            continue
        if start > cursor:
            out.append((label, kind, text[cursor:start]))
        shown = name if name.startswith("{{") else f"{{{{ {name} }}}}"
        out.append((shown, "variable", text[start:end]))
        cursor = end
    if cursor < len(text) or not out:
        out.append((label, kind, text[cursor:]))
    return out


def _summed(stretches: Sequence[tuple[str, str, str]], counts: Sequence[int]) -> tuple[BudgetPart, ...]:
    """Return one part a label, in order of first appearance, with its tokens."""
    totals: dict[tuple[str, str], int] = {}
    for (label, kind, _), count in zip(stretches, counts, strict=True):
        totals[label, kind] = totals.get((label, kind), 0) + count
    return tuple(BudgetPart(label, kind, tokens) for (label, kind), tokens in totals.items() if tokens)
