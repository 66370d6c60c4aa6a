"""How measured speeds look: llama-bench's table."""

from __future__ import annotations

from llama_magic.display.static.doc import Grid, Head, Line, Node
from llama_magic.display.views.view import view
from llama_magic.experiments.throughput import Bench
from llama_magic.words import amounts
from llama_magic.words.counting import counted
from llama_magic.words.tables import Table


@view.register(Bench)
def bench(found: Bench) -> list[Node]:
    """Show tokens a second of each test, mean and standard deviation, and what it was measured on."""
    rows = tuple(
        (speed.test, _what(speed.n_prompt, speed.n_gen), f"{speed.mean:,.1f} ± {speed.deviation:,.1f}")
        for speed in found.speeds
    )
    times = counted(len(found.speeds[0].samples), "repetition") if found.speeds else "nothing measured"
    return [
        Head("bench", f"{found.model} · {times}"),
        Grid(Table(("test", "", "tokens a second"), rows)),
        Line(_facts(found), dim=True),
        *(Line(note, tone="warn") for note in found.notes),
    ]


def _what(n_prompt: int, n_gen: int) -> str:
    return f"reads {counted(n_prompt, 'token')}" if n_prompt else f"writes {counted(n_gen, 'token')}"


def _facts(found: Bench) -> str:
    facts = found.facts
    words = [str(facts["model_type"])] if "model_type" in facts else []
    if "model_size" in facts:
        words += [amounts.size(facts["model_size"]), f"{amounts.count(facts['model_n_params'])} parameters"]
    if "n_threads" in facts:
        words.append(counted(facts["n_threads"], "thread"))
    if "n_batch" in facts:
        words.append(f"batch {facts['n_batch']:,}, {facts['n_ubatch']:,} a step")
    if "type_k" in facts:
        words.append(f"KV {facts['type_k']}")
    return " · ".join(words) or "mean ± standard deviation"
