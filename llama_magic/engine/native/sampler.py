"""A sampler chain: llama.cpp's own samplers in the order that a recipe names."""

from __future__ import annotations

import ctypes
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import llama_cpp
import numpy as np

from llama_magic.engine.native import backend
from llama_magic.errors import BackendError
from llama_magic.request import stages

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
        self._vocab = weights.vocab  # which some stages look into: DRY when it is made, infill at each step
        try:
            self._vocab.use(lambda _pointer: self._add(_build(weights, sampling, seed, masked)))
        except BaseException:
            self.close()
            raise
        # The draw is then the first of the largest logits, with no list of candidates to be made for it.
        self.plain_greedy = self.stages == ["greedy"]

    def _add(self, built: Iterable[tuple[str, Any]]) -> None:
        for name, sampler in built:
            if not sampler:
                raise BackendError(f"llama.cpp could not make the sampler {name!r}.", log=backend.log_tail())
            llama_cpp.llama_sampler_chain_add(self._pointer, sampler)
            self.stages.append(name)

    @property
    def pointer(self) -> int:
        if self._pointer is None:
            raise BackendError("The sampler chain was closed.")
        return self._pointer

    def sample(self, context: Context, index: int) -> int:
        """Draw a token from the logits at batch index `index`. llama.cpp accepts it into the chain itself."""
        pointer = self._pointer or self.pointer
        token: int = llama_cpp.llama_sampler_sample(pointer, context._pointer or context.pointer, index)
        return token

    @property
    def looks_back(self) -> bool:
        """Whether a stage depends on earlier tokens, so that it must be shown the prompt."""
        return any(row.looks_back for row in stages.STAGES.values() if row.name in self.stages)

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
        rows, array = _candidates(logits)
        base = rows.ctypes.data
        for index, name in enumerate(self.stages):
            self._apply(index, array)
            # XTC drops candidates from the front by moving the pointer.
            place = ctypes.cast(array.data, ctypes.c_void_p).value or base
            start = (place - base) // CANDIDATE.itemsize
            yield name, rows[start : start + array.size], int(array.selected)

    def before_the_draw(self, logits: NDArray[np.float32]) -> NDArray[np.void]:
        """Return the candidates that the last stage draws from, as a copy."""
        rows, _ = _candidates(logits)
        for _, left, _ in itertools.islice(self.walk(logits), len(self.stages) - 1):
            rows = left
        return rows.copy()

    def draw(self, rows: NDArray[np.void]) -> int:
        """Apply the last stage, a plain draw, to a copy of `rows`; return the index of the drawn one."""
        rows = rows.copy()
        array = _array(rows)
        self._apply(len(self.stages) - 1, array)
        return int(array.selected)

    def _apply(self, index: int, array: Any) -> None:
        sampler = llama_cpp.llama_sampler_chain_get(self.pointer, index)
        self._vocab.use(lambda _pointer: llama_cpp.llama_sampler_apply(sampler, ctypes.byref(array)))

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


def _candidates(logits: NDArray[np.float32]) -> tuple[NDArray[np.void], Any]:
    """Return one row a token, and what llama.cpp calls an array of them: it points into the rows."""
    rows = np.empty(len(logits), CANDIDATE)
    rows["id"], rows["logit"], rows["p"] = np.arange(len(logits), dtype=np.int32), logits, 0.0
    return rows, _array(rows)


def _array(rows: NDArray[np.void]) -> Any:
    data = ctypes.cast(rows.ctypes.data, ctypes.POINTER(llama_cpp.llama_token_data))
    return llama_cpp.llama_token_data_array(data, len(rows), -1, False)


def _build(weights: Weights, s: Sampling, seed: int, masked: bool) -> Iterable[tuple[str, Any]]:
    """Yield (name, sampler) in the order in which they run."""
    for name in stages.chain(s):
        if name == "typical_p" and masked:
            # Its entropy is NaN, and its sort undefined, while tokens at -inf are among the
            # candidates; a min-p this small drops those alone.
            yield "min_p", llama_cpp.llama_sampler_init_min_p(1e-30, 1)
        yield name, (MAKERS.get(name) or _DRAWS[name])(weights, s, seed)


def _bias(weights: Weights, s: Sampling, _seed: int) -> Any:
    n_tokens = weights.vocab.n_tokens
    known = [llama_cpp.llama_logit_bias(t, b) for t, b in s.logit_bias if 0 <= t < n_tokens]
    array = (llama_cpp.llama_logit_bias * len(known))(*known)
    return llama_cpp.llama_sampler_init_logit_bias(n_tokens, len(known), array)


def _temperature(_weights: Weights, s: Sampling, _seed: int) -> Any:
    heat = 0.0 if s.cold else s.temperature
    if s.mirostat:  # it uses the plain temperature
        return llama_cpp.llama_sampler_init_temp(heat)
    return llama_cpp.llama_sampler_init_temp_ext(heat, s.dynatemp_range, s.dynatemp_exponent)


def _mirostat(weights: Weights, s: Sampling, seed: int) -> Any:
    if s.mirostat == 1:
        n_tokens = weights.vocab.n_tokens
        return llama_cpp.llama_sampler_init_mirostat(n_tokens, seed, s.mirostat_tau, s.mirostat_eta, 100)
    return llama_cpp.llama_sampler_init_mirostat_v2(seed, s.mirostat_tau, s.mirostat_eta)


def _penalties(weights: Weights, s: Sampling, _seed: int) -> Any:
    return llama_cpp.llama_sampler_init_penalties(
        weights.vocab.n_tokens,
        _window(weights, s.repeat_last_n),
        s.repeat_penalty,
        s.frequency_penalty,
        s.presence_penalty,
    )


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


_Maker = Callable[["Weights", "Sampling", int], Any]
_C = llama_cpp

# Stage -> constructor: the one line that a row of `request.stages` needs besides itself.
MAKERS: dict[str, _Maker] = {
    "logit_bias": _bias,
    "penalties": _penalties,
    "dry": _dry,
    "top_n_sigma": lambda w, s, seed: _C.llama_sampler_init_top_n_sigma(s.top_n_sigma),
    "top_k": lambda w, s, seed: _C.llama_sampler_init_top_k(s.top_k),
    "typical_p": lambda w, s, seed: _C.llama_sampler_init_typical(s.typical_p, s.min_keep),
    "top_p": lambda w, s, seed: _C.llama_sampler_init_top_p(s.top_p, s.min_keep),
    "min_p": lambda w, s, seed: _C.llama_sampler_init_min_p(s.min_p, s.min_keep),
    "xtc": lambda w, s, seed: _C.llama_sampler_init_xtc(s.xtc_probability, s.xtc_threshold, s.min_keep, seed),
    "temperature": _temperature,
    "infill": lambda w, s, seed: _C.llama_sampler_init_infill(w.vocab.pointer),
    "mirostat": _mirostat,
    "adaptive_p": lambda w, s, seed: _C.llama_sampler_init_adaptive_p(
        s.adaptive_target, s.adaptive_decay, seed
    ),
}
_DRAWS: dict[str, _Maker] = {
    "greedy": lambda w, s, seed: _C.llama_sampler_init_greedy(),
    "dist": lambda w, s, seed: _C.llama_sampler_init_dist(seed),
}
