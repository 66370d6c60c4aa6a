"""How the numbers of a model look."""

from __future__ import annotations

from llama_magic.display.static.doc import Grid, Head, Node
from llama_magic.display.views.view import view
from llama_magic.model.stats import ModelStats
from llama_magic.words.counting import counted
from llama_magic.words.tables import Table


@view.register(ModelStats)
def stats(s: ModelStats) -> list[Node]:
    """Show what a model was asked, how long it took, what failed."""
    rows = (
        ("requests", s.requests, f"{s.errors} failed, {s.interrupted} stopped, {s.timeouts} out of time"),
        ("prompt", s.prompt_tokens, f"tokens, {s.cached_tokens:,} of them reused"),
        ("written", s.completion_tokens, "tokens"),
        ("guessed ahead", s.drafted_tokens, f"tokens, {s.accepted_tokens:,} of them accepted"),
        ("reading", s.read_per_second, "tokens a second"),
        ("writing", s.tokens_per_second, "tokens a second, one answer's own"),
        ("wait", s.wait(0.5), f"seconds until half of the requests were begun{_most(s.wait(0.95))}"),
        ("first token", s.first_token(0.5), f"seconds until half of them had it{_most(s.first_token(0.95))}"),
    )
    return [
        Head("stats", f"{s.name} · {counted(s.requests, 'request')}"),
        Grid(Table(("what", "number", ""), rows)),
    ]


def _most(seconds: float | None) -> str:
    return "" if seconds is None else f"; 95% within {seconds:.3g}"
