"""One token's road through the sampler chain: what each stage left of the distribution.

The stages are llama.cpp's own samplers, applied one after the other to a copy of the logits
(`llama_sampler_chain_get`, `llama_sampler_apply`); nothing here imitates them.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from llama_magic.engine.native import SamplerChain
from llama_magic.engine.steps import Step, StepTape
from llama_magic.errors import GenerationInterrupted, InputTypeError, OptionError
from llama_magic.microscope.advice import advise, parameters_of
from llama_magic.microscope.tokens import piece_text
from llama_magic.request.backend import wait_for
from llama_magic.request.events import EndEvent, Event
from llama_magic.request.request import Request
from llama_magic.request.sampling import Sampling, check_seed
from llama_magic.request.stages import STAGES
from llama_magic.threads import Latch
from llama_magic.words import shown
from llama_magic.words.counting import counted
from llama_magic.words.shown import Printed

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from llama_magic.engine.engine import Engine
    from llama_magic.request.tokenizer import Tokenizer

LEADERS = 10
# Stages whose state depends on what was drawn from: it is rebuilt by walking all earlier steps.
_REMEMBERING = {name for name, stage in STAGES.items() if stage.remembers}
_DRAWING = {"dist", "greedy", *(name for name, stage in STAGES.items() if stage.does == "draws")}


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
    `live()` does so at each move of a slider. `at(step)` is another of the answer's `steps`.

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

    def rerun(
        self, sampling: Sampling | None = None, *, seed: int | None = None, **changes: Any
    ) -> SamplerTrace:
        """Return the trace of the same logits with other parameters, or drawn with another seed.

        Nothing is decoded; about a millisecond at 49,152 tokens.
        """
        if self._replay is None:
            raise OptionError(
                "This trace holds no logits: the constraint forced the token, and nothing was drawn.",
                remedy="Look at another step of the answer.",
            )
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

    def live(self) -> Any:
        """Return a live view: sliders that rerun the chain at every move. Needs a notebook with widgets."""
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


class Tracer:
    """Trace any step of one answer. Copies and pickles as None: it holds the engine."""

    def __init__(
        self, engine: Engine, tokenizer: Tokenizer, request: Request, index: int, ids: Sequence[int]
    ) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._sampling = request.sampling
        self._prompt = tuple(request.prompt)
        self._tape: StepTape | None = request.handle.tapes[index] if request.handle.tapes else None
        self._constraint = request.constraint
        self._seed = request.sample_seed(index)
        self._ids = tuple(ids)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()

    @property
    def count(self) -> int:
        """How many steps there are: one a token, and the draw that ended the answer."""
        return max(len(self._ids), len(self._tape) if self._tape is not None else 0)

    def __call__(self, step: int) -> SamplerTrace:
        if isinstance(step, bool) or not isinstance(step, int):
            raise InputTypeError(f"The step is {step!r}; expected a whole number.")
        count = self.count
        if not -count <= step < count:
            raise OptionError(
                f"There is no step {step}: the answer has {counted(count, 'step')}, numbered from 0.",
                remedy="Count from 0, or from -1 backwards.",
            )
        step %= count
        known = self._step(step)
        if known.forced:
            return self._forced(step)
        notes: tuple[str, ...] = ()
        if known.logits is None:
            known = self._read_again(step)
            notes = (
                f"The logits of step {step} are no longer kept; the text was read again up to it. They "
                "can differ in the last bits from those of the draw.",
            )
        assert known.logits is not None
        start = begin(known, self._tokenizer)
        return self._trace(start, step, self._sampling, self._seed, notes, exact=not notes)

    def _step(self, index: int) -> Step:
        if self._tape is None or index >= len(self._tape):
            return Step(None)
        return self._tape.step(index)

    def _trace(
        self,
        start: tuple[TraceStage, ...],
        step: int,
        sampling: Sampling,
        seed: int,
        notes: tuple[str, ...] = (),
        *,
        exact: bool = True,
    ) -> SamplerTrace:
        same = sampling == self._sampling and seed == self._seed
        chain = SamplerChain(self._engine.weights, sampling, seed)
        try:
            afresh = self._catch_up(chain, step, same=same)
            notes += afresh
            stages, drawn = walk(chain, start, sampling, self._tokenizer)
        finally:
            chain.close()
        was: str | None = None
        if same and step < len(self._ids):
            was = piece_text(self._tokenizer, self._ids[step])
            if drawn.id != self._ids[step]:
                notes += (f"The answer has {was!r} here; this chain draws {drawn.text!r}.",)
        return SamplerTrace(
            stages,
            drawn,
            step,
            seed,
            sampling,
            self._context(step),
            (*notes, *advise(sampling), *_idle(stages)),
            self.count,
            exact and not afresh,
            was,
            lambda *other: self._trace(start, step, *other, exact=exact),
            self,
        )

    def _catch_up(self, chain: SamplerChain, step: int, *, same: bool) -> tuple[str, ...]:
        """Bring the chain's memory to where it was before `step`."""
        chain.accept(self._prompt)
        before = self._ids[:step]
        remembering = sorted(_REMEMBERING & set(chain.stages))
        if remembering and same and self._tape is not None and self._tape.holds(step):
            for index, token in enumerate(before):
                known = self._tape.step(index)
                if known.logits is not None:
                    for _ in chain.walk(_masked(known.logits, known.allowed)):
                        pass
                chain.accept((token,))
            return ()
        chain.accept(before)
        if chain.stages[-1] == "dist":
            chain.skip_draws(step if self._tape is None else self._tape.draws(step))
        if not (remembering and step):
            return ()
        names = " and ".join(remembering)
        return (f"{names} begins afresh here: its state after {step} earlier draws is not kept.",)

    def _forced(self, step: int) -> SamplerTrace:
        token = self._ids[step]
        text = piece_text(self._tokenizer, token)
        one = np.array([token], np.int32), np.zeros(1, np.float32), np.ones(1, np.float32)
        stage = TraceStage("constraint", {}, 1, 0.0, 1.0, ((text, 1.0),), *one)
        note = "The constraint left one way on, so the token was taken without a draw."
        return SamplerTrace(
            (stage,),
            Drawn(token, text, 1.0),
            step,
            self._seed,
            self._sampling,
            self._context(step),
            (note,),
            self.count,
            True,
            text,
            None,
            self,
        )

    def _read_again(self, step: int) -> Step:
        """Read prompt and answer up to `step` and return the logits there."""
        done = Latch()
        errors: list[BaseException | None] = []

        def sink(event: Event) -> None:
            if isinstance(event, EndEvent):
                errors.append(event.error)
                done.set()

        greedy = Sampling(temperature=0)
        request = Request([*self._prompt, *self._ids[:step]], 1, greedy, 0)
        self._engine.submit(request, sink)
        try:
            wait_for(done)
        except KeyboardInterrupt:
            self._engine.cancel(request)
            raise GenerationInterrupted(
                None, f"step {step} was not read again to its end, so there is no trace of it"
            ) from None
        if errors[0] is not None:
            raise errors[0]
        logits = request.handle.tapes[0].step(0).logits
        if logits is None or self._constraint is None:
            return Step(logits)
        matcher = self._constraint.start()
        for token in self._ids[:step]:
            matcher.accept(token)
        matcher.apply(logits.copy())
        bits = matcher.allowed_bits()
        if bits is None:
            return Step(logits)
        return Step(logits, np.unpackbits(bits, count=len(logits), bitorder="little").astype(bool))

    def _context(self, step: int) -> str:
        """Return the end of the text before the step."""
        tokens = [*self._prompt[-12:], *self._ids[:step]][-12:]
        return b"".join(self._tokenizer.piece(t) for t in tokens).decode("utf-8", "replace")


def begin(known: Step, tokenizer: Tokenizer) -> tuple[TraceStage, ...]:
    """Return the stages before the chain: the model's logits, and what a constraint left of them."""
    logits = known.logits
    assert logits is not None
    ids = np.arange(len(logits), dtype=np.int32)
    base = _softmax(logits)[0]
    stages = [_stage("logits", {}, ids, logits, base, tokenizer)]
    if known.allowed is not None:
        stages.append(_stage("constraint", {}, ids, _masked(logits, known.allowed), base, tokenizer))
    return tuple(stages)


def walk(
    chain: SamplerChain, start: tuple[TraceStage, ...], sampling: Sampling, tokenizer: Tokenizer
) -> tuple[tuple[TraceStage, ...], Drawn]:
    """Send the logits that `begin` returned through a chain; return every stage, and the draw."""
    stages = list(start)
    base = start[0].probabilities
    logits = np.full(len(base), -np.inf, np.float32)
    logits[start[-1].ids] = start[-1].logits
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


def _masked(logits: NDArray[np.float32], allowed: NDArray[np.bool_] | None) -> NDArray[np.float32]:
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


def _softmax(logits: NDArray[np.float32]) -> tuple[NDArray[np.float32], float]:
    """Return probabilities (float32) and their entropy in bits."""
    shifted = logits - logits.max()
    weights = np.exp(shifted)
    total = float(weights.sum(dtype=np.float64))
    # H = log Z - sum(w * s) / Z; a weight that is 0 adds nothing, also where s is -inf.
    spread = float(np.dot(weights, np.maximum(shifted, np.float32(-1e4))))
    entropy = (math.log(total) - spread / total) / math.log(2)
    return weights / np.float32(total), max(0.0, entropy)


def _idle(stages: Sequence[TraceStage]) -> tuple[str, ...]:
    """Name the stages that changed nothing at this step."""
    same = [
        after.name
        for before, after in itertools.pairwise(stages)
        if after.name not in _DRAWING
        and before.survivors == after.survivors
        and math.isclose(before.entropy_bits, after.entropy_bits, abs_tol=1e-6)
    ]
    return (f"Changed nothing at this step: {', '.join(same)}.",) if same else ()
