"""Any step of an answer, traced: from the logits that are kept, or read again."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np

from llama_magic.engine.native import SamplerChain
from llama_magic.engine.steps import Step, StepTape
from llama_magic.errors import GenerationInterrupted, OptionError
from llama_magic.microscope.advice import advise
from llama_magic.microscope.drawing import Draws, alike, seeds_from, tally
from llama_magic.microscope.tokens import piece_text
from llama_magic.microscope.tracing import Drawn, SamplerTrace, TraceStage
from llama_magic.microscope.walking import (
    begin,
    draw_alike,
    idle,
    likeliest,
    masked,
    probability,
    spread,
    walk,
)
from llama_magic.request import once
from llama_magic.request.backend import wait_for
from llama_magic.request.events import EndEvent, Event
from llama_magic.request.fixed import Fixed
from llama_magic.request.request import Request
from llama_magic.request.sampling import Sampling
from llama_magic.request.stages import STAGES
from llama_magic.threads import Latch
from llama_magic.words.counting import counted
from llama_magic.words.given import whole_number

if TYPE_CHECKING:
    from llama_magic.engine.engine import Engine
    from llama_magic.request.tokenizer import Tokenizer

# Stages whose state depends on what was drawn from: it is rebuilt by walking all earlier steps.
_REMEMBERING = {name for name, stage in STAGES.items() if stage.remembers}


class Tracer:
    """Trace any step of one answer. Copies and pickles as None: it holds the engine."""

    def __init__(
        self, engine: Engine, tokenizer: Tokenizer, request: Request, index: int, ids: Sequence[int]
    ) -> None:
        self._engine = engine
        self._tokenizer = tokenizer
        self._sampling = request.sampling
        self._begun = len(request.begun)  # steps that are part of the prompt
        given = request.prompt
        self._held = once.TOKENS.hold(Fixed(given[: len(given) - self._begun]))  # those of a long chat once
        self._tape: StepTape | None = request.handle.tapes[index] if request.handle.tapes else None
        self._constraint = request.constraint
        self._seed, self._exact = request.sample_seed(index), request.exact
        self._certain = request.certain
        self._ids = tuple(ids)

    def __reduce__(self) -> tuple[type[None], tuple[()]]:
        return type(None), ()

    @property
    def _prompt(self) -> Sequence[int]:
        return tuple(once.whole(self._held))

    @property
    def count(self) -> int:
        """How many steps there are: one a token, and the draw that ended the answer."""
        return max(len(self._ids), self._begun + len(self._tape) if self._tape is not None else 0)

    def __call__(self, step: int) -> SamplerTrace:
        step = whole_number("The step", step)
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

    def likely(self, step: int, k: int) -> list[tuple[int, str, float]]:
        """Return the `k` likeliest tokens of a step that may stand there: id, text, probability (0 to 1)."""
        known = self._step(step)
        if known.forced:
            return [(self._ids[step], piece_text(self._tokenizer, self._ids[step]), 1.0)]
        if known.logits is None:
            known = self._read_again(step)
        return likeliest(known, k, self._tokenizer)

    def share(self, step: int, token: int) -> float | None:
        """Return the probability of a token at a step (0 to 1); None where the logits are no longer kept."""
        known = self._step(step)
        if known.forced:
            return float(token == self._ids[step])
        return None if known.logits is None else probability(known.logits, token)

    def _step(self, index: int) -> Step:
        place = index - self._begun
        if self._tape is None or not 0 <= place < len(self._tape):
            return Step(None)
        return self._tape.step(place)

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
            (*notes, *advise(sampling), *idle(stages)),
            self.count,
            exact and not afresh,
            was,
            lambda *other: self._trace(start, step, *other, exact=exact),
            self,
            self._draws,
        )

    def _draws(self, trace: SamplerTrace, n: int) -> Draws:
        """Draw with `n` seeds from what `trace` begins with, as `rerun(seed=…)` does."""
        seeds = seeds_from(trace.seed, n)
        ids = tuple(self._drawn_ids(trace, seeds))
        last = trace.stages[-1]
        shares = dict(zip(last.ids.tolist(), last.probabilities.tolist(), strict=True))
        names = [stage.name for stage in trace.stages]

        def probability(token: int) -> float | None:
            return (1.0 if names[-1] == "greedy" else shares.get(token, 0.0)) if alike(names) else None

        tokens = tally(seeds, ids, lambda token: piece_text(self._tokenizer, token), probability)
        return Draws(tokens, seeds, ids, trace.step, trace.sampling)

    def _drawn_ids(self, trace: SamplerTrace, seeds: Sequence[int]) -> Iterator[int]:
        start, weights = trace.stages, self._engine.weights
        logits = spread(start[1] if start[1:] and start[1].name == "constraint" else start[0], start[0])
        chain = SamplerChain(weights, trace.sampling, trace.seed)
        try:
            if alike(chain.stages):
                chain.accept((*self._prompt, *self._ids[: trace.step]))
                yield from draw_alike(weights, chain, logits, seeds, self._earlier_draws(trace.step))
                return
        finally:
            chain.close()
        for seed in seeds:
            same = trace.sampling == self._sampling and seed == self._seed
            chain = SamplerChain(weights, trace.sampling, seed)
            try:
                self._catch_up(chain, trace.step, same=same)
                *_, (_, rows, selected) = chain.walk(logits)
                yield int(rows["id"][selected])
            finally:
                chain.close()

    def _earlier_draws(self, step: int) -> int:
        place = max(0, step - self._begun)
        return place if self._tape is None else self._tape.draws(place)

    def _catch_up(self, chain: SamplerChain, step: int, *, same: bool) -> tuple[str, ...]:
        """Bring the chain's memory to where it was before `step`."""
        chain.accept(self._prompt)
        before = self._ids[:step]
        remembering = sorted(_REMEMBERING & set(chain.stages))
        place = max(0, step - self._begun)
        if remembering and same and self._tape is not None and self._tape.holds(place):
            for index, token in enumerate(before):
                known = self._step(index)
                if known.logits is not None:
                    for _ in chain.walk(masked(known.logits, known.allowed)):
                        pass
                chain.accept((token,))
            return ()
        chain.accept(before)
        if chain.stages[-1] == "dist":
            chain.skip_draws(self._earlier_draws(step))
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
        ids = [*self._prompt, *self._ids[:step]]
        request = Request(ids, 1, greedy, 0, exact=self._exact, certain=self._certain)
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
