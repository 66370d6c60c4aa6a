"""Views that take a model apart: token strip, read-through, sampler chain and trace, KV cache."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from typing import Any

from llama_magic.display.live.protocols import ReadToken, SamplerTrace, TokenPiece, TokenStrip, TraceStage
from llama_magic.display.static.doc import (
    Answer,
    Bar,
    Code,
    Fold,
    Grid,
    Head,
    Line,
    Node,
    Picture,
    Piece,
    Segment,
    Strip,
)
from llama_magic.words.amounts import size
from llama_magic.words.counting import counted
from llama_magic.words.harmless import blanks_shown, one_line
from llama_magic.words.tables import Share, Table

_MAX_PIECES = 2000  # shown; more are counted
_LEADERS = 5
_SURPRISES = 10


def token_strip(strip: TokenStrip) -> list[Node]:
    """Show tokens side by side, and their ids in a table behind a fold."""
    shown = list(strip.tokens)[:_MAX_PIECES]
    special = sum(token.special for token in strip.tokens)
    details = counted(strip.count, "token") + (f", {special:,} of them control tokens ⟦…⟧" if special else "")
    out: list[Node] = [Head("tokens", details), *_strips(shown)]
    if strip.count > len(shown):
        out.append(Line(f"The first {len(shown):,} are shown.", dim=True))
    rows = tuple((str(token.id), _named(token.text, token.special)) for token in shown)
    out.append(Fold("ids", (Grid(Table(("id", "text"), rows)),), brief=True))
    return out


def _strips(tokens: Sequence[TokenPiece]) -> list[Node]:
    """Show tokens in one strip, or a conversation's in one for each stretch, after the name of its role."""
    out: list[Node] = []
    for role, group in itertools.groupby(tokens, key=lambda token: getattr(token, "role", "")):
        if role:
            out.append(Line(role, dim=True))
        out.append(Strip(tuple(Piece(t.text, t.id, t.special, kind=role) for t in group)))
    return out or [Strip(())]


def _named(text: str, special: bool) -> str:
    return f"⟦{text}⟧" if special else blanks_shown(text)


def read_through(read: Any) -> list[Node]:
    """Show a text token by token, shaded by surprise (bits), then what surprised most."""
    tokens: Sequence[ReadToken] = read.tokens
    known = [(i, _bits(token)) for i, token in enumerate(tokens) if token.logprob is not None]
    total = sum(bits for _, bits in known)
    mean = total / len(known) if known else 0.0
    words = f"{counted(len(tokens), 'token')} · "
    if known:
        words += f"{total:,.1f} bits · {mean:.2f} bits a token · perplexity {2**mean:,.2f}"
    else:
        words += "– bits · perplexity –"
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
    out: list[Node] = [Head("surprise", words), Strip(pieces)]
    if getattr(read, "interrupted", False):
        out.append(Line("The reading was stopped here, before the end of the text.", dim=True))
    if not known:
        out.append(Line("Nothing was measured: nothing comes before the first token.", dim=True))
        return out
    return [*out, Grid(table)]


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


def sampler_trace(
    trace: SamplerTrace, warnings: Sequence[str] = (), *, leaders: int = _LEADERS
) -> list[Node]:
    """Show what each sampler left of the next token's distribution: survivors, entropy, mass, leaders.

    Those of its notes that are `warnings` stand out.
    """
    rows = []
    before: Sequence[tuple[str, float]] = ()
    for stage in trace.stages:
        rows.append(
            (
                _stage(stage),
                stage.survivors,
                round(stage.entropy_bits, 2),
                f"{stage.mass_kept:.1%}",
                _leaders(stage, before, leaders),
            )
        )
        before = stage.leaders
    headers = ("stage", "survivors", "entropy, bits", "mass kept", "leading candidates")
    drawn = trace.drawn
    text, answer = str(getattr(drawn, "text", drawn)), getattr(trace, "answer", None)
    if getattr(trace, "exact", True) or text == answer:
        words = [f"drawn: {blanks_shown(text)}"]
    else:
        words = [f"would draw: {blanks_shown(text)}"]
        words += [f"the answer has: {blanks_shown(answer)}"] if answer is not None else []
    step, context = getattr(trace, "step", None), getattr(trace, "context", "")
    if step is not None:
        words.append(f"step {step:,} after “{one_line(context)}”" if context else f"step {step:,}")
    table = Grid(Table(headers, tuple(rows)))
    notes = [
        Line(note, tone="warn") if note in warnings else Line(note, dim=True)
        for note in getattr(trace, "notes", ())
    ]
    return [Head("x-ray", " · ".join(words)), table, *notes]


def _stage(stage: TraceStage) -> str:
    parameters = stage.parameters
    if isinstance(parameters, Mapping):
        parameters = ", ".join(_parameter(stage.name, name, value) for name, value in parameters.items())
    return f"{stage.name} {parameters}" if parameters not in (None, "", ()) else stage.name


def _parameter(stage: str, name: str, value: Any) -> str:
    """Say `40` for the stage's own number, `base 1.75` for others."""
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return text if name == stage else f"{name} {text}"


def _leaders(stage: TraceStage, before: Sequence[tuple[str, float]], most: int) -> tuple[Share, ...]:
    left = {text for text, _ in stage.leaders}
    shares = [Share(blanks_shown(text), share) for text, share in stage.leaders[:most]]
    if len(stage.leaders) >= stage.survivors:  # all that is left is listed, so what is missing was cut
        shares += [
            Share(blanks_shown(text), 0.0, gone=True) for text, _ in before[:most] if text not in left
        ][:2]
    return tuple(shares)


def sampling(chain: Any) -> list[Node]:
    """Show a sampler chain in the order in which it runs, with the stages that are switched off."""
    from llama_magic.microscope.advice import advise, is_off

    rows = tuple(
        (number, name, "off" if is_off(chain, name) else "", _stage_parameters(chain, name))
        for number, name in enumerate(chain.samplers, 1)
    )
    order = Line(f'--samplers "{";".join(chain.samplers)}"', dim=True)
    notes = [Line(note, tone="warn") for note in advise(chain)]
    table = Grid(Table(("#", "stage", "", "parameters"), rows))
    return [Head("sampler", "in the order it runs"), table, order, *notes]


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
        out += [Grid(_sequence_table(state)), Picture(state.svg())]
        out.append(Fold("prefix tree in words", (Code(state.tree_text()),)))
        out += [Fold(f"text of {s.id}", (Answer(s.text),), brief=True) for s in state.sequences]
    else:
        out.append(Line("It holds no sequence.", dim=True))
    return out


def _cell_words(state: Any) -> str:
    lanes = ", ".join(f"{lane.name} {lane.used:,} of {lane.cells:,}" for lane in state.lanes)
    kinds = state.type_k if state.type_k == state.type_v else f"{state.type_k} and {state.type_v}"
    words = [f"{state.free:,} cells free ({lanes})", f"{size(state.bytes_per_token)} a token in {kinds}"]
    if state.sliding_window:
        words.append(f"sliding-window layers look back {state.sliding_window:,} tokens")
    budget = sum(lane.host_budget for lane in state.lanes)
    words.append(f"host memory {size(state.host_bytes)} of {size(budget)}")
    words += [f"fork {name}: {counted(count, 'token')}" for name, count in state.forks]
    return " · ".join(words)


def _last_call(last: Any) -> str:
    words = f"Last call: {last.reused:,} of {last.prompt_tokens:,} prompt tokens reused, {last.read:,} read"
    if last.reused and last.saved_s is not None:
        words += f"; about {last.saved_s:.2f} s saved"
    return f"{words}."


def _sequence_table(state: Any) -> Table:
    rows = tuple(
        (s.id, s.owner, s.n_tokens, min(s.n_read, s.n_tokens), size(s.bytes),
         "–" if s.span is None else f"{s.span[0]:,} to {s.span[1]:,}")
        for s in state.sequences
    )  # fmt: skip
    return Table(("sequence", "held by", "tokens", "of them read", "bytes", "positions"), rows)
