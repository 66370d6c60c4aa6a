"""Which fields a server takes of a question, learnt from what it refuses.

OpenAI's newest models call a limit otherwise and draw by their own temperature, Mistral calls a seed
otherwise and tells counts unasked; each refuses a question for one such field.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

_NOT_TAKEN = re.compile(
    r"unsupported|not supported|not support|not permitted|not allowed|unrecognized|unknown|unexpected|extra_",
    re.IGNORECASE,
)
_LIMITS = ("max_tokens", "max_completion_tokens")
_SEEDS = ("seed", "random_seed", "")  # "": it takes none


@dataclass
class Taken:
    """What a server calls what every question holds; `usage`: it can be asked for counts."""

    limit: str = _LIMITS[0]
    seed: str = _SEEDS[0]
    usage: bool = True

    def fields(self, max_tokens: int, seed: int) -> dict[str, Any]:
        """Return the fields of a question that is streamed."""
        found: dict[str, Any] = {self.limit: max_tokens, "stream": True}
        if self.usage:
            found["stream_options"] = {"include_usage": True}
        if self.seed:
            found[self.seed] = seed
        return found

    def learn(self, words: str, sent: Collection[str]) -> set[str]:
        """Return which of the fields that were sent a refusal names as not taken, and follow it."""
        if not _NOT_TAKEN.search(words):
            return set()
        named = set(re.findall(r"\w+", words)) & set(sent)
        if _LIMITS[0] in named:
            if _LIMITS[1] in words:
                self.limit = _LIMITS[1]
            else:
                named.remove(_LIMITS[0])
        for old, new in itertools.pairwise(_SEEDS):
            if old in named and self.seed == old:
                self.seed = new
        self.usage = self.usage and "stream_options" not in named
        return named
