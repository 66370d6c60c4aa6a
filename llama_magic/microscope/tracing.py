"""One token's road through the sampler chain, as data: what each stage left of the distribution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from llama_magic.errors import OptionError
from llama_magic.request.sampling import Sampling, check_seed
from llama_magic.words import shown
from llama_magic.words.shown import Printed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llama_magic.microscope.drawing import Draws


@dataclass(frozen=True)
class Drawn:
    """The token that the chain draws, and its probability in what the last stage left."""

    id: int
    text: str
    probability: float


@dataclass(frozen=True)
class TraceStage:
    """What one sampler left of the candidates.

    `survivors` can still be drawn (a logit above -inf). `entropy_bits` is the entropy of their
    softmax, `mass_kept` the share of the model's own distribution that they held, `leaders` the
    likeliest (text, probability) pairs. `ids`, `logits` and `probabilities` are those of all
    survivors, in llama.cpp's order.
    """

    name: str
    parameters: dict[str, Any]
    survivors: int
    entropy_bits: float
    mass_kept: float
    leaders: tuple[tuple[str, float], ...]
    ids: NDArray[np.int32] = field(repr=False, compare=False)
    logits: NDArray[np.float32] = field(repr=False, compare=False)
    probabilities: NDArray[np.float32] = field(repr=False, compare=False)


@dataclass(frozen=True)
class SamplerTrace(Printed):
    """The road of one token: `stages` in order, from the logits to the draw.

    `step` counts from 0 in the answer. `notes` say what does nothing, what cancels what, and
    where the trace is not exact. `rerun(top_k=5)` sends the same logits through another chain,
    `live()` does so at each move of a slider. `draws(n)` draws with n seeds. `at(step)` is another of the
    answer's `steps`.

    `drawn` is what the chain draws. It is `exact` where logits and the samplers' state are those of the
    moment; where they are not kept any more, it may differ from the answer's own token, `answer` (None for
    the draw that ended it, and after `rerun`).
    """

    stages: tuple[TraceStage, ...]
    drawn: Drawn
    step: int
    seed: int
    sampling: Sampling
    context: str = ""
    notes: tuple[str, ...] = ()
    steps: int = 1
    exact: bool = True
    answer: str | None = None
    _replay: Callable[[Sampling, int], SamplerTrace] | None = field(default=None, repr=False, compare=False)
    _step: Callable[[int], SamplerTrace] | None = field(default=None, repr=False, compare=False)
    _draw: Callable[[SamplerTrace, int], Draws] | None = field(default=None, repr=False, compare=False)

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_replay": None, "_step": None, "_draw": None}  # these hold the engine

    def rerun(
        self, sampling: Sampling | None = None, *, seed: int | None = None, **changes: Any
    ) -> SamplerTrace:
        """Return the trace of the same logits with other parameters, or drawn with another seed.

        Nothing is decoded; about a millisecond at 49,152 tokens.
        """
        if self._replay is None:
            raise _no_logits()
        recipe = (sampling or self.sampling).replace(**changes)
        return self._replay(recipe, self.seed if seed is None else check_seed(seed))

    def at(self, step: int) -> SamplerTrace:
        """Return the trace of another step of the same answer, drawn as the answer was.

        Raises `OptionError` for a step that is none; reads the text again where the step's logits
        are no longer kept.
        """
        if self._step is None:
            raise OptionError("This trace does not know the answer that it is a step of.")
        return self._step(step)

    def draws(self, n: int = 100) -> Draws:
        """Return what the chain draws with `n` seeds one after the other, from the trace's own on.

        Each draw is that of `rerun(seed=…)`: the same logits, the same text before them. Nothing is decoded.
        """
        if self._draw is None:
            raise _no_logits()
        return self._draw(self, n)

    def live(self) -> Any:
        """Return a live view: sliders, an order to drag and draws, on the same logits. Needs widgets."""
        return shown.live(self)

    def to_pandas(self) -> Any:
        """Return one row a stage: name, parameters, survivors, entropy_bits, mass_kept, leader."""
        import pandas

        return pandas.DataFrame(
            [
                {
                    "stage": s.name,
                    "parameters": ", ".join(f"{k}={v}" for k, v in s.parameters.items()),
                    "survivors": s.survivors,
                    "entropy_bits": s.entropy_bits,
                    "mass_kept": s.mass_kept,
                    "leader": s.leaders[0][0] if s.leaders else "",
                }
                for s in self.stages
            ]
        )

    def candidates(self) -> Any:
        """Return one row a candidate and stage: stage, token, id, logit, probability; the listed leaders."""
        import pandas

        rows = []
        for stage in self.stages:
            best = np.argsort(-stage.probabilities, kind="stable")[: len(stage.leaders)]
            for i, (text, share) in zip(best, stage.leaders, strict=True):
                rows.append((stage.name, text, int(stage.ids[i]), float(stage.logits[i]), share))
        return pandas.DataFrame(rows, columns=["stage", "token", "id", "logit", "probability"])


def _no_logits() -> OptionError:
    return OptionError(
        "This trace holds no logits: the constraint forced the token, and nothing was drawn.",
        remedy="Look at another step of the answer.",
    )
