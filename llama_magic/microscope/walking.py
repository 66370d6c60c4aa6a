"""Logits sent through a sampler chain, stage by stage.

The stages are llama.cpp's own samplers, applied one after the other to a copy of the logits
(`llama_sampler_chain_get`, `llama_sampler_apply`); nothing here imitates them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from llama_magic.engine.native import SamplerChain
from llama_magic.engine.steps import Step
from llama_magic.microscope.advice import parameters_of
from llama_magic.microscope.tokens import piece_text
from llama_magic.microscope.tracing import Drawn, TraceStage
from llama_magic.request.sampling import Sampling
from llama_magic.request.stages import STAGES

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llama_magic.engine.native.weights import Weights
    from llama_magic.request.tokenizer import Tokenizer

LEADERS = 10
_ONLY_THE_DRAW = Sampling(samplers=())
_DRAWING = {"dist", "greedy", *(name for name, stage in STAGES.items() if stage.does == "draws")}


def begin(known: Step, tokenizer: Tokenizer) -> tuple[TraceStage, ...]:
    """Return the stages before the chain: the model's logits, and what a constraint left of them."""
    logits = known.logits
    assert logits is not None
    logits = np.maximum(logits, np.finfo(np.float32).min)  # what a model gave -inf is cut by no stage
    ids = np.arange(len(logits), dtype=np.int32)
    base = _softmax(logits)[0]
    stages = [_stage("logits", {}, ids, logits, base, tokenizer)]
    if known.allowed is not None:
        stages.append(_stage("constraint", {}, ids, masked(logits, known.allowed), base, tokenizer))
    return tuple(stages)


def walk(
    chain: SamplerChain, start: tuple[TraceStage, ...], sampling: Sampling, tokenizer: Tokenizer
) -> tuple[tuple[TraceStage, ...], Drawn]:
    """Send the logits that `begin` returned through a chain; return every stage, and the draw."""
    stages = list(start)
    base = start[0].probabilities
    logits = spread(start[-1], start[0])
    token = -1
    for name, rows, selected in chain.walk(logits):
        stages.append(_stage(name, parameters_of(sampling, name), rows["id"], rows["logit"], base, tokenizer))
        if selected >= 0:
            token = int(rows["id"][selected])
    last = stages[-1]
    share = float(last.probabilities[last.ids == token].sum())
    if chain.stages[-1] == "greedy":
        share = 1.0
    return tuple(stages), Drawn(token, piece_text(tokenizer, token), share)


def spread(stage: TraceStage, whole: TraceStage) -> NDArray[np.float32]:
    """Return the logits of a stage for all tokens of `whole`, -inf for those that it cut."""
    if len(stage.ids) == len(whole.ids):  # none is cut, so they stand in order
        return stage.logits.copy()
    logits = np.full(len(whole.probabilities), -np.inf, np.float32)
    logits[stage.ids] = stage.logits
    return logits


def draw_alike(
    weights: Weights, chain: SamplerChain, logits: NDArray[np.float32], seeds: Iterable[int], skip: int
) -> Iterator[int]:
    """Yield what each seed draws, the `skip + 1`-th number of each; the stages before it run once."""
    rows = chain.before_the_draw(logits)
    if chain.stages[-1] == "greedy":
        token = int(rows["id"][chain.draw(rows)])
        yield from (token for _ in seeds)
        return
    for seed in seeds:
        last = SamplerChain(weights, _ONLY_THE_DRAW, seed)
        try:
            last.skip_draws(skip)
            yield int(rows["id"][last.draw(rows)])
        finally:
            last.close()


def likeliest(known: Step, k: int, tokenizer: Tokenizer) -> list[tuple[int, str, float]]:
    """Return the likeliest of the tokens that were allowed: id, text, and probability before any mask."""
    assert known.logits is not None
    shares = _softmax(known.logits)[0]
    held = shares if known.allowed is None else np.where(known.allowed, shares, np.float32(-1))
    few = min(k, len(held))
    best = np.argpartition(held, -few)[-few:]
    best = best[np.argsort(-held[best], kind="stable")]
    return [(int(i), piece_text(tokenizer, int(i)), float(shares[i])) for i in best if held[i] >= 0]


def probability(logits: NDArray[np.float32], token: int) -> float:
    """Return the probability of one token (0 to 1)."""
    return float(_softmax(logits)[0][token])


def masked(logits: NDArray[np.float32], allowed: NDArray[np.bool_] | None) -> NDArray[np.float32]:
    return logits if allowed is None else np.where(allowed, logits, np.float32(-np.inf))


def _stage(
    name: str,
    parameters: dict[str, Any],
    ids: NDArray[np.int32],
    logits: NDArray[np.float32],
    base: NDArray[np.float32],
    tokenizer: Tokenizer,
) -> TraceStage:
    alive = logits > -np.inf
    if not alive.all():
        ids, logits = ids[alive], logits[alive]
    p, entropy = _softmax(logits)
    k = min(LEADERS, len(p))
    best = np.argpartition(p, -k)[-k:] if k < len(p) else np.arange(k)
    best = best[np.argsort(-p[best], kind="stable")]
    leaders = tuple((piece_text(tokenizer, int(ids[i])), float(p[i])) for i in best)
    whole = len(ids) == len(base)
    mass = 1.0 if whole else min(1.0, float(base[ids].sum(dtype=np.float64)))
    return TraceStage(name, parameters, len(ids), entropy, mass, leaders, np.array(ids), np.array(logits), p)


@np.errstate(over="ignore")  # of numbers far apart: what is left is -inf
def _softmax(logits: NDArray[np.float32]) -> tuple[NDArray[np.float32], float]:
    """Return probabilities (float32) and their entropy in bits."""
    shifted = logits - logits.max()
    weights = np.exp(shifted)
    total = float(weights.sum(dtype=np.float64))
    # H = log Z - sum(w * s) / Z; a weight that is 0 adds nothing, also where s is -inf.
    spread = float(np.dot(weights, np.maximum(shifted, np.float32(-1e4))))
    entropy = (math.log(total) - spread / total) / math.log(2)
    return weights / np.float32(total), max(0.0, entropy)


def idle(stages: Sequence[TraceStage]) -> tuple[str, ...]:
    """Name the stages that changed nothing at this step."""
    same = [
        after.name
        for before, after in itertools.pairwise(stages)
        if after.name not in _DRAWING
        and before.survivors == after.survivors
        and math.isclose(before.entropy_bits, after.entropy_bits, abs_tol=1e-6)
    ]
    return (f"Changed nothing at this step: {', '.join(same)}.",) if same else ()
