"""Views that take a model apart: token strip, read-through, sampler chain and trace, KV cache."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from llama_magic.display._protocols import ReadToken, SamplerTrace, TokenStrip, TraceStage
from llama_magic.display.doc import Answer, Bar, Fold, Grid, Head, Line, Node, Piece, Segment, Strip
from llama_magic.display.escape import blanks_shown
from llama_magic.display.table import Share, Table
from llama_magic.display.units import size

_MAX_PIECES = 2000  # shown; more are counted
_LEADERS = 5
_SURPRISES = 10


def token_strip(strip: TokenStrip) -> list[Node]:
    """Show tokens side by side, and their ids in a table behind a fold."""
    shown = list(strip.tokens)[:_MAX_PIECES]
    special = sum(token.special for token in strip.tokens)
    details = f"{strip.count:,} tokens" + (f", {special:,} of them control tokens ⟦…⟧" if special else "")
    out: list[Node] = [Head("tokens", details)]
    out.append(Strip(tuple(Piece(token.text, token.id, token.special) for token in shown)))
    if strip.count > len(shown):
        out.append(Line(f"The first {len(shown):,} are shown.", dim=True))
    rows = tuple((str(token.id), _named(token.text, token.special)) for token in shown)
    out.append(Fold("ids", (Grid(Table(("id", "text"), rows)),), brief=True))
    return out


def _named(text: str, special: bool) -> str:
    return f"⟦{text}⟧" if special else blanks_shown(text)


def read_through(read: Any) -> list[Node]:
    """Show a text token by token, shaded by surprise (bits), then what surprised most."""
    tokens: Sequence[ReadToken] = read.tokens
    known = [(i, _bits(token)) for i, token in enumerate(tokens) if token.logprob is not None]
    total = sum(bits for _, bits in known)
    mean = total / len(known) if known else 0.0
    words = (
        f"{len(tokens):,} tokens · {total:,.1f} bits · {mean:.2f} bits a token · perplexity {2**mean:,.2f}"
    )
    pieces = tuple(
        Piece(
            t.text,
            getattr(t, "id", getattr(t, "token_id", None)),
            hint=_hint(t),
            shade=min(1.0, _bits(t) / 16),
        )
        for t in tokens[:_MAX_PIECES]
    )
    worst = sorted(known, key=lambda pair: -pair[1])[:_SURPRISES]
    rows = tuple(
        (i + 1, blanks_shown(tokens[i].text), round(bits, 2), tokens[i].rank, _expected(tokens[i]))
        for i, bits in worst
    )
    table = Table(("place", "token", "bits", "rank", "expected instead"), rows, caption="what surprised most")
    return [Head("surprise", words), Strip(pieces), Grid(table)]


def _bits(token: ReadToken) -> float:
    return 0.0 if token.logprob is None else max(0.0, -token.logprob / math.log(2))


def _hint(token: ReadToken) -> str:
    if token.logprob is None:
        return "nothing before it"
    return f"{_bits(token):.2f} bits, rank {token.rank}"


def _expected(token: ReadToken) -> str:
    """Say the expected token: a text, a (text, probability) pair, or a sequence of such pairs."""
    expected = token.expected
    if isinstance(expected, (list, tuple)) and expected:
        expected = expected[0]
        if isinstance(expected, (list, tuple)):
            expected = next((item for item in expected if isinstance(item, str)), "")
    return blanks_shown(str(getattr(expected, "text", expected) or ""))


def sampler_trace(trace: SamplerTrace) -> list[Node]:
    """Show what each sampler left of the next token's distribution: survivors, entropy, mass, leaders."""
    rows = []
    before: Sequence[tuple[str, float]] = ()
    for stage in trace.stages:
        rows.append(
            (
                _stage(stage),
                stage.survivors,
                round(stage.entropy_bits, 2),
                f"{stage.mass_kept:.1%}",
                _leaders(stage, before),
            )
        )
        before = stage.leaders
    headers = ("stage", "survivors", "entropy, bits", "mass kept", "leading candidates")
    drawn = trace.drawn
    text = getattr(drawn, "text", drawn)
    return [Head("x-ray", f"drawn: {blanks_shown(str(text))}"), Grid(Table(headers, tuple(rows)))]


def _stage(stage: TraceStage) -> str:
    parameters = stage.parameters
    if isinstance(parameters, Mapping):
        parameters = ", ".join(_parameter(stage.name, name, value) for name, value in parameters.items())
    return f"{stage.name} {parameters}" if parameters not in (None, "", ()) else stage.name


def _parameter(stage: str, name: str, value: Any) -> str:
    """Say `40` for the stage's own number, `base 1.75` for others."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if name == stage else f"{name} {text}"


def _leaders(stage: TraceStage, before: Sequence[tuple[str, float]]) -> tuple[Share, ...]:
    left = {text for text, _ in stage.leaders}
    shares = [Share(blanks_shown(text), share) for text, share in stage.leaders[:_LEADERS]]
    if len(stage.leaders) >= stage.survivors:  # all that is left is listed, so what is missing was cut
        shares += [
            Share(blanks_shown(text), 0.0, gone=True) for text, _ in before[:_LEADERS] if text not in left
        ][:2]
    return tuple(shares)


def sampling(chain: Any) -> list[Node]:
    """Show a sampler chain in the order in which it runs, with the stages that are switched off."""
    rows = tuple(
        (number, name, _stage_parameters(chain, name)) for number, name in enumerate(chain.samplers, 1)
    )
    return [Head("sampler", "in the order it runs"), Grid(Table(("#", "stage", "parameters"), rows))]


def _stage_parameters(chain: Any, name: str) -> str:
    prefixes = {
        "penalties": ("repeat_penalty", "repeat_last_n", "presence_penalty", "frequency_penalty"),
        "temperature": ("temperature", "dynatemp_range", "dynatemp_exponent"),
        "adaptive_p": ("adaptive_target", "adaptive_decay"),
    }
    data = chain.to_dict()
    names = prefixes.get(name) or [key for key in data if key == name or key.startswith(name + "_")]
    return ", ".join(f"{key} {data[key]}" for key in names if key in data)


def kv_state(state: Any) -> list[Node]:
    """Show the KV cache: cells used and free, bytes, and what each sequence holds."""
    used, total = (
        _first(state, "used", "used_cells", "cells_used"),
        _first(state, "total", "n_cells", "cells", "cells_total"),
    )
    free = _first(state, "free", "free_cells", "cells_free")
    if total is None and used is not None and free is not None:
        total = used + free
    n_bytes = _first(state, "bytes", "n_bytes", "size_bytes")
    out: list[Node] = []
    words = [
        f"{used:,} of {total:,} cells used" if used is not None and total else "",
        size(n_bytes) if n_bytes else "",
    ]
    out.append(Head("KV cache", " · ".join(word for word in words if word)))
    if used is not None and total:
        out.append(Bar((Segment("used", "prompt", used),), total))
        out.append(Line(f"{total - used:,} cells free", dim=True))
    sequences = list(_first(state, "sequences", "seqs") or ())
    if sequences:
        out.append(Grid(_sequence_table(sequences)))
        texts = [(str(_first(s, "id", "seq_id", "name")), str(_first(s, "text") or "")) for s in sequences]
        out.extend(Fold(f"sequence {name}", (Answer(text),)) for name, text in texts if text)
    return out


def _sequence_table(sequences: Sequence[Any]) -> Table:
    rows = tuple(
        (str(_first(s, "id", "seq_id")), str(_first(s, "owner", "name", "label") or ""),
         _first(s, "n_tokens", "tokens", "length"), _first(s, "reused", "reused_tokens"))
        for s in sequences
    )  # fmt: skip
    counted = tuple((a, b, len(n) if isinstance(n, (list, tuple)) else n, r) for a, b, n, r in rows)
    return Table(("sequence", "of", "tokens", "reused"), counted)


def _first(obj: Any, *names: str) -> Any:
    for name in names:
        value = obj.get(name) if isinstance(obj, Mapping) else getattr(obj, name, None)
        if value is not None and not callable(value):
            return value
    return None
