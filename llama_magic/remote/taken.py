"""Which fields a server takes of a question, learnt from what it refuses.

OpenAI's newest models call a limit otherwise and draw by their own temperature, Mistral calls a seed
otherwise and tells counts unasked; each refuses a question for one such field.
"""

from __future__ import annotations

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

    def learn(self, words: str, sent: Collection[str], optional: Collection[str]) -> set[str]:
        """Return which of the fields that were sent a refusal names as not taken, and follow it.

        Only those that can be left out (the `optional` too) or called otherwise: of "unknown model" nothing
        is learnt.
        """
        if not _NOT_TAKEN.search(words):
            return set()
        named = set(re.findall(r"\w+", words)) & set(sent)
        learnt = named & set(optional)
        if self.limit in named and self.limit == _LIMITS[0] and _LIMITS[1] in words:
            self.limit = _LIMITS[1]
            learnt.add(_LIMITS[0])
        if self.seed and self.seed in named:
            learnt.add(self.seed)
            self.seed = _SEEDS[_SEEDS.index(self.seed) + 1]
        if self.usage and "stream_options" in named:
            learnt.add("stream_options")
            self.usage = False
        return learnt
