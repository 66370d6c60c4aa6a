"""Answers whose beginning is given: by the caller, or by an answer that another one goes on from."""

from __future__ import annotations

from typing import TYPE_CHECKING

from llama_magic.structured import Begun

if TYPE_CHECKING:
    from llama_magic.model.prompt import Prompt
    from llama_magic.request.matcher import Constraint
    from llama_magic.request.tokenizer import Tokenizer


def begun(constraint: Constraint | None, prompt: Prompt, tokenizer: Tokenizer) -> Constraint | None:
    """Return the constraint for an answer to `prompt`, which may hold its beginning.

    Raises `StructuredOutputError` where no answer begins so.
    """
    if constraint is None or not prompt.begun:
        return constraint
    tokens = list(prompt.begun)
    if not all(map(tokenizer.token_bytes, tokens)):  # masks know no control tokens
        tokens = tokenizer.tokenize(prompt.begun_text)
    return Begun(constraint, tokens, prompt.begun_text)
