"""How the KV cache looks: cells and bytes, every sequence, the prefix tree."""

from __future__ import annotations

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
from llama_magic.engine.snapshot import LastCall
from llama_magic.microscope.cells import KVState, PrefixNode
from llama_magic.words.amounts import size
from llama_magic.words.counting import counted
from llama_magic.words.tables import Table


@view.register(KVState)
def kv_state(state: KVState) -> list[Node]:
    """Show the KV cache: cells and bytes, what the last call reused, every sequence, the prefix tree."""
    words = f"{state.used:,} of {state.total:,} cells used · {size(state.bytes)} of {size(state.bytes_total)}"
    out: list[Node] = [
        Head("KV cache", words),
        Bar((Segment("used", "prompt", state.used),), state.total),
        Line(_cell_words(state), dim=True),
    ]
    if state.last is not None:
        out.append(Line(_last_call(state.last)))
    if state.sequences:
        out += [Grid(_sequence_table(state)), Line("What they hold, drawn as a tree of common beginnings:")]
        out.append(Tree(tuple(map(_branch, state.tree))))
        out += [Fold(f"text of {s.id}", (Answer(s.text),), brief=True) for s in state.sequences]
    else:
        out.append(Line("It holds no sequence.", dim=True))
    return out


def _branch(node: PrefixNode) -> Branch:
    words = f"{node.words()} · {', '.join(node.sequences)}"
    return Branch(words, len(node.token_ids), tuple(map(_branch, node.children)))


def _cell_words(state: KVState) -> str:
    lanes = ", ".join(f"{lane.name} {lane.used:,} of {lane.cells:,}" for lane in state.lanes)
    kinds = state.type_k if state.type_k == state.type_v else f"{state.type_k} and {state.type_v}"
    words = [f"{state.free:,} cells free ({lanes})", f"{size(state.bytes_per_token)} a token in {kinds}"]
    if state.sliding_window:
        words.append(f"sliding-window layers look back {state.sliding_window:,} tokens")
    budget = sum(lane.host_budget for lane in state.lanes)
    words.append(f"host memory {size(state.host_bytes)} of {size(budget)}")
    words += [f"fork {name}: {counted(count, 'token')}" for name, count in state.forks]
    return " · ".join(words)


def _last_call(last: LastCall) -> str:
    words = f"Last call: {last.reused:,} of {last.prompt_tokens:,} prompt tokens reused, {last.read:,} read"
    if last.reused and last.saved_s is not None:
        words += f"; about {last.saved_s:.2f} s saved"
    return f"{words}."


def _sequence_table(state: KVState) -> Table:
    rows = tuple(
        (s.id, s.owner, s.n_tokens, min(s.n_read, s.n_tokens), size(s.bytes),
         "–" if s.span is None else f"{s.span[0]:,} to {s.span[1]:,}")
        for s in state.sequences
    )  # fmt: skip
    return Table(("sequence", "held by", "tokens", "of them read", "bytes", "positions"), rows)
