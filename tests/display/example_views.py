"""An example of each kind of view, of results that need no model."""

from __future__ import annotations

import functools
import math
from collections.abc import Mapping
from typing import Any

from display_answers import PARTS, answering, completion
from example_results import example_results

from llama_magic.engine.snapshot import LaneState, LastCall
from llama_magic.microscope.cells import KVSequence, KVState
from llama_magic.microscope.reading import ReadThrough, ReadToken
from llama_magic.microscope.tokens import TokenPiece, TokenStrip
from llama_magic.microscope.tracing import Drawn, SamplerTrace, TraceStage
from llama_magic.model.drafts import Drafts
from llama_magic.model.logprobs import TokenLogprob
from llama_magic.model.results import Budget
from llama_magic.remote import Ability, ServerCard
from llama_magic.request.sampling import Sampling
from llama_magic.session.history import History
from llama_magic.words.tables import Share, Table


def _tokens() -> TokenStrip:
    tokens = [("<|im_start|>", 1, True), ("user", 9690, False), ("\n", 198, False), (" to", 288, False)]
    return TokenStrip("", tuple(TokenPiece(i, t, t.encode(), s) for t, i, s in tokens))


def _surprise() -> ReadThrough:
    first = ReadToken(1, "The", None, None, None)
    likely = ReadToken(2, " sea", math.log(0.5), 1, 1.0, ((" sea", 0.5), (" sky", 0.25)))
    rare = ReadToken(3, " broccoli", math.log(1 / 8192), 731, 1.0, ((" is", 0.5),))
    return ReadThrough("The sea broccoli", (first, likely, rare), "smollm2")


def _trace() -> SamplerTrace:
    nothing: Any = ()
    first = TraceStage(
        "logits", {}, 49152, 4.31, 1.0, ((" door", 0.5), (" gate", 0.25)), nothing, nothing, nothing
    )
    last = TraceStage("min_p", {"min_p": 0.05}, 1, 0.0, 0.5, ((" door", 1.0),), nothing, nothing, nothing)
    return SamplerTrace((first, last), Drawn(7, " door", 1.0), 0, 1, Sampling())


def _sequence(name: str, text: str) -> KVSequence:
    return KVSequence(
        name,
        "cells",
        "main",
        tuple(map(ord, text)),
        tuple(c.encode() for c in text),
        len(text),
        10,
        (),
        False,
        (len(text) - 8, len(text) - 1),
    )


def _kv() -> KVState:
    lanes = (LaneState("main", 2048, 60, 10**7, 0, 10**8),)
    held = (_sequence("a", "hello world"), _sequence("b", "hello there"))
    return KVState(lanes, held, 23_000, "f16", "f16", 512, LastCall(100, 24, 76, 0.5))


def _history() -> History:
    history = History()
    for text in ("One answer.", "Another\nanswer."):
        history.add(completion(text))
    return history


@functools.cache
def example_views() -> Mapping[str, Any]:
    """Return an example of each, by the name of what it shows."""
    likely = TokenLogprob(
        3, " Lyon", math.log(0.08), ((4, " Paris", math.log(0.71)), (3, " Lyon", math.log(0.08)))
    )
    samples = [completion("One."), completion("Two.", seed=43)]
    model = answering("An answer.")
    model.chat([{"role": "user", "content": "Hi"}])
    abilities = (Ability("seed", True, "the same"), Ability("regex", False, "this kind of server has none"))
    return {
        "tokens": _tokens(),
        "surprise": _surprise(),
        "xray": _trace(),
        "kv": _kv(),
        "drafts": Drafts(
            (("So ", "drawn"), ("it is,", "accepted"), (" no,", "struck"), (" <b>\n", "drawn")), 4, 2
        ),
        "no drafts": Drafts((("So it is", "drawn"),)),
        "answer": completion("# T\n\nHi **b**\n\n- one\n  - two\n\n> q\n\n|a|b|\n|-|-|\n|1|2|"),
        "answer with logprobs": completion(" Lyon", n=1, logprobs=(likely,)),
        "thinking": completion("42", thinking="six times seven"),
        "continued": completion(" upon a time", mode="complete"),
        "structured": completion('{"a": 1}', mode="structured", parsed={"a": 1, "tags": ["x", "y"]}),
        "samples": samples,
        "history": _history(),
        "budget": Budget(4096, 100, 256, PARTS, 20, 9),
        "sampling": Sampling(),
        "table": Table(
            ("name", "share"), (("a", (Share("x", 0.25), Share("y", 0.0, gone=True))), ("b", 1234.5))
        ),
        "server": ServerCard("http://x", "vLLM", "0.12", "m", 512, abilities, True, ("a note",)),
        "model": model,
        "error": _overflow(),
        **example_results(),
    }


def _overflow() -> Exception:
    try:
        answering("x", window=64).complete("word " * 200)
    except Exception as error:
        return error
    raise AssertionError
