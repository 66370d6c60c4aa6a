"""The view of an error: its kind, its message, its remedy."""

from __future__ import annotations

from llama_magic.display.static.doc import Code, Fold, Head, Line, Node
from llama_magic.display.views import gauge
from llama_magic.display.views.view import view
from llama_magic.errors import (
    ContextOverflowError,
    GenerationInterrupted,
    LlamaMagicError,
    StructuredOutputError,
)
from llama_magic.model.results import Budget, BudgetPart

_KINDS = ("template", "system", "user", "assistant", "tool")


@view.register(BaseException)
def error(e: BaseException) -> list[Node]:
    """Show an error: its kind, its message, its remedy; an overflow with the gauge that shows it."""
    if isinstance(e, GenerationInterrupted):
        return [Line(f"Interrupted: {e.words}.", dim=True)]
    out: list[Node] = [Head(type(e).__name__, tone="bad")]
    if isinstance(e, ContextOverflowError):
        out.append(gauge.bar(_overflow(e), legend=True))
    if not isinstance(e, LlamaMagicError):
        return [*out, Line(str(e))]
    out.append(Line(e.message))
    if e.remedy:
        out.append(Line(e.remedy))
    if isinstance(e, StructuredOutputError) and e.text:
        out.append(Fold("the answer so far", (Code(e.text),)))
    return out


def _overflow(e: ContextOverflowError) -> Budget:
    prompt = [(label, tokens) for label, tokens in e.parts if label != "reserved answer"]  # which has its own
    parts = tuple(BudgetPart(label, _kind(label), tokens) for label, tokens in prompt)
    return Budget(e.window, e.prompt_tokens, e.max_tokens, parts)


def _kind(label: str) -> str:
    known = next((name for name in _KINDS if label.startswith(name)), "")
    return known or ("variable" if "{{" in label else "prompt")
