"""A sampler chain: llama.cpp's own samplers in the order that a recipe names."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import llama_cpp
import numpy as np

from llama_magic.engine.native import backend
from llama_magic.errors import BackendError

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llama_magic.engine.native.context import Context
    from llama_magic.engine.native.weights import Weights
    from llama_magic.request.sampling import Sampling

# llama_token_data as NumPy sees it
CANDIDATE = np.dtype([("id", np.int32), ("logit", np.float32), ("p", np.float32)])


class SamplerChain:
    """Own one chain built from `sampling` with `seed`. `accept` is only for tokens not drawn here.

    `masked` says that logits come with -inf on forbidden tokens (a constraint).
    """

    def __init__(self, weights: Weights, sampling: Sampling, seed: int, *, masked: bool = False) -> None:
        params = llama_cpp.llama_sampler_chain_default_params()
        params.no_perf = True
        self._pointer: int | None = llama_cpp.llama_sampler_chain_init(params)
        self.stages: list[str] = []
        for name, sampler in _build(weights, sampling, seed, masked):
            if not sampler:
                self.close()
                raise BackendError(f"llama.cpp could not make the sampler {name!r}.", log=backend.log_tail())
            llama_cpp.llama_sampler_chain_add(self._pointer, sampler)
            self.stages.append(name)
        # The draw is then the first of the largest logits, with no list of candidates to be made for it.
        self.plain_greedy = self.stages == ["greedy"]

    @property
    def pointer(self) -> int:
        if self._pointer is None:
            raise BackendError("The sampler chain was closed.")
        return self._pointer

    def sample(self, context: Context, index: int) -> int:
        """Draw a token from the logits at batch index `index`. llama.cpp accepts it into the chain itself."""
        return int(llama_cpp.llama_sampler_sample(self.pointer, context.pointer, index))

    @property
    def looks_back(self) -> bool:
        """Whether a stage depends on earlier tokens, so that it must be shown the prompt."""
        return not {"penalties", "dry"}.isdisjoint(self.stages)

    def accept(self, tokens: Iterable[int]) -> None:
        """Show the chain tokens that it did not draw (prompt, forced tokens), for penalties and DRY."""
        for token in tokens:
            llama_cpp.llama_sampler_accept(self.pointer, token)

    def walk(self, logits: NDArray[np.float32]) -> Iterator[tuple[str, NDArray[np.void], int]]:
        """Apply the samplers to a copy of `logits` (n_vocab,), one after the other.

        Yields after each: its name, a view of the candidates that are left (`CANDIDATE`, valid
        until the next one is asked for), and the index of the drawn one, -1 before the draw.
        This is what `sample` does, seen from within; the token drawn is not accepted.
        """
        rows = np.empty(len(logits), CANDIDATE)
        rows["id"], rows["logit"], rows["p"] = np.arange(len(logits), dtype=np.int32), logits, 0.0
        data = ctypes.cast(rows.ctypes.data, ctypes.POINTER(llama_cpp.llama_token_data))
        array = llama_cpp.llama_token_data_array(data, len(rows), -1, False)
        base = rows.ctypes.data
        for index, name in enumerate(self.stages):
            sampler = llama_cpp.llama_sampler_chain_get(self.pointer, index)
            llama_cpp.llama_sampler_apply(sampler, ctypes.byref(array))
            # XTC drops candidates from the front by moving the pointer.
            place = ctypes.cast(array.data, ctypes.c_void_p).value or base
            start = (place - base) // CANDIDATE.itemsize
            yield name, rows[start : start + array.size], int(array.selected)

    def skip_draws(self, count: int) -> None:
        """Bring the random numbers of the last stage where they are after `count` draws.

        Only for chains that end in `dist`, which takes one number a draw whatever is left.
        """
        sampler = llama_cpp.llama_sampler_chain_get(self.pointer, len(self.stages) - 1)
        one = llama_cpp.llama_token_data(0, 0.0, 1.0)
        for _ in range(count):
            array = llama_cpp.llama_token_data_array(ctypes.pointer(one), 1, -1, False)
            llama_cpp.llama_sampler_apply(sampler, ctypes.byref(array))

    def close(self) -> None:
        pointer, self._pointer = self._pointer, None
        if pointer is not None:
            llama_cpp.llama_sampler_free(pointer)


def _build(weights: Weights, s: Sampling, seed: int, masked: bool) -> Iterable[tuple[str, Any]]:
    """Yield (name, sampler), as llama.cpp's `common_sampler_init` orders them: bias first, the draw last."""
    c = llama_cpp
    if s.logit_bias:
        known = [(t, b) for t, b in s.logit_bias if 0 <= t < weights.vocab.n_tokens]
        array = (c.llama_logit_bias * len(known))(*(c.llama_logit_bias(t, b) for t, b in known))
        yield "logit_bias", c.llama_sampler_init_logit_bias(weights.vocab.n_tokens, len(known), array)
    if s.mirostat:
        yield from _penalties(weights, s)
        yield "temperature", c.llama_sampler_init_temp(0.0 if s.cold else s.temperature)
        if s.mirostat == 1:
            yield (
                "mirostat",
                c.llama_sampler_init_mirostat(
                    weights.vocab.n_tokens, seed, s.mirostat_tau, s.mirostat_eta, 100
                ),
            )
        else:
            yield "mirostat", c.llama_sampler_init_mirostat_v2(seed, s.mirostat_tau, s.mirostat_eta)
        return
    if s.greedy:
        yield from _penalties(weights, s)
        yield "greedy", c.llama_sampler_init_greedy()
        return
    for name in s.samplers:
        if name in _STAGES and _STAGES[name][0](s):
            if name == "typical_p" and masked:
                # Its entropy is NaN, and its sort undefined, while tokens at -inf are among the
                # candidates; a min-p this small drops those alone.
                yield "min_p", c.llama_sampler_init_min_p(1e-30, 1)
            yield name, _STAGES[name][1](weights, s, seed)
    if "adaptive_p" in s.samplers and s.adaptive_target >= 0:
        yield "adaptive_p", c.llama_sampler_init_adaptive_p(s.adaptive_target, s.adaptive_decay, seed)
    else:
        yield "dist", c.llama_sampler_init_dist(seed)


def _penalties(weights: Weights, s: Sampling) -> Iterable[tuple[str, Any]]:
    for name in s.samplers:
        if name in ("penalties", "dry") and _STAGES[name][0](s):
            yield name, _STAGES[name][1](weights, s, 0)


def _dry(weights: Weights, s: Sampling, _seed: int) -> Any:
    breakers = [text.encode() for text in s.dry_sequence_breakers]
    array = (ctypes.c_char_p * len(breakers))(*breakers)
    return llama_cpp.llama_sampler_init_dry(
        weights.vocab.pointer,
        s.dry_multiplier,
        s.dry_base,
        s.dry_allowed_length,
        _window(weights, s.dry_penalty_last_n),
        array,
        len(breakers),
    )


def _window(weights: Weights, last_n: int) -> int:
    """Return how many tokens a penalty looks back: -1 means all that the model was trained on."""
    # The chain allocates a ring buffer of this size, so a wild value in a file or a call is capped.
    return min(last_n if last_n >= 0 else weights.n_ctx_train, 1 << 20)


def _penalised(s: Sampling) -> bool:
    active = s.repeat_penalty != 1 or s.presence_penalty != 0 or s.frequency_penalty != 0
    return active and s.repeat_last_n != 0


_Maker = Callable[["Weights", "Sampling", int], Any]

# Stage name -> (does it change anything?, constructor). Stages that would do nothing are left out,
# as llama.cpp does inside each sampler; the draw is the same and a trace stays readable.
_STAGES: dict[str, tuple[Callable[[Sampling], bool], _Maker]] = {
    "penalties": (
        _penalised,
        lambda w, s, seed: llama_cpp.llama_sampler_init_penalties(
            w.vocab.n_tokens,
            _window(w, s.repeat_last_n),
            s.repeat_penalty,
            s.frequency_penalty,
            s.presence_penalty,
        ),
    ),
    "dry": (lambda s: s.dry_multiplier > 0 and s.dry_base >= 1 and s.dry_penalty_last_n != 0, _dry),
    "top_n_sigma": (
        lambda s: s.top_n_sigma > 0,
        lambda w, s, seed: llama_cpp.llama_sampler_init_top_n_sigma(s.top_n_sigma),
    ),
    "top_k": (lambda s: s.top_k > 0, lambda w, s, seed: llama_cpp.llama_sampler_init_top_k(s.top_k)),
    "typical_p": (
        lambda s: s.typical_p < 1,
        lambda w, s, seed: llama_cpp.llama_sampler_init_typical(s.typical_p, s.min_keep),
    ),
    "top_p": (
        lambda s: s.top_p < 1,
        lambda w, s, seed: llama_cpp.llama_sampler_init_top_p(s.top_p, s.min_keep),
    ),
    "min_p": (
        lambda s: s.min_p > 0,
        lambda w, s, seed: llama_cpp.llama_sampler_init_min_p(s.min_p, s.min_keep),
    ),
    "xtc": (
        lambda s: s.xtc_probability > 0 and s.xtc_threshold <= 0.5,
        lambda w, s, seed: llama_cpp.llama_sampler_init_xtc(
            s.xtc_probability, s.xtc_threshold, s.min_keep, seed
        ),
    ),
    "temperature": (
        lambda s: True,
        lambda w, s, seed: llama_cpp.llama_sampler_init_temp_ext(
            0.0 if s.cold else s.temperature, s.dynatemp_range, s.dynatemp_exponent
        ),
    ),
    "infill": (lambda s: True, lambda w, s, seed: llama_cpp.llama_sampler_init_infill(w.vocab.pointer)),
}
