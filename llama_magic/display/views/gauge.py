"""The context gauge: how a window is filled, as segments of a bar and in words."""

from __future__ import annotations

from dataclasses import replace

from llama_magic.display.static.doc import Bar, Segment
from llama_magic.model.earlier import gathered
from llama_magic.model.results import Budget


def segments(budget: Budget, written: int = 0) -> tuple[Segment, ...]:
    """Return the bar's segments: the prompt's parts in order, the answer so far, what is reserved for it."""
    parts = [Segment(part.label, part.kind, part.tokens) for part in gathered(budget.parts) if part.tokens]
    if not parts and budget.prompt_tokens:
        parts = [Segment("prompt", "prompt", budget.prompt_tokens)]
    answer = [
        Segment("written", "written", written),
        Segment("reserved", "reserved", reserved(budget, written)),
    ]
    return (*parts, *(segment for segment in answer if segment.amount > 0))


def reserved(budget: Budget, written: int) -> int:
    """Return how many tokens are still kept for the answer."""
    return max(0, budget.max_tokens - written)


def bar(budget: Budget, written: int = 0, *, legend: bool = False) -> Bar:
    """Return the gauge's bar; a prompt over the window fills more than all of it."""
    parts = segments(budget, written)
    used = sum(part.amount for part in parts)
    return Bar(parts, max(budget.window, used), legend, budget.window if used > budget.window else None)


def words(
    budget: Budget,
    written: int = 0,
    *,
    forced: int = 0,
    drafts: tuple[int, int] = (0, 0),
    reused: bool = False,
) -> str:
    """Say the gauge in one line. `reused` adds what came from the KV cache, which differs from run to run.

    `drafts` are how many of how many guesses were accepted.
    """
    kept = reserved(budget, written)
    free = max(0, budget.window - budget.prompt_tokens - written - kept)
    for_answer = f" · {kept:,} reserved" if kept else ""
    return f"{_filled(budget, written, forced, drafts, reused)}{for_answer} · {free:,} free"


def ended(budget: Budget, written: int) -> Budget:
    """Return the budget of an answer that has ended: nothing is reserved for it any more."""
    return replace(budget, max_tokens=written)


def _filled(budget: Budget, written: int, forced: int, drafts: tuple[int, int], reused: bool) -> str:
    told = [f"{forced:,} forced"] if forced else []
    told += [f"{drafts[0]:,} of {drafts[1]:,} guesses accepted"] if drafts[1] else []
    not_drawn = f" ({', '.join(told)})" if told else ""
    from_cache = f" ({budget.cached_tokens:,} reused)" if reused and budget.cached_tokens else ""
    return (
        f"{budget.prompt_tokens:,} prompt{from_cache} + {written:,} written{not_drawn}"
        f" of {budget.window:,} tokens"
    )
