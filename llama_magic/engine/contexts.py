"""Which contexts an engine makes, and with which parameters: the one place that says so.

The engine makes them from here, and `loading` predicts their memory from here.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from llama_magic.engine.kv.cells import HELPER_SEQUENCES
from llama_magic.engine.native import ContextOptions

SHARED_SEQUENCES = 16  # samples decoded together
EXACT_SEQUENCES = 16  # samples of seeded jobs decoded together
# Seeded prompts are cut at multiples of this many tokens. A cut is where a later request can take
# over: smaller means less to read again, and a little more time for a cold read (64 costs
# about 10 % over 512 on two cores). llama.cpp's attention rounds differently below 64 tokens.
CUT = 64
TRIAL_CELLS = 256
# Where prompts are read beside many answers: so much of each (the shared lane reads the rest), and at once.
PROMPT_CELLS, PROMPT_BATCH = 512, 256 + 64
# Texts are read, for logits or a vector, in chunks of so many tokens; an interrupt loses one. More tokens
# were read no faster: 8.5 s of CPU for 1,301 with 128, 256, 512.
READING_CHUNK = 128
READING_LOGITS = 64 * 2**20  # bytes of a chunk's logits; at least a cut of tokens is read at once

# Scoring reads in chunks of a multiple of this, under 64 tokens: see `scoring`.
GRAIN = 8
SCORING_CHUNK = 56
SCORED_CHUNK = 16  # tokens of a scored text read at once, each for its logits
# Where rows are alike: rows that are read together have so many tokens beside the longest, and a batch has
# the logits of so many, within so many bytes (two copies). A token costs no less in batches of more than 32.
SCORED_AHEAD = 192
SCORED_LOGITS = 32 * 2**20


@dataclass(frozen=True)
class Contexts:
    """The contexts of one engine; each is made at its first use. `base` is what `load` was asked for."""

    base: ContextOptions

    @property
    def shared(self) -> ContextOptions:
        """Where all jobs without a seed are decoded together."""
        sequences = SHARED_SEQUENCES + HELPER_SEQUENCES
        return replace(self.base, sequences=sequences, outputs=sequences)

    @property
    def exact(self) -> ContextOptions:
        """Where seeded jobs are decoded, together or one at a time."""
        sequences = EXACT_SEQUENCES + HELPER_SEQUENCES
        return replace(self.base, sequences=sequences, outputs=sequences, batch=CUT, ubatch=CUT)

    @property
    def prompt_reader(self) -> ContextOptions:
        """Where prompts are read, one at a time, while many answers are written in the shared one."""
        sequences, cells, batch = 1 + HELPER_SEQUENCES, min(self.base.cells, PROMPT_CELLS), PROMPT_BATCH
        return replace(
            self.base, cells=cells, sequences=sequences, outputs=sequences, batch=batch, ubatch=batch
        )

    @property
    def trial(self) -> ContextOptions:
        """Where it is tried whether rows are alike: as the exact one, with no more cells than that takes."""
        return replace(self.exact, cells=min(self.base.cells, TRIAL_CELLS))

    def embedding(self, n_vocab: int, *, at_once: bool, pooled: bool) -> ContextOptions:
        """Where texts become vectors: each `at_once`, in one batch, or in chunks.

        `pooled` is by the file's own rule; otherwise a chunk has the mean of its tokens. llama.cpp holds the
        logits of a chunk as well, though nobody reads them.
        """
        size = min(self.base.cells, self.base.cells if at_once else _chunk(n_vocab) + CUT - 1)
        pooling = None if pooled else "mean"
        return self._one_sequence(self.base.cells, size, size, embeddings=True, pooling=pooling)

    def reading(self, length: int, n_vocab: int) -> ContextOptions:
        """Where `length` tokens are read for the logits of each: only as long as the text.

        The logits of a chunk, a row of `n_vocab` a token, are held at once.
        """
        size = _chunk(n_vocab) + CUT - 1
        return self._one_sequence(padded(max(length, size)), size, min(size, length))

    def scoring(self, cells: int) -> ContextOptions:
        """Where texts are scored after a prompt: as many cells as both take."""
        size = SCORING_CHUNK
        return replace(self.base, cells=cells, sequences=2, batch=size, ubatch=size, outputs=SCORED_CHUNK)

    def scoring_together(self, cells: int, n_vocab: int) -> ContextOptions:
        """Where rows of texts are scored together, each text a sequence, in a batch of a cut's size."""
        sequences = max(17, min(CUT, SCORED_LOGITS // (4 * n_vocab)))
        return replace(self.base, cells=cells, sequences=sequences, batch=CUT, ubatch=CUT, outputs=sequences)

    def _one_sequence(
        self, cells: int, batch: int, outputs: int, *, embeddings: bool = False, pooling: str | None = None
    ) -> ContextOptions:
        return replace(
            self.base,
            cells=cells,
            sequences=1,
            batch=batch,
            ubatch=batch,
            outputs=outputs,
            embeddings=embeddings,
            pooling=pooling,
        )


def padded(cells: int) -> int:
    """Return the cells that llama.cpp makes where so many are asked for: a multiple of 256."""
    return -(-cells // 256) * 256


def _chunk(n_vocab: int) -> int:
    """Return how many tokens of a text are read at once; a rest shorter than a cut joins those before."""
    return max(CUT, min(READING_CHUNK, READING_LOGITS // (4 * n_vocab)) // CUT * CUT)
