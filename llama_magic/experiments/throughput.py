"""How fast a model reads and writes, in llama-bench's terms: pp512 and tg128, in tokens a second."""

from __future__ import annotations

import itertools
import random
import statistics
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from llama_magic import fit
from llama_magic.errors import GenerationInterrupted, OptionError
from llama_magic.experiments.models import read_models
from llama_magic.model.bounded import bounded
from llama_magic.model.stream import Stream
from llama_magic.words.given import whole_number
from llama_magic.words.progress import Progress, ProgressCallback
from llama_magic.words.shown import Printed
from llama_magic.words.signature import checked

if TYPE_CHECKING:
    from llama_magic.model.model import Model

_SEED = 1  # of the tokens that are read; llama-bench's are random, too


@dataclass(frozen=True)
class Throughput:
    """One test: `n_prompt` tokens read at once, or `n_gen` written one after the other.

    `samples` are tokens a second, one a repetition.
    """

    n_prompt: int
    n_gen: int
    samples: tuple[float, ...]

    @property
    def test(self) -> str:
        """Its name in llama-bench: pp512, tg128."""
        return f"pp{self.n_prompt}" if self.n_prompt else f"tg{self.n_gen}"

    @property
    def mean(self) -> float:
        """Tokens a second."""
        return statistics.fmean(self.samples)

    @property
    def deviation(self) -> float:
        """The standard deviation of the samples, 0 of one."""
        return statistics.stdev(self.samples) if len(self.samples) > 1 else 0.0


@dataclass(frozen=True)
class Bench(Printed):
    """What `lm.bench` measured: a `Throughput` a test, and what it was measured on."""

    model: str
    speeds: tuple[Throughput, ...]
    facts: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    def __getitem__(self, test: str) -> Throughput:
        """Return the speed of a test by its name: `found["pp512"]`."""
        for speed in self.speeds:
            if speed.test == test:
                return speed
        raise KeyError(test)

    def to_pandas(self) -> Any:
        """Return a `pandas.DataFrame` with a row a test, its columns called as llama-bench calls them.

        Raises: ImportError where pandas is not installed.
        """
        import pandas

        return pandas.DataFrame(
            {
                "model": self.model,
                **self.facts,
                "test": speed.test,
                "n_prompt": speed.n_prompt,
                "n_gen": speed.n_gen,
                "avg_ts": speed.mean,
                "stddev_ts": speed.deviation,
                "samples_ts": list(speed.samples),
            }
            for speed in self.speeds
        )


@checked
def bench(
    model: Model | str | None = None,
    *,
    n_prompt: int = 512,
    n_gen: int = 128,
    repetitions: int = 5,
    progress: ProgressCallback | None = None,
    timeout: float | None = None,
) -> Bench:
    """Measure how fast a model reads a prompt and writes an answer, as llama-bench does.

    pp: `n_prompt` random tokens are read at once, nothing reused. tg: `n_gen` tokens are written after one,
    the likeliest each time, none guessed ahead. Each is tried once unmeasured, then
    `repetitions` times. 0 tokens leave a test out. `model` is a model, a name or source to load, or None for
    the current one. Neither history nor `model.stats` hear of it. `progress` is told a `Progress` before
    each run.

    Raises `OptionError`; `GenerationInterrupted` on Ctrl-C, and `OutOfTimeError` after `timeout` seconds: the
    `completion` of both is the `Bench` so far.
    """
    for name, value, least in (
        ("n_prompt", n_prompt, 0),
        ("n_gen", n_gen, 0),
        ("repetitions", repetitions, 1),
    ):
        if whole_number(name, value) < least:
            raise OptionError(f"{name} is {value}; expected {least} or more.")
    if not n_prompt and not n_gen:
        raise OptionError("n_prompt and n_gen are 0, so there is nothing to measure.")
    models = read_models(model, None)
    (name,) = models.names
    try:
        with bounded(timeout):
            return _measured(models.open(name), n_prompt, n_gen, repetitions, progress or _nobody)
    finally:
        models.leave(name)


def _nobody(_state: Progress) -> None:
    """Tell nobody how far it is."""


def _measured(model: Model, n_prompt: int, n_gen: int, repetitions: int, progress: ProgressCallback) -> Bench:
    _check(model, n_prompt, n_gen)
    busy = "Other work kept the processor busy: these figures are lower than those of a quiet machine."
    notes = (busy,) if fit.machine().busy else ()
    done: dict[tuple[int, int], Throughput] = {}

    def made() -> Bench:
        return Bench(model.name, tuple(done.values()), _facts(model), notes)

    every = (repetitions + 1) * (bool(n_prompt) + bool(n_gen))
    runs = itertools.count()
    try:
        for prompt, gen, sample in _tests(model, n_prompt, n_gen):
            samples: list[float] = []
            name = Throughput(prompt, gen, ()).test
            for repetition in range(repetitions + 1):
                run = next(runs)
                progress(
                    Progress("measure", 100 * run // every, 100, f"{name}, run {run + 1} of {every}", "%")
                )
                speed = sample()
                if repetition:  # the first is not measured: caches and clocks warm up
                    samples.append(speed)
                    done[prompt, gen] = Throughput(prompt, gen, tuple(samples))
    except GenerationInterrupted:
        words = "the tests so far are kept" if done else "nothing was measured yet"
        raise GenerationInterrupted(made() if done else None, words) from None
    return made()


def _tests(model: Model, n_prompt: int, n_gen: int) -> Iterator[tuple[int, int, Callable[[], float]]]:
    """Yield each test: tokens read, tokens written, and what measures one sample."""
    draw = random.Random(_SEED)  # noqa: S311 - any tokens will do
    tokenizer = model.backend.tokenizer
    first = tokenizer.bos_id if tokenizer.bos_id is not None else draw.randrange(tokenizer.n_tokens)
    if n_prompt:
        tokens = [first, *(draw.randrange(tokenizer.n_tokens) for _ in range(n_prompt - 1))]
        yield n_prompt, 0, lambda: n_prompt / max(1e-9, _ask(model, tokens, 1).prompt_s)
    if n_gen:
        # The first token comes of reading the prompt; n_gen more are decoded after it.
        yield 0, n_gen, lambda: float(_ask(model, [first], n_gen + 1).tokens_per_second)


def _ask(model: Model, tokens: list[int], most: int) -> Any:
    """Return the timings of one answer, of which nobody is told."""
    # llama-bench guesses nothing ahead: a small model repeats random tokens, and with guesses tg128 was 1.8
    # times its figure. A prompt is read as for a draw: at temperature 0 it may be read row by row, 1.2 times
    # as long.
    likeliest = {"temperature": 0.0 if most > 1 else 1.0}
    options = {"max_tokens": most, "ignore_eos": True, "reuse": False, "speculate": "off", **likeliest}
    asked = model.calls.passing().text(tokens, None, options, "bench")
    asked.listed, asked.counts = False, None
    return Stream(model.backend, asked).run().timings


def _check(model: Model, n_prompt: int, n_gen: int) -> None:
    """Refuse what would not fit, or could not be measured."""
    if not model.backend.capabilities.renders:
        raise OptionError(
            f"{model.name} is asked in words, and cuts them into tokens elsewhere: how fast it reads cannot "
            "be measured here.",
            remedy="Ask a llama-server, or load the model here.",
        )
    for flag, tokens in (("n_prompt", n_prompt), ("n_gen", n_gen)):
        if tokens + 2 > model.window:
            raise OptionError(
                f"{flag} is {tokens:,}, which with two tokens more is over the window of {model.window:,} of "
                f"{model.name}.",
                remedy=f"Measure {max(0, model.window - 2):,} at most, or load it with a larger ctx.",
            )


def _facts(model: Model) -> dict[str, Any]:
    """Return what llama-bench says of a model and how it runs, where that is known here."""
    said = model.options
    ours = {
        "threads": "n_threads",
        "batch": "n_batch",
        "ubatch": "n_ubatch",
        "type_k": "type_k",
        "type_v": "type_v",
    }
    facts = {theirs: said[name] for name, theirs in ours.items() if name in said}
    if not model.has_file:
        return facts
    info = model.info
    kind = f"{info.architecture} {info.quantisation}"
    return {"model_type": kind, "model_size": model.size_bytes, "model_n_params": info.n_params, **facts}
