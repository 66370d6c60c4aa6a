"""An example of each kind of result that comes of many answers, of a file, or of what holds them."""

from __future__ import annotations

from typing import Any

from display_answers import completion

import llama_magic as lm
from llama_magic.display.views.model.model import ModelCard
from llama_magic.experiments.difference import Difference, Side
from llama_magic.experiments.forecast import Forecast, ForecastRow
from llama_magic.experiments.throughput import Bench, Throughput
from llama_magic.experiments.verification import Verdict, Verification
from llama_magic.fit import Machine, Options, Speed, estimate
from llama_magic.lesson.exercise import check
from llama_magic.lesson.question import Question
from llama_magic.loading.alias import Alias
from llama_magic.loading.compare import Comparison, Quant
from llama_magic.loading.dry import DryRun
from llama_magic.loading.plan import Plan
from llama_magic.magics._call import Samples
from llama_magic.magics._inspect import _Part
from llama_magic.magics.doctor import Check, DoctorReport
from llama_magic.microscope.comparing import TokenComparison
from llama_magic.microscope.drawing import DrawnOften, Draws
from llama_magic.microscope.tokens import TokenPiece, TokenStrip, TokenStrips
from llama_magic.model.branching import Alternative
from llama_magic.model.stats import ModelStats
from llama_magic.request.sampling import Sampling
from llama_magic.session.chat import Chat
from llama_magic.session.history import HistoryEntry
from llama_magic.session.turns import Turn
from llama_magic.testing import scripted_model

_REVIEWS = [
    {"text": text, "mood": mood}
    for text, mood in (
        ("Lovely.", "good"),
        ("It <b>broke</b>.", "bad"),
        (None, "bad"),
        ("Never again.", "bad"),
    )
]


def _experiments() -> dict[str, Any]:
    model = scripted_model(lambda request: "good" if "mood" in request.text else "bad")
    asked = {"short": "{{ text }}", "long": "The mood of {{ text }}?"}
    runs = lm.map(_REVIEWS * 30, asked, model=model, score="mood", over={"top_k": [1, 2]})
    decided = scripted_model(odds=lambda request, text: 0.6 if text == "good" else 0.3)
    odds = lm.decide(_REVIEWS, "{{ text }}", options=["good", "bad"], model=decided)
    answers = iter(('"good"', '"bad"', '"bad"'))
    voter = scripted_model(lambda request: next(answers))
    moods = [voter.structured("A mood?", {"enum": ["good", "bad"]}) for _ in range(3)]
    return {
        "runs": runs,
        "run": runs[0],
        "summary": runs.summary(by="prompt"),
        "pairs": runs.pairs("prompt"),
        "changes": lm.diff(runs.where(prompt="short"), runs[4:].where(prompt="long")),
        "agreement": runs.kappa("prompt"),
        "confusion": runs.confusion("mood"),
        "odds": odds,
        "decision": odds[0],
        "calibration": odds.calibration("mood"),
        "thresholds": odds.thresholds("mood"),
        "vote": lm.vote(moods),
        "tree": lm.tree([completion("One of them."), completion("One or two.")]),
    }


def _answers() -> dict[str, Any]:
    sides = (
        Side("A", 24, " your", " tea.", (Alternative(1, " a", 0.27), Alternative(2, " the", 0.2))),
        Side("B", 9, "", ""),
    )
    rows = (
        ForecastRow(0, 0, {"p": "short"}, 30, 256),
        ForecastRow(1, 0, {"p": "short"}, None, None, ValueError("No.")),
    )
    other = Verdict("answer 2", False, 8, " The", "\n", (("KV type", "f16", "q8_0"),))
    drawn = (DrawnOften(5, " the", 2, 0.6, (1, 2)), DrawnOften(6, " a", 1, None, (3,)))
    return {
        "difference": Difference(5, ", you need to brew", sides, (("seed", 9, 14), ("temperature", 0.8, 0))),
        "forecast": Forecast(rows, 20, 12.5, notes=("a note",)),
        "verification": Verification("x.sqlite", (Verdict("answer 1", True), other), 2),
        "bench": Bench(
            "smollm2",
            (Throughput(512, 0, (810.0, 790.0)), Throughput(0, 128, (60.5, 61.5))),
            notes=("a note",),
        ),
        "draws": Draws(drawn, (1, 2, 3), (5, 5, 6), 0, Sampling()),
        "samples of a cell": Samples([completion("One."), completion("Two.", seed=43)]),
        "entries": [HistoryEntry(completion("One."), 1), HistoryEntry(completion("Two."), 2)],
    }


def _models() -> dict[str, Any]:
    info = lm.inspect("smollm2")
    speed = Speed(123.4, 10**9, 0, "memory bandwidth", 1.2e11, 4)
    plan = Plan("m", 8192, "q8_0", 4 * 10**9, 16384, True, speed, Speed(99.0, 1, 1, "arithmetic", 1, 4))
    quants = (
        Quant("Q4_0", ("a.gguf",), 10**9, 4.5, 2 * 10**9, 8192, 8192, True, 12.3, "%llama load A"),
        Quant("F16", ("c.gguf",), None, None, None, None, None, None, None, "%llama load C", True),
    )
    machine = Machine(2, 4, 8 * 10**9, 4 * 10**9)
    counted = ModelStats("smollm2")
    checks = (Check("llama.cpp", "0.3.36"), Check("CPU", "AVX2", "Rebuild for it:", "pip install x"))
    strips = [
        TokenStrip("naïve", tuple(TokenPiece(i, t, t.encode(), False) for i, t in enumerate(pieces)))
        for pieces in (("na", "ï", "ve"), ("naïve",))
    ]
    return {
        "header": info,
        **{f"header: {part}": _Part(part, info) for part in ("tensors", "tokenizer", "template")},
        "plan": plan,
        "fit": estimate(info, Options(ctx=2048)),
        "comparison": Comparison("o/r", quants, "Take Q4_0.", machine, quants[0], ("a note",)),
        "dry run": DryRun("smollm2", 98_000_000, info, 2048, None, {"ctx": 2048}, ("a note",), speed),
        "alias": Alias("quick", "smollm2", {"ctx": 2048}, ("a note",)),
        "card": ModelCard(
            "m", "llama", 135_000_000, "Q4_1", 98_000_000, 2048, 8192, "gguf", 10**8, 10**8, ("a note",)
        ),
        "stats": counted,
        "doctor": DoctorReport(checks),
        "token strips": TokenStrips(("one", "<b>two</b>"), tuple(strips)),
        "token comparison": TokenComparison("naïve", ("a", "b"), tuple(strips)),
    }


def _held() -> dict[str, Any]:
    turn = Turn(
        ({"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello **you**."}),
        system="Be kind.",
    )
    return {
        "conversation": Chat("default", [turn]),
        "question": Question("Which?", ("sea", "broccoli"), "sea", "It is likelier.", "broccoli", True),
        "open exercise": check(..., 4),
        "wrong exercise": check(3, 4),
        "solved exercise": check(4, 4, why="So it is."),
    }


def example_results() -> dict[str, Any]:
    """Return an example of each, by the name of what it shows."""
    return {**_experiments(), **_answers(), **_models(), **_held()}
