"""`lm.bench` and `%llama bench`: what is asked of a model, and what is made of its times."""

from __future__ import annotations

import statistics
from html import unescape
from typing import Any

import pytest

import llama_magic as lm
from llama_magic import display
from llama_magic.errors import GenerationInterrupted, InputTypeError, OptionError
from llama_magic.experiments.throughput import Bench, Throughput
from llama_magic.model.stream import Stream
from llama_magic.request.backend import Capabilities
from llama_magic.session import session
from llama_magic.testing import Script, scripted_model


def test_what_is_asked_is_what_llama_bench_does() -> None:
    """pp: that many tokens at once, the same each time; tg: one token, and that many after the first.

    No token is guessed ahead, and a prompt is read as fast as for a draw: not row by row.
    """
    model = scripted_model(lambda _r: "w " * 300, window=1024)
    found = lm.bench(model, n_prompt=64, n_gen=16, repetitions=3)
    asked = model.backend.requests
    assert [(len(r.prompt), r.max_tokens) for r in asked] == [(64, 1)] * 4 + [(1, 17)] * 4
    assert not any(r.reuse or r.exact or r.speculate for r in asked)
    assert [(r.ignore_eos, r.certain) for r in asked] == [(True, False)] * 4 + [(True, True)] * 4
    assert asked[0].prompt == asked[3].prompt
    assert [(s.test, s.n_prompt, s.n_gen, len(s.samples)) for s in found.speeds] == [
        ("pp64", 64, 0, 3),
        ("tg16", 0, 16, 3),
    ]


def test_nobody_hears_of_it() -> None:
    """History and stats stand as they were."""
    model = scripted_model(lambda _r: "w " * 300)
    before = len(session.current().history)
    lm.bench(model, n_prompt=8, n_gen=8, repetitions=1)
    assert len(session.current().history) == before
    assert model.stats.requests == 0


def test_a_figure_is_tokens_by_seconds(scripted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """pp: prompt tokens by the seconds of reading; tg: tokens after the first by the seconds of these."""
    timings: list[Any] = []
    run = Stream.run

    def watched(stream: Any) -> Any:
        made = run(stream)
        timings.append((made.timings, made.usage))
        return made

    monkeypatch.setattr(Stream, "run", watched)
    found = lm.bench(scripted, n_prompt=40, n_gen=10, repetitions=2)
    reads, writes = timings[1:3], timings[4:6]
    assert found["pp40"].samples == tuple(40 / times.prompt_s for times, _ in reads)
    assert found["tg10"].samples == tuple(times.tokens_per_second for times, _ in writes)
    assert [usage.completion_tokens for _, usage in writes] == [11, 11]
    assert all(usage.cached_tokens == 0 for _, usage in timings)
    assert found.facts["n_threads"] == 1
    assert found.facts["n_batch"] == scripted.options["batch"]


def test_mean_and_deviation_are_those_of_the_samples() -> None:
    """The sample's standard deviation, as llama-bench has it; 0 of one. In every format, and pandas."""
    speed = Throughput(512, 0, (90.0, 110.0, 100.0))
    assert (speed.mean, speed.deviation) == (100.0, statistics.stdev([90, 110, 100]))
    assert Throughput(0, 128, (5.0,)).deviation == 0
    found = Bench("m", (speed, Throughput(0, 128, (5.0,))), {"n_threads": 2})
    frame = found.to_pandas()
    assert list(frame["test"]) == ["pp512", "tg128"]
    assert list(frame["avg_ts"]) == [100.0, 5.0]
    assert frame["samples_ts"][0] == [90.0, 110.0, 100.0]
    for shown in (display.to_html(found), display.to_markdown(found), display.to_text(found)):
        assert all(words in unescape(shown) for words in ("pp512", "100.0 ± 10.0", "2 threads"))
    with pytest.raises(KeyError):
        found["pp1"]


def test_each_run_is_told_before_it_begins() -> None:
    """Of two tests with one unmeasured and two measured runs each: six, with the share done."""
    told: list[Any] = []
    model = scripted_model(lambda _r: "w " * 300)

    def noted(state: Any) -> None:
        told.append((state.label, state.done, len(model.backend.requests)))

    lm.bench(model, n_prompt=8, n_gen=4, repetitions=2, progress=noted)
    names = ["pp8"] * 3 + ["tg4"] * 3
    assert told == [(f"{name}, run {run + 1} of 6", 100 * run // 6, run) for run, name in enumerate(names)]


def test_a_test_can_be_left_out_and_an_interrupt_keeps_what_is_there() -> None:
    """0 tokens leave a test out; Ctrl-C gives the samples so far."""
    model = scripted_model(lambda _r: "w " * 300)
    assert [s.test for s in lm.bench(model, n_prompt=0, n_gen=4, repetitions=1).speeds] == ["tg4"]
    answers: list[Any] = ["w"] * 4 + ["w " * 9] * 2 + [Script("w " * 9, at=2, interrupt=True)]
    with pytest.raises(GenerationInterrupted) as caught:
        lm.bench(scripted_model(answers), n_prompt=8, n_gen=8, repetitions=3)
    assert [(s.test, len(s.samples)) for s in caught.value.completion.speeds] == [("pp8", 3), ("tg8", 1)]


def test_what_cannot_be_measured_is_refused() -> None:
    """Numbers that are none, more than the window, a source that takes words."""
    model = scripted_model(window=64)
    for how in ({"n_prompt": -1}, {"repetitions": 0}, {"n_prompt": 0, "n_gen": 0}):
        with pytest.raises(OptionError):
            lm.bench(model, **how)
    with pytest.raises(InputTypeError):
        lm.bench(model, n_gen=1.5)  # type: ignore[arg-type]
    with pytest.raises(OptionError, match=r"over the window of 64 of scripted[^0-9]*62"):
        lm.bench(model, n_gen=8)
    elsewhere = scripted_model(capabilities=Capabilities(renders=False))
    with pytest.raises(OptionError, match="asked in words"):
        lm.bench(elsewhere)


def test_the_line_shows_how_far_it_is(ip: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a notebook: what is measured at once, and the result in its place, shown once."""
    monkeypatch.setattr("llama_magic.display.hosts.host", lambda _shell: "lab")
    sent: list[tuple[str, bool]] = []
    monkeypatch.setattr(
        "llama_magic.display.hosts.publish",
        lambda _shell, bundle, *, update=False, **_how: sent.append((bundle["text/plain"], update)),
    )
    scripted_model(lambda _r: "w " * 300, shell=ip)
    found = ip.run_line_magic("llama", "bench -p 8 -n 4 -r 1")
    assert sent[0][0].startswith("measuring")
    assert "pp8, run 1 of 4" in sent[0][0]
    assert sent[-1][1]
    assert "tg4" in sent[-1][0]
    assert [s.test for s in found.speeds] == ["pp8", "tg4"]


def test_the_line_measures_a_named_model(ip: Any) -> None:
    """`%llama bench NAME -p N -n N -r N`; without a name it is the current one."""
    scripted_model(lambda _r: "w " * 300, name="one", shell=ip)
    two = scripted_model(lambda _r: "w " * 300, name="two", shell=ip)
    found = ip.run_line_magic("llama", "bench one -p 8 -n 4 -r 2")
    assert (found.model, [s.test for s in found.speeds], len(found["pp8"].samples)) == (
        "one",
        ["pp8", "tg4"],
        2,
    )
    assert ip.run_line_magic("llama", "bench --n-prompt 8 --n-gen 0 --repetitions 1").model == two.name
