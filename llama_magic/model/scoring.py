"""How likely given texts are after a prompt, all their tokens counted; nothing is drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from llama_magic.errors import BackendError, ContextOverflowError, InputTypeError, OptionError
from llama_magic.model.asked import Beside
from llama_magic.request.backend import Scores
from llama_magic.request.vectors import as_texts
from llama_magic.words.given import quoted

if TYPE_CHECKING:
    from llama_magic.model.answer import Assembler
    from llama_magic.model.call import Calls
    from llama_magic.request.request import Request


@dataclass(frozen=True)
class Texts:
    """Texts to score, as tokens: each as the tokenizer cuts it by itself, none of it a control token.

    With `end`, the token that ends a turn counts as the last one of each.
    """

    tokens: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, calls: Calls, texts: object, *, end: bool = False) -> Texts:
        """Return them checked. Raises `InputTypeError` and `OptionError`."""
        if isinstance(texts, str):
            raise InputTypeError(f"The texts are {quoted(texts)}; expected a list of texts, one at least.")
        texts = as_texts(texts)
        if not texts:
            raise InputTypeError("The texts are an empty list; expected one text at least.")
        last = (_ending(calls),) if end else ()
        tokenizer = calls.backend.tokenizer
        made = []
        for place, text in enumerate(texts):
            if (least := tokenizer.at_least(text)) > calls.window:
                raise ContextOverflowError(
                    f"Text {place} to score has at least {least:,} tokens, and the window {calls.window:,}.",
                    prompt_tokens=0,
                    max_tokens=least,
                    window=calls.window,
                    remedy="Score a part of it at a time.",
                )
            tokens = tuple(tokenizer.tokenize(text))
            if not tokens:
                raise OptionError("A text to score is empty.", remedy="Write at least one character.")
            made.append((*tokens, *last))
        return cls(tuple(made))

    @property
    def longest(self) -> int:
        """The tokens of the longest."""
        return max(map(len, self.tokens))


def _ending(calls: Calls) -> int:
    """Return the token that ends an answer in this model's template."""
    tokenizer = calls.backend.tokenizer
    ids = (tokenizer.special_id(text) for text in calls.formatter.stop)
    return next((token for token in ids if token is not None), tokenizer.eos_id)


def prepare(calls: Calls, prompt: Any, texts: Texts, beside: Beside | None = None) -> Assembler:
    """Return the prompt as a call: a text as it stands, or a conversation up to its answer.

    Raises `ContextOverflowError` where prompt and longest text do not fit the window.
    """
    options = {"max_tokens": texts.longest}
    if isinstance(prompt, str):
        return calls.text(prompt, None, options, "score")
    return calls.chat("score", prompt, None, options, beside or Beside())


def check_scores(calls: Calls) -> None:
    """Raise `BackendError` for a source of tokens that does not say how likely a text is."""
    backend = calls.backend
    if backend.local is None and not (isinstance(backend, Scores) and backend.capabilities.scores):
        raise BackendError(
            f"{calls.name!r} writes its tokens elsewhere, and does not say how likely a text is.",
            remedy="Load the model here, or connect to a server that says it: llama-server, vLLM, lm.serve.",
        )


def score(calls: Calls, rows: Sequence[tuple[Request, Texts]]) -> list[list[float]]:
    """Return the natural-log probability of each text of each row, after the prompt of its request.

    In this process they are read together: what prompts begin with alike once, many rows in a batch.
    """
    check_scores(calls)
    backend = calls.backend
    if isinstance(backend, Scores):
        begun = [backend.score(request, texts.tokens) for request, texts in rows]
        try:
            return [list(map(sum, one.wait())) for one in begun]
        finally:
            for one in begun:
                one.cancel()
    from llama_magic.engine.scoring.score import score as in_engine  # for weight: llama.cpp

    found = in_engine(backend.local, [(request.prompt, texts.tokens) for request, texts in rows])
    return [list(map(sum, row)) for row in found]
