"""Answers whose beginning is given: by the caller, or by an answer that another one goes on from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from llama_magic.doors import option
from llama_magic.errors import ContextOverflowError
from llama_magic.structured import Begun
from llama_magic.words.counting import counted

if TYPE_CHECKING:
    from llama_magic.model.prompt import Prompt
    from llama_magic.request.matcher import CarriedConstraint
    from llama_magic.request.tokenizer import Tokenizer


def text_of(tokens: Sequence[int], tokenizer: Tokenizer, visible: frozenset[int] = frozenset()) -> str:
    """Return the text of tokens of an answer, without control tokens that are not `visible`."""
    shown = (t for t in tokens if t in visible or t not in tokenizer.control_ids)
    return b"".join(map(tokenizer.piece, shown)).decode("utf-8", "replace")


def begin(
    prompt: Prompt,
    limit: int,
    begun: Sequence[int],
    window: int,
    tokenizer: Tokenizer,
    visible: frozenset[int],
) -> tuple[Prompt, int]:
    """Let the answer to a prompt begin with tokens; return it with what is left for the rest.

    `limit` tokens were to be kept for the answer: it is what the window leaves, where that is less.
    Raises `ContextOverflowError` where it leaves nothing.
    """
    if not begun:
        return prompt, limit
    prompt = prompt.beginning(begun, text_of(begun, tokenizer, visible))
    left = window - len(prompt.ids)
    if left >= limit:
        return prompt, limit
    if left < 1:
        raise ContextOverflowError(
            f"Prompt and beginning have {counted(len(prompt.ids), 'token')}, and the window {window:,}.",
            prompt_tokens=len(prompt.ids),
            max_tokens=limit,
            window=window,
            parts=tuple((part.label, part.tokens) for part in prompt.parts),
            remedy=f"Go on from an earlier token, or load the model with a larger {option('ctx')}.",
        )
    note = f"The window leaves {counted(left, 'token')} for the rest of the answer."
    return replace(prompt, notes=(*prompt.notes, note)), left


def held(
    constraint: CarriedConstraint | None, prompt: Prompt, tokenizer: Tokenizer
) -> CarriedConstraint | None:
    """Return the constraint for an answer to `prompt`, which may hold its beginning.

    Raises `StructuredOutputError` where no answer begins so.
    """
    if constraint is None or not prompt.begun:
        return constraint
    tokens = list(prompt.begun)
    if not all(map(tokenizer.token_bytes, tokens)):  # masks know no control tokens
        tokens = tokenizer.tokenize(prompt.begun_text)
    return Begun(constraint, tokens, prompt.begun_text)
