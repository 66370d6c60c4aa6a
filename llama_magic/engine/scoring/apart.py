"""Scoring where bits depend on what lies in a batch together: each row, and each text, by itself.

That asks for a reading that depends on prompt and text alone, for bits depend on the sizes of chunks, on
what lies in a batch together, and on where cells lie. So a prompt is read in chunks of `GRAIN` tokens or
several times that, under 64, which gave equal bits whatever the multiple; then what is left. A prompt goes
on from where the one before parts from it, cut at the grain. Each text is read behind the prompt alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from llama_magic.engine.contexts import GRAIN, SCORED_CHUNK, SCORING_CHUNK
from llama_magic.engine.kv.store import common_prefix
from llama_magic.engine.scoring.reader import PROMPT, Holding, ScoreReader, holding

if TYPE_CHECKING:
    from llama_magic.engine.core import Core

_TEXT = 1  # the sequence of a text
Text = tuple[int, ...]


class Apart(ScoreReader):
    """Read one row after the other."""

    def run(self, rows: Sequence[tuple[Sequence[int], Sequence[Sequence[int]]]]) -> list[list[list[Any]]]:
        """Return what is told of the tokens of each text of each row."""
        found = []
        for prompt, texts in rows:
            odds: dict[Text, list[Any]] = {tuple(text): [] for text in texts}
            self._row(list(prompt), odds)
            found.append([odds[tuple(text)] for text in texts])
        return found

    def _row(self, prompt: list[int], odds: dict[Text, list[Any]]) -> None:
        """Read the prompt, all but what is held of it, then the texts."""
        start = self.engine.call(partial(_begin, prompt))
        even = len(prompt) // GRAIN * GRAIN
        for end in (*range(start + SCORING_CHUNK, even, SCORING_CHUNK), even, len(prompt)):
            if end > start:
                self.engine.call(partial(self._chunk, prompt, odds, start, end))
                start = end
        for text, found in odds.items():
            if len(text) > 1:
                self.engine.call(partial(self._text, len(prompt), text, found))

    # --- on the compute thread ------------------------------------------------------------

    def _chunk(
        self, prompt: list[int], odds: dict[Text, list[Any]], start: int, end: int, core: Core
    ) -> None:
        """Read a chunk of the prompt; after the last one, note how likely the texts' first tokens are."""
        last = end == len(prompt)
        outputs = [end - start - 1] if last else []
        context = self._decode(core, PROMPT, prompt[start:end], start, outputs)
        context.tokens += prompt[start:end]
        if last:
            for text, found in odds.items():
                found += self.tell(context, end - start - 1, text[:1])

    def _text(self, behind: int, text: Text, found: list[Any], core: Core) -> None:
        """Read a text behind the prompt, all but its last token, and note how likely each next one is."""
        context = holding(core)
        context.copy(PROMPT, _TEXT, -1, -1)
        for start in range(0, len(text) - 1, SCORED_CHUNK):
            part = text[start : min(start + SCORED_CHUNK, len(text) - 1)]
            context = self._decode(core, _TEXT, part, behind + start, range(len(part)))
            following = text[start + 1 : start + 1 + len(part)]
            for index, token in enumerate(following):
                found += self.tell(context, index, (token,))
        context.remove(_TEXT, -1)

    def _decode(
        self, core: Core, sequence: int, tokens: Sequence[int], start: int, outputs: Sequence[int]
    ) -> Holding:
        n = len(tokens)
        return self.decode(core, tokens, range(start, start + n), [(sequence,)] * n, outputs)


def _begin(prompt: list[int], core: Core) -> int:
    """Let go of what the prompt does not begin with; return how many of its tokens are held."""
    context = holding(core)
    # The last token is read in any case: its logits are wanted.
    return context.keep(min(common_prefix(context.tokens, prompt), len(prompt) - 1) // GRAIN * GRAIN)
