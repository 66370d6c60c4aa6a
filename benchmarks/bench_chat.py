"""Two chats of about 1,000 tokens take turns: time to the first token, prefix reused against read again.

    python benchmarks/bench_chat.py [FILE.gguf]

Both kinds of turn are taken in one run, alternating; `reuse=False` reads the whole prompt each time.
"""

from __future__ import annotations

import statistics
import sys
from typing import Any

import llama_magic as lm

TURNS = 4


def main(source: str | None = None) -> int:
    """Print medians, their ratio, and the share of the common prefix that was reused."""
    with lm.load(source, ctx=4096) as model:
        chats = [_conversation(model, i) for i in (1, 2)]
        warm: list[float] = []
        cold: list[float] = []
        shares: list[float] = []
        seen: list[tuple[int, ...]] = [(), ()]
        for turn in range(TURNS):
            for i in (0, 1):
                done = model.chat(chats[i], max_tokens=16)
                common = _common(seen[i], done.prompt_token_ids)
                if turn:
                    warm.append(done.timings.first_token_s)
                    shares.append(done.usage.cached_tokens / common)
                    again = model.chat(chats[i], max_tokens=1, reuse=False)
                    cold.append(again.timings.first_token_s)
                seen[i] = done.prompt_token_ids + done.token_ids
                chats[i].append({"role": "assistant", "content": done.text})
                chats[i].append({"role": "user", "content": f"And what comes after that, in part {turn}?"})
        sizes = " and ".join(f"{len(tokens):,}" for tokens in seen)
        print(f"{model.name}: two chats of {sizes} tokens in turns, from turn 2 on")
        print(f"  first token, prefix reused   {statistics.median(warm):7.3f} s")
        print(f"  first token, read again      {statistics.median(cold):7.3f} s")
        print(f"  ratio                        {statistics.median(cold) / statistics.median(warm):7.1f}")
        print(f"  common prefix from the cache {100 * min(shares):7.1f} % at least")
    return 0


def _conversation(model: Any, number: int) -> list[dict[str, str]]:
    messages = [{"role": "user", "content": f"Chat {number}."}]
    while model.count_tokens(messages) < 950:
        messages[0]["content"] += f" The river of chapter {number} runs through the valley to the sea."
    return messages


def _common(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
