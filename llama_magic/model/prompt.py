"""From text or messages to the tokens of a prompt, and the guard of the context window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from llama_magic import formatters
from llama_magic.errors import ContextOverflowError, InputTypeError, OptionError, StructuredOutputError
from llama_magic.model.results import Budget, BudgetPart
from llama_magic.request.filled import Filled, Span, spans_in, spans_of
from llama_magic.request.tokenizer import Tokenizer, attribute_tokens
from llama_magic.words.counting import counted

if TYPE_CHECKING:
    from llama_magic.formatters import Formatter
    from llama_magic.structured import Constraint

Overflow = Literal["error", "drop-oldest", "truncate-prompt"]
OVERFLOWS = ("error", "drop-oldest", "truncate-prompt")
DEFAULT_MAX_TOKENS = 256
ROUND = 256  # llama.cpp pads n_ctx to multiples of this


@dataclass(frozen=True)
class Prompt:
    """A prompt ready to decode: its text, its tokens, and what fills it."""

    text: str
    ids: list[int]
    parts: tuple[BudgetPart, ...]
    notes: tuple[str, ...] = ()
    messages: tuple[dict[str, Any], ...] = ()
    continues: bool = False  # the answer goes on from the last of `messages`
    shortened: bool = False  # to fit the window: what was given is more

    def budget(self, window: int, max_tokens: int) -> Budget:
        return Budget(window, len(self.ids), max_tokens, self.parts)


@dataclass(frozen=True)
class Template:
    """How messages become text for this model: formatter, guarded texts, variables."""

    formatter: Formatter
    guarded: frozenset[str]
    variables: Mapping[str, Any] = field(default_factory=dict)
    tools: Sequence[Any] | None = None
    continue_final: bool = False


def is_begun(messages: object) -> bool:
    """Say whether a conversation ends with the beginning of an answer: an assistant's text, no tool calls."""
    if not isinstance(messages, (list, tuple)) or not messages:
        return False
    last = messages[-1]
    role, content, calls = (
        last.get(name) if isinstance(last, Mapping) else getattr(last, name, None)
        for name in ("role", "content", "tool_calls")
    )
    return getattr(role, "value", role) == "assistant" and bool(content) and not calls


def from_text(tokenizer: Tokenizer, text: object, most: int | None = None) -> Prompt:
    """Tokenise a raw prompt; a `Filled` one is counted variable by variable.

    Of a long text raises TooManyTokensError as soon as it is certain that there are more than `most`.
    """
    if not isinstance(text, str):
        raise InputTypeError(f"The prompt is a {type(text).__name__}; expected a str.")
    ids = tokenizer.encode(text, most)
    if not ids:
        raise OptionError(
            "The prompt is empty, and this model has no token to begin a text with.",
            remedy="Write at least one character.",
        )
    stretches = _split("prompt", "prompt", text, spans_of(text))
    notes: tuple[str, ...] = ()
    if tokenizer.add_bos and tokenizer.bos_id is not None:
        written = tokenizer.text(tokenizer.bos_id)
        if text.startswith(written):
            notes = (
                f"The prompt begins with {written}, which the tokenizer adds by itself; it is sent once.",
            )
    return Prompt(str(text), ids, _count(tokenizer, ids, stretches), notes)


def from_messages(
    tokenizer: Tokenizer, template: Template, messages: Sequence[Any], most: int | None = None
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
    rendered = template.formatter.render(
        messages,
        add_generation_prompt=not template.continue_final,
        continue_final=template.continue_final,
        tools=template.tools,
        guarded=template.guarded,
        **template.variables,
    )
    ids = tokenizer.encode_parts(((part.text, part.literal) for part in rendered.parts), most)
    if not ids:
        raise OptionError("The conversation renders to an empty prompt; write something in the last message.")
    stretches: list[tuple[str, str, str]] = []
    for part in rendered.parts:
        if part.kind == "template":
            stretches.append(("template", "template", part.text))
            continue
        label = (
            "system" if part.kind == "system" else f"{part.kind} {_ordinal(rendered.messages, part.index)}"
        )
        stretches += _split(label, part.kind, part.text, spans_in(part.text, filled))
    notes = tuple(dict.fromkeys((*template.formatter.notes, *rendered.notes)))
    parts = _count(tokenizer, ids, stretches)
    said = tuple(dict(m) for m in plain)
    return Prompt(rendered.text, ids, parts, notes, said, template.continue_final)


def as_messages(prompt: object, system: str | None) -> list[dict[str, Any]]:
    """Return a prompt as one user turn, after `system` if there is one."""
    if not isinstance(prompt, str):
        raise InputTypeError(f"The prompt is a {type(prompt).__name__}; expected a str.")
    head = [] if system is None else [{"role": "system", "content": system}]
    return [*head, {"role": "user", "content": prompt}]


def check_budget(constraint: Constraint, limit: int) -> None:
    """Refuse an answer whose shortest form does not fit the tokens it may take."""
    least = constraint.min_tokens()
    if least > limit:
        raise StructuredOutputError(
            f"The shortest answer takes {least:,} tokens, but at most {limit:,} are reserved for it.",
            remedy=f"Allow at least {least:,} tokens (--max-tokens {least}), or ask for less.",
        )


def _ordinal(messages: Sequence[Mapping[str, Any]], index: int | None) -> str:
    if index is None:
        return ""
    role = messages[index].get("role")
    return str(sum(1 for m in messages[: index + 1] if m.get("role") == role))


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


def _count(
    tokenizer: Tokenizer, ids: Sequence[int], stretches: Sequence[tuple[str, str, str]]
) -> tuple[BudgetPart, ...]:
    """Return one part a label, in order of first appearance, with its tokens."""
    counts = attribute_tokens(tokenizer, ids, [text for _, _, text in stretches])
    totals: dict[tuple[str, str], int] = {}
    for (label, kind, _), count in zip(stretches, counts, strict=True):
        totals[label, kind] = totals.get((label, kind), 0) + count
    return tuple(BudgetPart(label, kind, tokens) for (label, kind), tokens in totals.items() if tokens)


# --- the guard ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Guard:
    """Refuse or cure what does not fit, before any decode. `grow` says what a larger window would cost."""

    window: int
    overflow: Overflow
    n_ctx_train: int
    kv_bytes_per_token: int

    def reserve(self, max_tokens: int | None) -> int:
        """Return the tokens to keep for the answer: those asked for, else 256 or a quarter of the window."""
        return max_tokens if max_tokens is not None else max(1, min(DEFAULT_MAX_TOKENS, self.window // 4))

    def check(self, prompt: Prompt, max_tokens: int | None) -> int:
        """Return the tokens reserved for the answer, or raise `ContextOverflowError`."""
        wanted = self.reserve(max_tokens)
        if len(prompt.ids) + wanted <= self.window:
            return wanted
        raise self._error(prompt, wanted)

    def too_long(self, least: int, max_tokens: int | None) -> ContextOverflowError:
        """Return the error for a prompt of `least` tokens or more, which were not all counted."""
        wanted = self.reserve(max_tokens)
        return ContextOverflowError(
            f"The prompt has at least {counted(least, 'token')} (a lower bound, not counted to the end), but "
            f"the context window holds {self.window:,}, {wanted:,} of which are reserved for the answer.",
            prompt_tokens=least,
            max_tokens=wanted,
            window=self.window,
            parts=(("prompt, at least", least), ("reserved answer", wanted)),
            remedy=f"Send at most a part of it that fits {self.window - wanted:,} tokens."
            if wanted < self.window
            else f"Ask for less than {self.window:,} tokens, and send less.",
        )

    def _error(self, prompt: Prompt, wanted: int) -> ContextOverflowError:
        used = len(prompt.ids)
        over = used + wanted - self.window
        parts = (*((part.label, part.tokens) for part in prompt.parts), ("reserved answer", wanted))
        filled = ", ".join(f"{label} {tokens:,}" for label, tokens in parts)
        return ContextOverflowError(
            f"The prompt has {counted(used, 'token')} and {wanted:,} {'is' if wanted == 1 else 'are'} "
            f"reserved for the answer, but the context window holds {self.window:,}: "
            f"{over:,} too many. It is filled by: {filled}.",
            prompt_tokens=used,
            max_tokens=wanted,
            window=self.window,
            parts=parts,
            remedy=self._cures(prompt, wanted, over),
        )

    def _cures(self, prompt: Prompt, wanted: int, over: int) -> str:
        cures: list[str] = []
        if shorter := _shorter(prompt.parts, over):
            cures.append(f"shorten {shorter} by {counted(over, 'token')}")
        if wanted > over:
            cures.append(f"ask for at most {counted(wanted - over, 'token')} (--max-tokens {wanted - over})")
        if self.overflow == "error":
            cures += _cuts(prompt.parts, over)
        needed = -(-(len(prompt.ids) + wanted) // ROUND) * ROUND
        if needed <= self.n_ctx_train:
            cost = (needed - self.window) * self.kv_bytes_per_token
            cures.append(f"load it with --ctx {needed} (+{cost / 1e6:,.0f} MB)")
        if not cures:
            cures.append(f"send and ask for less: both together at most {counted(self.window, 'token')}")
        text = ", or ".join(cures)
        return text[0].upper() + text[1:] + "."


def _cuts(parts: Sequence[BudgetPart], over: int) -> list[str]:
    """Return the ways of `--overflow` that would make it fit."""
    cures = []
    turns = [p for p in parts if p.kind in ("user", "assistant", "tool")]
    last = max((i for i, p in enumerate(turns) if p.kind == "user"), default=0)
    if sum(p.tokens for p in turns[:last]) >= over:
        cures.append("--overflow drop-oldest leaves out the oldest turns")
    longest = max((p for p in parts if p.kind in ("prompt", "user")), key=lambda p: p.tokens, default=None)
    if longest is not None and longest.tokens > over + 1:
        what = "the prompt" if longest.kind == "prompt" else "the longest message"
        cures.append(f"--overflow truncate-prompt cuts the beginning of {what}")
    return cures


def _shorter(parts: Sequence[BudgetPart], over: int) -> str:
    """Name what can be shortened by `over` tokens: the longest variable, else the user's longest text."""
    written = [p for p in parts if p.kind in ("prompt", "system", "user")]
    last = next((p.label for p in reversed(written) if p.kind == "user"), "")
    variables = [p for p in parts if p.kind == "variable"]
    for group in (variables, written):
        longest = max(group, key=lambda part: part.tokens, default=None)
        if longest is not None and longest.tokens > over:
            if longest.kind == "user":
                return "the last message" if longest.label == last else f"message {longest.label}"
            return {"prompt": "the prompt", "system": "the system prompt"}.get(longest.kind, longest.label)
    return "the prompt" if sum(p.tokens for p in (*variables, *written)) > over else ""


def check_overflow(value: object) -> Overflow:
    """Return `value` if it is a way to treat a prompt that does not fit."""
    if value not in OVERFLOWS:
        raise OptionError(f"overflow is {value!r}; expected one of {', '.join(OVERFLOWS)}.")
    return value  # type: ignore[return-value]
