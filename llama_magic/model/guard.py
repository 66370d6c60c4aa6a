"""The guard of the context window: what does not fit is refused before any decode, with cures that work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from llama_magic import fit
from llama_magic.doors import option
from llama_magic.errors import ContextOverflowError, OptionError, StructuredOutputError
from llama_magic.words.counting import counted
from llama_magic.words.given import quoted

if TYPE_CHECKING:
    from llama_magic.model.prompt import Prompt
    from llama_magic.model.results import BudgetPart
    from llama_magic.structured import Constraint

Overflow = Literal["error", "drop-oldest", "truncate-prompt"]
OVERFLOWS: tuple[Overflow, ...] = get_args(Overflow)
DEFAULT_MAX_TOKENS = 256


def check_budget(constraint: Constraint, limit: int, begun: int = 0) -> None:
    """Refuse an answer whose shortest form does not fit the tokens it may take, after those it has."""
    least = max(0, constraint.min_tokens() - begun)
    if least > limit:
        raise StructuredOutputError(
            f"The shortest answer takes {least:,} tokens, but at most {limit:,} are reserved for it.",
            remedy=f"Allow at least {least:,} tokens ({option('max_tokens', least)}), or ask for less.",
        )


@dataclass(frozen=True)
class Guard:
    """Refuse or cure what does not fit, before any decode.

    `writes` says that the call writes, and so takes `max_tokens` and `overflow`; `score` and `xray` do not.
    """

    window: int
    overflow: Overflow
    n_ctx_train: int
    kv_bytes_per_token: int
    writes: bool = True

    def reserve(self, max_tokens: int | None) -> int:
        """Return the tokens to keep for the answer: those asked for, else 256 or a quarter of the window."""
        return max_tokens if max_tokens is not None else max(1, min(DEFAULT_MAX_TOKENS, self.window // 4))

    def check(self, prompt: Prompt, max_tokens: int | None) -> int:
        """Return the tokens reserved for the answer, or raise `ContextOverflowError`."""
        wanted = self.reserve(max_tokens)
        if len(prompt.ids) + wanted <= self.window:
            return wanted
        raise self._error(prompt, wanted)

    def too_long(self, least: int, max_tokens: int | None, most_of_it: str) -> ContextOverflowError:
        """Return the error for a prompt of `least` tokens or more, which were not all counted.

        `most_of_it` names its longest text.
        """
        wanted = self.reserve(max_tokens)
        return ContextOverflowError(
            f"The prompt has at least {counted(least, 'token')} (a lower bound, not counted to the end), but "
            f"the context window holds {self.window:,}, {wanted:,} of which are reserved for the answer. "
            f"Most of it is {most_of_it}.",
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
        filled = ", ".join(f"{label}{':' * label[-1:].isdigit()} {tokens:,}" for label, tokens in parts)
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
        if self.writes and wanted > over:
            cures.append(
                f"ask for at most {counted(wanted - over, 'token')} ({option('max_tokens', wanted - over)})"
            )
        cures += _cuts(prompt.weights, over, self.overflow) if self.writes else []
        needed = fit.round_context(len(prompt.ids) + wanted)
        if needed <= self.n_ctx_train:
            cost = (needed - self.window) * self.kv_bytes_per_token
            cures.append(f"load it with {option('ctx', needed)} (+{cost / 1e6:,.0f} MB)")
        if not cures:
            cures.append(f"send and ask for less: both together at most {counted(self.window, 'token')}")
        text = ", or ".join(cures)
        return text[0].upper() + text[1:] + "."


def _cuts(weights: Sequence[tuple[str, int]], over: int, tried: Overflow) -> list[str]:
    """Return the ways of `--overflow` that would make it fit, by the tokens of each message or of the text.

    Not the one that was tried; and where turns were left out, what is left says nothing of all of them.
    """
    cures = []
    if tried == "drop-oldest" and [role for role, _ in weights] != ["prompt"]:
        return []
    last = max((i for i, (role, _) in enumerate(weights) if role == "user"), default=0)
    old = sum(tokens for role, tokens in weights[:last] if role not in ("system", "developer"))
    if old >= over and tried != "drop-oldest":
        cures.append(f"{option('overflow', 'drop-oldest')} leaves out the oldest turns")
    texts = [(tokens, role) for role, tokens in weights if role in ("prompt", "user", "tool")]
    longest, role = max(texts, default=(0, ""))
    if longest > over + 1 and tried != "truncate-prompt":
        what = "the prompt" if role == "prompt" else "the longest message"
        cures.append(f"{option('overflow', 'truncate-prompt')} cuts the beginning of {what}")
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
    for known in OVERFLOWS:
        if isinstance(value, str) and value == known:
            return known
    raise OptionError(f"overflow is {quoted(value)}; expected one of {', '.join(OVERFLOWS)}.")
