"""How the KV cache looks: cells and bytes, every sequence, the prefix tree."""

from __future__ import annotations

from typing import Any

from llama_magic.display.static.doc import (
    Answer,
    Bar,
    Branch,
    Fold,
    Grid,
    Head,
    Line,
    Node,
    Segment,
    Tree,
)
from llama_magic.display.views.view import view
from llama_magic.engine.contexts import CUT
from llama_magic.engine.snapshot import LastCall
from llama_magic.microscope.cells import KVState, PrefixNode
from llama_magic.words.amounts import size
from llama_magic.words.counting import counted
from llama_magic.words.tables import Table

_NAMED = 3  # sequences that share a beginning; of more, how many
_TEXTS = 5  # texts of sequences, each with a line that opens it; of more, one line for all
# What the contexts are for, and the colours that tell them apart.
_LANES = {
    "main": ("main", "answers without a seed, several side by side", "user"),
    "seeded": (
        "seeded",
        "answers with a seed or at temperature 0, kept apart so that every bit is the same again",
        "variable",
    ),
}


@view.register(KVState)
def kv_state(state: KVState) -> list[Node]:
    """Show the KV cache: cells of each context, what was reused last, every sequence, the prefix tree."""
    words = f"{state.used:,} of {state.total:,} cells used · {size(state.bytes)} of {size(state.bytes_total)}"
    used = tuple(Segment(f"{lane.name} context", _LANES[lane.name][2], lane.used) for lane in state.lanes)
    out: list[Node] = [Head("KV cache", words), Bar(used, state.total), Grid(_lane_table(state))]
    out.append(Line(_cell_words(state), dim=True))
    if state.last is not None:
        out.append(Line(_last_call(state.last)))
    if not state.sequences:
        return [*out, Line("It holds no sequence.", dim=True)]
    out.append(Grid(_sequence_table(state)))
    if sum(s.n_tokens for s in state.sequences if s.place == "cells") > state.used:
        out.append(Line("cells that sequences share are counted in each of them", dim=True))
    out.append(Line("What they hold, as a tree of common beginnings; the longer a bar, the more tokens:"))
    out.append(Tree(tuple(map(_branch, state.tree))))
    texts = tuple(Fold(f"text of {s.id}", (Answer(s.text),), brief=True) for s in state.sequences)
    if len(texts) > _TEXTS:
        return [*out, Fold(f"texts of the {len(texts)} sequences", texts)]
    return [*out, *texts]


def _branch(node: PrefixNode) -> Branch:
    names = ", ".join(node.sequences)
    if node.children and len(node.sequences) > _NAMED:  # those below it name them
        names = f"{len(node.sequences)} sequences"
    words = f"{node.words()} · {names}"
    return Branch(words, len(node.token_ids), tuple(map(_branch, node.children)))


def _lane_table(state: KVState) -> Table:
    rows: list[tuple[Any, ...]] = [
        (lane.name, lane.used, lane.cells - lane.used, size(lane.kv_bytes), _LANES[lane.name][1])
        for lane in state.lanes
    ]
    parked = [s for s in state.sequences if s.place != "cells"]
    budget = sum(lane.host_budget for lane in state.lanes)
    if parked:
        why = f"sequences that made room for others, copied back when asked for; {size(budget)} at most"
        rows.append(("parked", sum(s.n_tokens for s in parked), None, size(state.host_bytes), why))
    return Table(("context", "cells used", "free", "memory", "for"), tuple(rows))


def _cell_words(state: KVState) -> str:
    kinds = state.type_k if state.type_k == state.type_v else f"{state.type_k} and {state.type_v}"
    words = [f"a cell keeps what was computed of one token, {size(state.bytes_per_token)} in {kinds}"]
    if state.sliding_window:
        words.append(f"sliding-window layers look back {state.sliding_window:,} tokens")
    words += [f"fork {name}: {counted(count, 'token')}" for name, count in state.forks]
    return " · ".join(words)


def _last_call(last: LastCall) -> str:
    words = f"Last call: {last.reused:,} of {last.prompt_tokens:,} prompt tokens reused, {last.read:,} read"
    if last.reused and last.saved_s is not None:
        words += f"; about {last.saved_s:.2f} s saved"
    return f"{words}. {_why(last)}".rstrip()


def _why(last: LastCall) -> str:
    """Say why nothing was reused; nothing where something was."""
    alike = f"{counted(last.common, 'token')} at the beginning {'is' if last.common == 1 else 'are'} held"
    words = {
        None: "",
        "fresh": "Nothing was to be reused, as it was asked for.",
        "empty": f"The {last.lane} context held nothing yet.",
        "other": f"What the {last.lane} context holds begins otherwise.",
        "short": f"{alike}, and the seeded context "
        f"takes over whole steps of {CUT} only: so every bit is that of a first reading.",
        "state": f"{alike}, but this model keeps one "
        "state for a whole text, which cannot be cut back to them.",
    }
    return words[last.why]


def _sequence_table(state: KVState) -> Table:
    odd = any(s.span not in (None, (0, s.n_tokens - 1)) for s in state.sequences)
    rows = tuple(
        (s.id, s.owner, s.n_tokens, read := min(s.n_read, s.n_tokens), s.n_tokens - read, size(s.bytes))
        + ((("–" if s.span is None else f"{s.span[0] + 1:,} to {s.span[1] + 1:,}"),) if odd else ())
        for s in state.sequences
    )
    headers = ("sequence", "where", "tokens", "read", "written", "memory")
    return Table(headers + (("tokens held",) if odd else ()), rows)
