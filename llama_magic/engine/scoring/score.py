"""The door: what is asked goes to the way of reading that this model's context allows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from llama_magic.engine.contexts import SCORED_AHEAD, padded
from llama_magic.engine.native import rows_alike
from llama_magic.engine.scoring.apart import Apart
from llama_magic.engine.scoring.reader import PURPOSE, Holding, ScoreReader, Tell, logprobs
from llama_magic.engine.scoring.together import Together

if TYPE_CHECKING:
    from llama_magic.engine.core import Core
    from llama_magic.engine.engine import Engine

Row = tuple[Sequence[int], Sequence[Sequence[int]]]  # a prompt, and the texts after it


def score(engine: Engine, rows: Sequence[Row], tell: Tell = logprobs) -> list[list[list[Any]]]:
    """Return what `tell` says of each token of each text, after the prompt of its row.

    That is its natural-log probability where nothing else is asked for. What prompts begin with alike is read
    once, also what they share with the one before.
    """
    longest = max(len(prompt) + max(map(len, texts)) for prompt, texts in rows)
    with engine.side_job("score texts"):
        reader = engine.call(lambda core: _reader(core, engine, longest, tell))
        try:
            return reader.run(rows)
        except BaseException:
            reader.stopped = True
            engine.abort(PURPOSE)
            raise


def _reader(core: Core, engine: Engine, longest: int, tell: Tell) -> ScoreReader:
    """Make the context, or take it as it was left."""
    core.weights.must_generate()
    context = core.side.get(PURPOSE)
    if context is not None and context.n_ctx < longest:
        core.side.pop(PURPOSE).close()
        context = None
    if not isinstance(context, Holding):
        context = core.side[PURPOSE] = _made(core, longest)
    return (Together if context.together else Apart)(engine, tell)


def _made(core: Core, longest: int) -> Holding:
    """Make a context in which rows are alike; where there is none, one for a row at a time."""
    contexts, n_vocab = core.options.contexts, core.weights.vocab.n_tokens
    # Two hundred tokens more than the longest, for what other rows have of their own.
    made = Holding(core.weights, contexts.scoring_together(padded(longest + SCORED_AHEAD), n_vocab))
    try:
        made.together = core.options.trials.alike(made, made.options, rows_alike)
    finally:
        if not made.together:
            made.close()
    return made if made.together else Holding(core.weights, contexts.scoring(padded(longest)))
