"""How likely texts are after a prompt: each token of them, in a context of its own; nothing is drawn.

A text after a prompt has the same probability, bit for bit, whatever else was scored before or is with it.
That asks for a reading that depends on prompt and text alone, for bits depend on the sizes of chunks, on
what lies in a batch together, and on where cells lie. So a prompt is read in chunks of `GRAIN` tokens or
several times that, under 64, which gave equal bits whatever the multiple; then what is left. A prompt goes
on from where the one before parts from it, cut at the grain. Each text is read behind the prompt alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from llama_magic.engine.contexts import GRAIN, SCORED_CHUNK, SCORING_CHUNK
from llama_magic.engine.kv.store import common_prefix
from llama_magic.engine.lanes.logits import log_sum_exp
from llama_magic.engine.native import Context, DecodeStatus
from llama_magic.errors import BackendError, ModelClosedError

if TYPE_CHECKING:
    from llama_magic.engine.core import Core
    from llama_magic.engine.engine import Engine

PURPOSE = "scoring"
_ROUND = 256  # llama.cpp pads n_ctx to multiples of this
_PROMPT, _TEXT = 0, 1  # sequences
Text = tuple[int, ...]


def score(engine: Engine, prompt: Sequence[int], texts: Sequence[Sequence[int]]) -> list[list[float]]:
    """Return the natural-log probability of each token of each text after the prompt.

    The prompt is read once for all of them, and what it shares with the one before is not read again.
    """
    with engine.side_job("score texts"):
        found = _Scoring(engine, list(prompt), [tuple(text) for text in texts]).run()
    return [found[tuple(text)] for text in texts]


class _Holding(Context):
    """The context for scoring, which knows the tokens that its first sequence holds."""

    tokens: list[int]


class _Scoring:
    """Some texts after one prompt. What is done in one `engine.call` is a step between those of answers."""

    def __init__(self, engine: Engine, prompt: list[int], texts: list[Text]) -> None:
        self._engine = engine
        self._prompt = prompt
        self._logprobs: dict[Text, list[float]] = {text: [] for text in texts}
        self._stopped = False

    def run(self) -> dict[Text, list[float]]:
        """Return the log-probabilities of the tokens of each text."""
        try:
            self._read()
            for text, logprobs in self._logprobs.items():
                if len(text) > 1:
                    self._engine.call(partial(self._text, text, logprobs))
        except BaseException:
            self._stopped = True
            self._engine.abort(PURPOSE)
            raise
        return self._logprobs

    def _read(self) -> None:
        """Read the prompt, all but what is held of it; the last chunk says how the texts begin."""
        start = self._engine.call(self._begin)
        whole = len(self._prompt) // GRAIN * GRAIN
        for end in (*range(start + SCORING_CHUNK, whole, SCORING_CHUNK), whole, len(self._prompt)):
            if end > start:
                self._engine.call(partial(self._chunk, start, end))
                start = end

    # --- on the compute thread ------------------------------------------------------------

    def _begin(self, core: Core) -> int:
        """Make the context, or take it as it was left; return how many tokens of the prompt it holds."""
        core.weights.must_generate()
        longest = len(self._prompt) + max(map(len, self._logprobs))
        context = core.side.get(PURPOSE)
        if context is not None and context.n_ctx < longest:
            core.side.pop(PURPOSE).close()
            context = None
        if not isinstance(context, _Holding):
            cells = -(-longest // _ROUND) * _ROUND
            context = core.side[PURPOSE] = _Holding(core.weights, core.options.contexts.scoring(cells))
            context.tokens = []
        context.remove(_TEXT, -1)
        # The last token is read in any case: its logits are wanted.
        shared = min(common_prefix(context.tokens, self._prompt), len(self._prompt) - 1) // GRAIN * GRAIN
        if shared < len(context.tokens):
            if not context.remove(_PROMPT, shared):  # a recurrent state cannot be cut back
                context.clear()
                shared = 0
            del context.tokens[shared:]
        return shared

    def _chunk(self, start: int, end: int, core: Core) -> None:
        """Read a chunk of the prompt; after the last one, note how likely the texts' first tokens are."""
        last = end == len(self._prompt)
        outputs = [end - start - 1] if last else []
        context = self._decode(core, _PROMPT, self._prompt[start:end], start, outputs)
        context.tokens += self._prompt[start:end]
        if last:
            for text, logprobs in self._logprobs.items():
                logprobs += _logprobs(context, end - start - 1, text[:1])

    def _text(self, text: Text, logprobs: list[float], core: Core) -> None:
        """Read a text behind the prompt, all but its last token, and note how likely each next one is."""
        context = core.side[PURPOSE]
        context.copy(_PROMPT, _TEXT, -1, -1)
        for start in range(0, len(text) - 1, SCORED_CHUNK):
            part = text[start : min(start + SCORED_CHUNK, len(text) - 1)]
            context = self._decode(core, _TEXT, part, len(self._prompt) + start, range(len(part)))
            following = text[start + 1 : start + 1 + len(part)]
            for index, token in enumerate(following):
                logprobs += _logprobs(context, index, (token,))
        context.remove(_TEXT, -1)

    def _decode(
        self, core: Core, sequence: int, tokens: Sequence[int], start: int, outputs: Sequence[int]
    ) -> _Holding:
        context = core.side[PURPOSE]
        assert isinstance(context, _Holding)
        context.clear_abort()  # that of an earlier call; one that comes from now on is seen
        if self._stopped or core.stopping:
            raise ModelClosedError("The scoring was stopped.")
        n = len(tokens)
        status = context.decode(tokens, range(start, start + n), [sequence] * n, outputs)
        if status is not DecodeStatus.DONE:
            context.clear()  # what was written of the batch is not known
            context.tokens = []
            how = status.name.lower().replace("_", " ")
            raise BackendError(f"llama.cpp could not read the text ({how}).")
        return context


def _logprobs(context: Context, index: int, tokens: Sequence[int]) -> list[float]:
    """Return how likely tokens are by the logits at a place of the batch that was decoded last."""
    logits = context.logits(index)
    total = log_sum_exp(logits)
    if not np.isfinite(total):
        raise BackendError(
            f"The model gave no usable logits (the logarithm of their sum is {total}).",
            remedy="The weights hold NaN or infinite values; download the file again.",
        )
    return [float(logits[token]) - total for token in tokens]
