"""Every sampler of llama.cpp in NumPy, written from its definition: the reference for `xray`.

Each takes candidates (ids, logits float32, sorted?) and returns those that are left, in float32
as llama.cpp computes. Random numbers are `std::mt19937` and libstdc++'s way of using it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np

F = np.float32


@dataclass
class Candidates:
    ids: np.ndarray
    logits: np.ndarray
    sorted: bool = False

    def take(self, keep: Any) -> Candidates:
        return Candidates(self.ids[keep], self.logits[keep], self.sorted)

    def in_order(self) -> Candidates:
        if self.sorted:
            return self
        done = self.take(np.argsort(-self.logits, kind="stable"))
        done.sorted = True
        return done

    @property
    def p(self) -> np.ndarray:
        weights = np.exp(self.logits - self.logits.max())
        return weights / np.cumsum(weights, dtype=F)[-1]  # summed one by one, as llama.cpp does


class Random:
    """`std::mt19937` seeded as in C++, with libstdc++'s uniform and discrete distributions."""

    def __init__(self, seed: int) -> None:
        self._bits = np.random.MT19937()
        self._bits._legacy_seeding(seed)

    def _raw(self) -> int:
        return int(self._bits.random_raw())

    def double(self) -> float:
        low, high = self._raw(), self._raw()
        return min((low + high * 2.0**32) / 2.0**64, math.nextafter(1.0, 0.0))

    def float(self) -> np.float32:
        return min(F(F(self._raw()) / F(2.0**32)), np.nextafter(F(1), F(0)))

    def discrete(self, p: np.ndarray) -> int:
        if len(p) < 2:
            return 0  # libstdc++ draws no number then
        edges = np.cumsum(p.astype(np.float64) / p.sum(dtype=np.float64))
        edges[-1] = 1.0
        return int(np.searchsorted(edges, self.double(), side="left"))


@dataclass
class Chain:
    """A chain built from a `Sampling`, in the order in which it runs; `history` are the tokens accepted."""

    sampling: Any
    seed: int
    vocabulary: Any
    history: list[int]
    draws: Random = field(init=False)

    def __post_init__(self) -> None:
        self.draws = Random(self.seed)
        self.xtc_draws = Random(self.seed)

    def names(self) -> list[str]:
        s = self.sampling
        names = ["logit_bias"] if s.logit_bias else []
        order = [n for n in s.samplers if n in _STAGES and _ON.get(n, lambda s: True)(s)]
        if s.mirostat:
            return [*names, *(n for n in order if n in ("penalties", "dry")), "temperature", "mirostat"]
        if s.temperature < 1e-4:  # told from 0 by nobody; below it float32 overflows
            return [*names, *(n for n in order if n in ("penalties", "dry")), "greedy"]
        last = "adaptive_p" if "adaptive_p" in s.samplers and s.adaptive_target >= 0 else "dist"
        return [*names, *order, last]

    def run(self, logits: np.ndarray) -> list[tuple[str, Candidates, int | None]]:
        """Return (name, what is left, index drawn) after each stage."""
        c = Candidates(np.arange(len(logits), dtype=np.int32), logits.astype(F))
        out = []
        for name in self.names():
            drawn = None
            if name in _DRAWS:
                c, drawn = _DRAWS[name](self, c)
            else:
                c = _STAGES[name](self, c)
            out.append((name, c, drawn))
        return out


def logit_bias(chain: Chain, c: Candidates) -> Candidates:
    logits = c.logits.copy()
    for token, bias in chain.sampling.logit_bias:
        logits[c.ids == token] += F(bias)
    return Candidates(c.ids, logits, c.sorted)


def penalties(chain: Chain, c: Candidates) -> Candidates:
    """Divide positive logits of seen tokens (multiply negative ones), then subtract by count."""
    s = chain.sampling
    window = chain.history if s.repeat_last_n < 0 else chain.history[-s.repeat_last_n :]
    seen, counts = np.unique(np.array(window, np.int64), return_counts=True)
    count = dict(zip(seen.tolist(), counts.tolist(), strict=True))
    logits = c.logits.copy()
    for i in np.flatnonzero(np.isin(c.ids, seen)):
        x, n = logits[i], count[int(c.ids[i])]
        x = x * F(s.repeat_penalty) if x <= 0 else x / F(s.repeat_penalty)
        logits[i] = x - (F(n) * F(s.frequency_penalty) + F(1) * F(s.presence_penalty))
    return Candidates(c.ids, logits, False)


def dry(chain: Chain, c: Candidates) -> Candidates:
    """Subtract multiplier * base ** (n - allowed) from each token that would extend a repeat of n tokens."""
    s = chain.sampling
    last = chain.history if s.dry_penalty_last_n < 0 else chain.history[-s.dry_penalty_last_n :]
    if len(last) <= s.dry_allowed_length:
        return c
    breakers = chain.vocabulary.dry_breakers(s.dry_sequence_breakers)
    limit = len(last)
    for i in range(len(last)):  # from the end
        tails = breakers.get(last[-1 - i], ())
        after = last[len(last) - i :]
        matched = [len(tail) for tail in tails if len(tail) <= i and list(tail) == after[: len(tail)]]
        if matched:
            limit = i - max(matched)
            break
    if limit < s.dry_allowed_length:
        return Candidates(c.ids, c.logits, c.sorted)
    extends: dict[int, int] = {}
    for end in range(1, len(last)):  # a repeat of the last tokens that ends before position `end`
        n = 0
        while n < end and n < limit and last[end - 1 - n] == last[-1 - n]:
            n += 1
        if n >= s.dry_allowed_length:
            extends[last[end]] = max(extends.get(last[end], 0), n)
    most = int(F(88.7228391) / math.log(F(s.dry_base))) if s.dry_base > 1.000001 else 0
    logits = c.logits.copy()
    for token, n in extends.items():
        if () in breakers.get(token, ()):
            continue
        power = n - s.dry_allowed_length
        power = min(power, most) if most > 0 else power
        logits[c.ids == token] -= F(F(s.dry_multiplier) * float(F(s.dry_base)) ** power)
    return Candidates(c.ids, logits, False)


def top_n_sigma(chain: Chain, c: Candidates) -> Candidates:
    """Put at -inf what lies more than n standard deviations below the largest logit."""
    if len(c.ids) <= 1:
        return c
    finite = c.logits[c.logits > -np.inf].astype(np.float64)
    floor = F(finite.max() - F(chain.sampling.top_n_sigma) * F(finite.std()))
    return Candidates(c.ids, np.where(c.logits < floor, F(-np.inf), c.logits), c.sorted)


def top_k(chain: Chain, c: Candidates) -> Candidates:
    return c.in_order().take(slice(0, chain.sampling.top_k))


def typical_p(chain: Chain, c: Candidates) -> Candidates:
    """Keep the tokens whose surprise is nearest to the entropy, up to mass p (Meister et al. 2022)."""
    s = chain.sampling
    c = c.in_order()
    p = c.p
    with np.errstate(divide="ignore", invalid="ignore"):
        surprise = -np.log(p)
        distance = np.abs(surprise - (p * surprise).sum(dtype=F))
    order = np.argsort(distance, kind="stable")
    mass = np.cumsum(p[order])
    enough = np.flatnonzero((mass > F(s.typical_p)) & (np.arange(len(p)) + 1 >= max(1, s.min_keep)))
    kept = c.take(order[: enough[0] + 1] if len(enough) else order)
    kept.sorted = False
    return kept


def top_p(chain: Chain, c: Candidates) -> Candidates:
    """Keep the likeliest tokens until their mass reaches p (Holtzman et al. 2020)."""
    s = chain.sampling
    p = c.p if c.sorted else c.p[np.argsort(-c.logits, kind="stable")]
    c = c.in_order()
    mass = np.cumsum(p)
    enough = np.flatnonzero((mass >= F(s.top_p)) & (np.arange(len(mass)) + 1 >= s.min_keep))
    return c.take(slice(0, int(enough[0]) + 1)) if len(enough) else c


def min_p(chain: Chain, c: Candidates) -> Candidates:
    """Keep the tokens at least p times as likely as the likeliest."""
    s = chain.sampling
    floor = F(c.logits.max() + F(math.log(F(s.min_p))))
    keep = c.logits >= floor
    if not c.sorted and keep.sum() >= s.min_keep:
        return c.take(keep)
    c = c.in_order()
    below = np.flatnonzero((c.logits < floor) & (np.arange(len(c.ids)) >= max(1, s.min_keep)))
    return c.take(slice(0, int(below[0]))) if len(below) else c


def xtc(chain: Chain, c: Candidates) -> Candidates:
    """By chance, drop all tokens above the threshold but the least likely of them."""
    s = chain.sampling
    if len(c.ids) < 2 or chain.xtc_draws.float() > F(s.xtc_probability):
        return c
    c = c.in_order()
    above = int((c.p >= F(s.xtc_threshold)).sum())
    drop = max(0, above - 1)
    return c.take(slice(drop, None)) if drop and len(c.ids) - drop >= s.min_keep else c


def temperature(chain: Chain, c: Candidates) -> Candidates:
    """Divide the logits by T; with a range, by a T that grows with the normalised entropy."""
    s = chain.sampling
    t = F(s.temperature)
    if s.dynatemp_range > 0 and not s.mirostat:
        if len(c.ids) <= 1:
            return c
        c = c.in_order()
        p = c.p[c.p > 0]
        share = F(-(p * np.log(p)).sum(dtype=F) / F(math.log(len(c.ids))))
        low, high = max(F(0), t - F(s.dynatemp_range)), t + F(s.dynatemp_range)
        t = F(low + (high - low) * share ** F(s.dynatemp_exponent))
    if t <= 0:
        only = np.full_like(c.logits, -np.inf)
        only[c.logits.argmax()] = c.logits.max()
        return Candidates(c.ids, only, c.sorted)
    return Candidates(c.ids, c.logits / t, c.sorted)


def infill(chain: Chain, c: Candidates) -> Candidates:
    """Choose between the end and the text: drop tokens that others begin with, and unlikely ones."""
    v = chain.vocabulary
    c = c.in_order()
    p, logits = c.p.copy(), c.logits.copy()
    end = np.array([int(i) in v.eog for i in c.ids])
    if F(3) * p[end].sum(dtype=F) * F(len(p)) > p[~end].sum(dtype=F):
        return c.take(end)
    pieces = [v.piece(int(i)) for i in c.ids]
    for a in range(len(p)):
        for b in range(len(p)):
            if logits[a] == -np.inf:
                break
            if a == b or logits[b] == -np.inf or not pieces[a] or not pieces[b].startswith(pieces[a]):
                continue
            into, gone = (b, a) if p[b] > p[a] else (a, b)
            p[into] += p[gone]
            logits[gone], p[gone] = -np.inf, 0
    keep = end | (p >= F(0.2))
    if not (keep & ~end).any():
        return Candidates(np.array([v.eot], np.int32), np.ones(1, F), c.sorted)
    share = p[keep] / p[keep].sum(dtype=F)
    rest = Candidates(c.ids[keep], logits[keep], c.sorted)
    ends = end[keep]
    return rest.take(ends | (share >= F(1.0 / ((~ends).sum() + 1))))


def dist(chain: Chain, c: Candidates) -> tuple[Candidates, int]:
    rnd = chain.draws.double()
    if len(c.ids) == 1:
        return c, 0
    weights = np.exp(c.logits - c.logits.max()).astype(np.float64)
    return c, int(np.searchsorted(np.cumsum(weights), weights.sum() * rnd, side="left"))


def greedy(chain: Chain, c: Candidates) -> tuple[Candidates, int]:
    return c, int(c.logits.argmax())


def mirostat(chain: Chain, c: Candidates) -> tuple[Candidates, int]:
    """Cut so that the expected surprise is mu, which starts at 2 tau (Basu et al. 2021)."""
    s = chain.sampling
    c = c.in_order()
    p = c.p
    mu = F(2 * F(s.mirostat_tau))
    if s.mirostat == 1:
        m = min(99, len(p) - 1)
        i = np.arange(m, dtype=F)
        with np.errstate(divide="ignore", invalid="ignore"):
            t = np.log((i + 2) / (i + 1))
            b = np.log(p[:m] / p[1 : m + 1])
        zipf = F((t * b).sum(dtype=F) / (t * t).sum(dtype=F))
        e = F(zipf - 1)
        with np.errstate(all="ignore"):
            k = ((e * F(2) ** mu) / (1 - F(chain.vocabulary.n_tokens) ** -e)) ** (1 / zipf)
        c = c.take(slice(0, max(int(k), 1)))
    else:
        with np.errstate(divide="ignore"):
            over = np.flatnonzero(-np.log2(p) > mu)
        c = c.take(slice(0, max(1, int(over[0])))) if len(over) else c
    return c, chain.draws.discrete(c.p)


def adaptive_p(chain: Chain, c: Candidates) -> tuple[Candidates, int]:
    """Raise tokens whose probability is near the target (llama.cpp#17927)."""
    s = chain.sampling
    width = np.abs((c.p - F(s.adaptive_target)) * F(1 / F(0.3)))
    logits = np.where(c.logits > -np.inf, F(5) - F(10) * width * width / (F(1) + width), c.logits)
    c = Candidates(c.ids, logits.astype(F), c.sorted)
    return c, chain.draws.discrete(c.p)


_STAGES = {
    f.__name__: f
    for f in (
        logit_bias, penalties, dry, top_n_sigma, top_k, typical_p, top_p, min_p, xtc, temperature, infill,
    )
}  # fmt: skip
_DRAWS = {f.__name__: f for f in (dist, greedy, mirostat, adaptive_p)}
_ON = {
    "logit_bias": lambda s: False,  # runs first, wherever it stands
    "penalties": lambda s: (
        s.repeat_last_n != 0
        and (s.repeat_penalty != 1 or s.presence_penalty != 0 or s.frequency_penalty != 0)
    ),
    "dry": lambda s: s.dry_multiplier > 0 and s.dry_base >= 1 and s.dry_penalty_last_n != 0,
    "top_n_sigma": lambda s: s.top_n_sigma > 0,
    "top_k": lambda s: s.top_k > 0,
    "typical_p": lambda s: s.typical_p < 1,
    "top_p": lambda s: s.top_p < 1,
    "min_p": lambda s: s.min_p > 0,
    "xtc": lambda s: s.xtc_probability > 0 and s.xtc_threshold <= 0.5,
    "temperature": lambda s: s.temperature != 1 or s.dynatemp_range > 0,
}
