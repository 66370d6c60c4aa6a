"""One sample while it is decoded: which token is taken, what is told of it, and when it ends."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pytest

from llama_magic.engine.job import Job
from llama_magic.engine.kv.slots import Slot
from llama_magic.engine.lanes import running
from llama_magic.engine.lanes.running import Running
from llama_magic.engine.steps import StepStore, StepTape
from llama_magic.errors import BackendError, OptionError
from llama_magic.request.events import Event, FinishEvent, PromptEvent, TokenEvent
from llama_magic.request.request import Request, sample_seed
from llama_magic.request.sampling import Sampling

PIECES = [b"a", b"b", b"c", b"\xe2\x82", b"\xac", b"<end>", b"<x>", b" "]
EOG = 5
CONTROL = {5, 6}
N = len(PIECES)
PROMPT = [0, 1, 2]


class Chain:
    """As `native.SamplerChain`; draws the likeliest token, or the next of `drawn`."""

    made: ClassVar[list[Chain]] = []

    def __init__(self, weights: Any, sampling: Sampling, seed: int, *, masked: bool = False) -> None:
        self.seed, self.masked = seed, masked
        self.looks_back = sampling.repeat_penalty != 1.0
        self.plain_greedy = sampling.temperature == 0
        self.accepted: list[int] = []
        self.drawn: list[int] = []
        self.closed = False
        self.made.append(self)

    def accept(self, tokens: Sequence[int]) -> None:
        self.accepted += tokens

    def sample(self, context: Any, index: int) -> int:
        token: int = self.drawn.pop(0) if self.drawn else int(context.logits(index).argmax())
        self.accept([token])
        return token

    def close(self) -> None:
        self.closed = True


class Matcher:
    """A constraint that allows these tokens, forces what `forces` says, and ends with the token `last`."""

    def __init__(self, allowed: Sequence[int], forces: Sequence[list[int]] = (), last: int = -1) -> None:
        self.allowed = list(allowed)
        self.forces = list(forces)
        self.last = last
        self.accepted: list[int] = []

    @property
    def finished(self) -> bool:
        return bool(self.accepted) and self.accepted[-1] == self.last

    def prepare(self) -> None:
        raise AssertionError("The lane has it prepared.")

    def apply(self, logits: Any) -> None:
        logits[[i for i in range(N) if i not in self.allowed]] = -np.inf

    def allowed_bits(self) -> Any:
        return np.packbits([i in self.allowed for i in range(N)], bitorder="little")

    def accept(self, token: int) -> None:
        self.accepted.append(token)

    def forced(self) -> list[int]:
        return self.forces.pop(0) if self.forces else []


class Sample:
    """A sample that is through its prompt, of a job with these options."""

    def __init__(self, index: int = 0, *, max_tokens: int = 10, matcher: Any = None, **options: Any) -> None:
        self.events: list[Event] = []
        self.store = StepStore(N, 100 * 4 * N)
        self.matcher = matcher
        options.setdefault("sampling", Sampling())
        constraint: Any = None if matcher is None else SimpleNamespace(start=lambda: matcher)
        request = Request(PROMPT, max_tokens, seed=7, n=index + 1, constraint=constraint, **options)
        self.job = Job.of(request, self.events.append)
        self.job.tapes = tuple(StepTape(self.store) for _ in range(index + 1))
        vocab = SimpleNamespace(eog_ids=(EOG,), piece=self.piece)
        self.running = Running(self.job, index, SimpleNamespace(vocab=vocab))  # type: ignore[arg-type]
        self.running.slot = Slot(0)
        self.running.slot.extend(PROMPT, 3)
        self.running.open()

    @staticmethod
    def piece(token: int, *, special: bool) -> bytes:
        return b"" if token in CONTROL and not special else PIECES[token]

    @property
    def chain(self) -> Chain:
        chain: Any = self.running.chain
        assert isinstance(chain, Chain)
        return chain

    def pending(self, limit: int) -> list[int]:
        """Return the tokens that are to be decoded next."""
        return self.running.tokens[self.running.n_past :][:limit]

    def step(self, token: int, *, logits: Any = None) -> None:
        """Decode: the likeliest token is this one, by 3 nats before all others, which are alike."""
        row = np.full(N, -3, np.float32)
        row[token] = 0
        row = row if logits is None else np.array(logits, np.float32)
        assert self.running.slot is not None
        self.running.slot.extend(self.pending(100), 3)
        self.running.advance(SimpleNamespace(logits=lambda index: row), 0)  # type: ignore[arg-type]

    @property
    def tokens(self) -> list[TokenEvent]:
        return [event for event in self.events if isinstance(event, TokenEvent)]

    @property
    def end(self) -> FinishEvent | None:
        ends = [event for event in self.events if isinstance(event, FinishEvent)]
        assert len(ends) <= 1
        return ends[0] if ends else None

    @property
    def text(self) -> str:
        return "".join(event.text for event in self.tokens) + (self.end.text if self.end else "")


@pytest.fixture(autouse=True)
def _chain(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "SamplerChain", Chain)
    monkeypatch.setattr(Chain, "made", [])


# --- the way of a token -------------------------------------------------------------------------


def test_a_token_is_told_with_the_text_that_it_makes_certain() -> None:
    """A character in two tokens comes with the second; what is written is fed next."""
    sample = Sample()
    for token in (0, 3, 4, 7):
        sample.step(token)
        assert sample.pending(5) == [token]
    assert [(event.token, event.text) for event in sample.tokens] == [(0, "a"), (3, ""), (4, "€"), (7, " ")]
    assert {(event.sample, event.forced, event.logprob, event.top) for event in sample.tokens} == {
        (0, False, None, ())
    }
    assert sample.running.tokens == [*PROMPT, 0, 3, 4, 7]
    assert (sample.running.n_generated, sample.job.stats.generated, sample.running.n_past) == (4, 4, 6)
    assert sample.end is None


def test_the_first_and_the_last_token_are_timed() -> None:
    """The first once; an end of generation counts as a token there, not as one that was written."""
    sample = Sample()
    sample.step(0)
    stats = sample.job.stats
    first = stats.first_token
    assert 0 < first == stats.last_token
    sample.step(EOG)
    assert stats.first_token == first < stats.last_token
    assert stats.generated == 1


def test_the_chain_draws_but_where_it_is_plain_greedy() -> None:
    """Then the likeliest is taken without it."""
    sample = Sample()
    sample.chain.drawn = [2]
    sample.step(1)
    assert [event.token for event in sample.tokens] == [2]
    greedy = Sample(sampling=Sampling(temperature=0))
    greedy.chain.drawn = [2]
    greedy.step(1)
    assert [event.token for event in greedy.tokens] == [1]


def test_each_sample_has_a_chain_with_a_seed_of_its_own() -> None:
    """It is shown the prompt where it looks back, and made once, though a sample may be sent back."""
    sample = Sample(2, sampling=Sampling(repeat_penalty=1.5), matcher=Matcher(range(N)))
    sample.running.open()
    (chain,) = Chain.made
    assert (chain.seed, chain.masked, chain.accepted) == (sample_seed(7, 2), True, PROMPT)
    plain = Sample()
    assert (plain.chain.seed, plain.chain.masked, plain.chain.accepted) == (7, False, [])


def test_log_probabilities_are_those_before_the_constraint() -> None:
    """Of the drawn token and the likeliest ones, by the softmax of the whole row."""
    sample = Sample(logprobs=3, matcher=Matcher([1, 2]))
    sample.step(0, logits=[4, 2, 1, 0, 0, 0, 0, 3])
    (event,) = sample.tokens
    total = math.log(sum(map(math.exp, [4, 2, 1, 0, 0, 0, 0, 3])))
    assert event.token == 1
    assert event.logprob == pytest.approx(2 - total)
    assert [token for token, _ in event.top] == [0, 7, 1]
    assert [value for _, value in event.top] == pytest.approx([4 - total, 3 - total, 2 - total])
    alone = Sample(logprobs=0)
    alone.step(0, logits=[4, 2, 1, 0, 0, 0, 0, 3])
    assert alone.tokens[0].logprob == pytest.approx(4 - total)
    assert alone.tokens[0].top == ()


def test_the_mass_outside_a_constraint_is_measured_on_demand() -> None:
    """It is what the model gave to the tokens that were not allowed."""
    row = [1, 2, 0, 0, 0, 0, 0, 1]
    inside = sum(map(math.exp, row[1:3])) / sum(map(math.exp, row))
    sample = Sample(matcher=Matcher([1, 2]), measure_outside=True)
    sample.step(0, logits=row)
    assert sample.tokens[0].outside_mass == pytest.approx(1 - inside)
    assert sample.tokens[0].logprob == pytest.approx(2 - math.log(sum(map(math.exp, row))))
    for other in (Sample(measure_outside=True), Sample(matcher=Matcher([1, 2]))):
        other.step(0, logits=row)
        assert other.tokens[0].outside_mass is None


def test_what_was_seen_is_noted_on_the_tape() -> None:
    """The logits before the constraint, which tokens it left, and which were forced."""
    sample = Sample(matcher=Matcher([1, 2], [[7, 0]]))
    sample.step(0, logits=[4, 2, 1, 0, 0, 0, 0, 3])
    tape = sample.job.tapes[0]
    assert len(tape) == 3
    step = tape.step(0)
    assert step.logits is not None
    assert step.allowed is not None
    assert step.logits.tolist() == [4, 2, 1, 0, 0, 0, 0, 3]
    assert np.flatnonzero(step.allowed).tolist() == [1, 2]
    assert tape.step(1).forced
    assert tape.step(2).forced


# --- constraints --------------------------------------------------------------------------------


def test_forced_tokens_follow_at_once() -> None:
    """All that there is no choice about, shown to chain and constraint, and fed together."""
    matcher = Matcher(range(N), [[7, 0], [1]])
    sample = Sample(matcher=matcher)
    sample.step(2)
    assert [(event.token, event.forced) for event in sample.tokens] == [
        (2, False), (7, True), (0, True), (1, True)
    ]  # fmt: skip
    assert matcher.accepted == sample.chain.accepted == [2, 7, 0, 1]
    assert sample.pending(10) == [2, 7, 0, 1]


def test_forced_tokens_have_probabilities_where_these_are_asked_for() -> None:
    """Each is decoded by itself then; none is forced before the first draw, as without probabilities."""
    best = -float(np.log(1 + (N - 1) * np.exp(-3)))  # the likeliest; others have 3 nats less
    sample = Sample(matcher=Matcher(range(N), [[7, 0], [0], []]), logprobs=1)
    for likeliest, taken in ((2, 2), (1, 7), (0, 0), (4, 4)):
        sample.step(likeliest)
        assert sample.pending(10) == [taken]
        assert sample.tokens[-1].top == ((likeliest, pytest.approx(best)),)
    assert [(event.token, event.forced) for event in sample.tokens] == [
        (2, False), (7, True), (0, True), (4, False)
    ]  # fmt: skip
    assert [event.logprob for event in sample.tokens] == pytest.approx([best, best - 3, best, best])
    assert sample.chain.accepted == [2, 7, 0, 4]


def test_forced_tokens_end_where_the_answer_ends() -> None:
    """At the most that may be written, and where the constraint is fulfilled."""
    short = Sample(matcher=Matcher(range(N), [[7, 0, 1]]), max_tokens=3)
    short.step(2)
    assert [event.token for event in short.tokens] == [2, 7, 0]
    assert short.end is not None
    assert short.end.reason == "length"
    done = Sample(matcher=Matcher(range(N), [[7, 0, 1], [2]], last=0))
    done.step(2)
    assert [event.token for event in done.tokens] == [2, 7, 0]
    assert done.end is not None
    assert (done.end.reason, done.end.stop) == ("stop", None)


def test_a_fulfilled_constraint_ends_the_answer() -> None:
    """Nothing is forced behind the end, and nothing of it shown to the constraint."""
    matcher = Matcher(range(N), [[0]], last=2)
    sample = Sample(matcher=matcher)
    sample.step(2)
    assert [event.token for event in sample.tokens] == [2]
    assert sample.running.done
    ended = Sample(matcher=Matcher(range(N), [[0]]))
    ended.step(EOG)
    assert (ended.tokens, ended.matcher.accepted, ended.running.done) == ([], [], True)


# --- what cannot be drawn -----------------------------------------------------------------------


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_no_numbers_are_an_error(bad: float) -> None:
    """Wherever the NaN stands; the error says at which token."""
    for place in (0, 4, 7):
        sample = Sample()
        sample.step(0)
        row = [1.0] * N
        row[place] = bad
        with pytest.raises(BackendError, match=f"at token 2 .largest is {bad}"):
            sample.step(0, logits=row)
        assert len(sample.tokens) == 1


def test_a_row_of_nothing_but_minus_infinity_is_an_error() -> None:
    """A constraint that allows nothing would end the process in llama.cpp."""
    sample = Sample(matcher=Matcher([]))
    with pytest.raises(BackendError, match="largest is -inf"):
        sample.step(0)


def test_a_forbidden_token_is_never_taken() -> None:
    """A bias of -inf is kept, and so is the constraint, though the chain hands such a token out."""
    biased = Sample(sampling=Sampling(logit_bias=((2, -math.inf), (1, -5.0))))
    biased.chain.drawn = [1, 2]
    biased.step(0)
    with pytest.raises(OptionError, match="No token is left to draw at token 2"):
        biased.step(0)
    bound = Sample(matcher=Matcher([0, 1]))
    bound.chain.drawn = [2]
    with pytest.raises(OptionError, match="No token is left to draw at token 1"):
        bound.step(0)


# --- ends ---------------------------------------------------------------------------------------


def test_an_answer_ends_with_an_end_of_generation() -> None:
    """Which is not written; with `ignore_eos` it is one token among others, and has no text."""
    sample = Sample()
    sample.step(0)
    sample.step(EOG)
    assert sample.end == FinishEvent(0, "stop", "", None)
    assert (sample.text, sample.running.tokens, sample.chain.closed) == ("a", [*PROMPT, 0], True)
    on = Sample(ignore_eos=True)
    on.step(EOG)
    assert on.end is None
    assert [(event.token, event.text) for event in on.tokens] == [(EOG, "")]


def test_control_tokens_have_text_where_they_are_asked_for() -> None:
    """Those that a family of formats reads back are visible, and others are not."""
    sample = Sample(visible_ids=frozenset([6]))
    sample.step(6)
    assert sample.text == "<x>"
    other = Sample()
    other.step(6)
    assert other.text == ""


def test_a_token_that_stops_is_named_by_its_text() -> None:
    """A stop string that is one token ends the answer before it is written, also where an end is ignored."""
    sample = Sample(stop_texts={6: "<x>"}, ignore_eos=True)
    sample.step(0)
    sample.step(6)
    assert sample.end == FinishEvent(0, "stop", "", "<x>")
    assert sample.text == "a"


def test_a_stop_string_ends_the_answer_and_is_not_told() -> None:
    """What may still become one is held back, and comes out where it does not."""
    sample = Sample(stops=("bc",))
    for token in (0, 1, 2):
        sample.step(token)
    assert sample.end == FinishEvent(0, "stop", "", "bc")
    assert sample.text == "a"
    other = Sample(stops=("bc",))
    for token in (0, 1, EOG):
        other.step(token)
    assert other.end == FinishEvent(0, "stop", "b", None)
    assert other.text == "ab"


def test_an_answer_ends_at_its_length() -> None:
    """With what was held back; the character that is cut in two shows that it is."""
    sample = Sample(max_tokens=2, stops=("bc",))
    sample.step(0)
    sample.step(1)
    assert sample.end == FinishEvent(0, "length", "b", None)
    cut = Sample(max_tokens=1)
    cut.step(3)
    assert cut.end == FinishEvent(0, "length", "�", None)


def test_a_stop_string_of_a_character_cut_in_two_stops() -> None:
    """The end of the text may complete one: then the answer was stopped, not cut."""
    sample = Sample(max_tokens=1, stops=("�",))
    sample.step(3)
    assert sample.end == FinishEvent(0, "stop", "", "�")


def test_an_end_is_told_once_and_a_dropped_sample_tells_none() -> None:
    """The chain is freed in either case; before it was opened there is none."""
    sample = Sample()
    sample.running.finish("interrupted")
    sample.running.finish("stop")
    assert sample.end == FinishEvent(0, "interrupted", "", None)
    dropped = Sample(1)
    dropped.running.drop()
    assert (dropped.events, dropped.running.done, dropped.chain.closed) == ([], True, True)
    never = Running(dropped.job, 0, dropped.running.weights)
    never.finish("interrupted")
    assert dropped.events == [FinishEvent(0, "interrupted", "", None)]


# --- the prompt ---------------------------------------------------------------------------------


def test_the_first_sample_reports_the_prompt() -> None:
    """How much is read of it and how much was reused; the others share it and say nothing."""
    sample = Sample()
    slot = sample.running.slot
    assert slot is not None
    slot.cut(1)
    assert sample.running.reading
    sample.running.report_prompt(1)
    assert sample.pending(1) == [1]
    assert sample.pending(5) == [1, 2]
    slot.extend([1, 2], 3)
    assert not sample.running.reading
    slot.extend([0], 3)
    sample.running.report_prompt()
    assert sample.events == [PromptEvent(1, 3, 1), PromptEvent(3, 3, 1)]
    assert sample.job.stats.cached_tokens == 1
    other = Sample(1)
    other.running.report_prompt(2)
    assert (other.events, other.job.stats.cached_tokens) == ([], 0)


def test_before_it_has_a_slot_nothing_is_read() -> None:
    """It needs room for its prompt, all that it may write, and one more."""
    sample = Sample(max_tokens=10)
    sample.running.slot = None
    assert (sample.running.n_past, sample.running.reading) == (0, True)
    assert sample.running.n_most == 14
