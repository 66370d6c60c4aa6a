"""What the views are shown: streams of a real Model whose answer is scripted, and finished results."""

from __future__ import annotations

import contextlib
import os
import re
import threading
import time
from typing import Any

from ipywidgets.widgets import widget

from llama_magic.model.model import Model
from llama_magic.model.results import Budget, BudgetPart, Completion, Timings, Usage
from llama_magic.model.stream import Stream
from llama_magic.request.fixed import Fixed
from llama_magic.request.sampling import Sampling
from llama_magic.testing import Script, scripted_model

STYLES = re.compile(r' (?:class|style|title|align|tabindex)="[^"]*"')


def bare(html: str) -> str:
    """Return HTML as GitHub keeps it of ours: without any attribute of looks."""
    return STYLES.sub("", html)


ASKED = [  # 100 tokens in ChatML, where a token is a word or a mark: 13 of the template, 19 and 68 words
    {"role": "system", "content": " ".join(["brief"] * 19)},
    {"role": "user", "content": " ".join(["word"] * 68)},
]
PARTS = (
    BudgetPart("template", "template", 12),
    BudgetPart("system", "system", 20),
    BudgetPart("prompt", "prompt", 68),
)


class Gate(threading.Event):
    """Holds an answer in a kernel until the test of the page lets it go, by a file (`Page.release`)."""

    def wait(self, timeout: float | None = None) -> bool:
        with contextlib.suppress(FileNotFoundError):
            os.remove("release")
            return True
        time.sleep(timeout or 0)
        return False


def answering(answer: str | Script, **how: Any) -> Model:
    """Return a model that gives `answer` to what it is asked first."""
    return scripted_model([answer], **{"name": "smollm2", "window": 4096, **how})


def stream(answer: str | Script, *, mode: str = "chat", schema: Any = str, **options: Any) -> Stream[Any]:
    """Return the stream of a scripted answer to 100 tokens of prompt, in a window of 4,096."""
    model, more = answering(answer), {"stream": True, "seed": 42, "max_tokens": 256, **options}
    if mode == "complete":
        return model.complete(" ".join(["word"] * 100), **more)  # type: ignore[no-any-return]
    if mode == "structured":
        return model.structured(ASKED, schema, **more)  # type: ignore[no-any-return]
    return model.chat(ASKED, **more)  # type: ignore[no-any-return]


def widgets() -> set[str]:
    """Return the ids of all widgets that are open in this kernel."""
    return set(widget._instances)


def completion(
    text: str = "A dragon opened a bakery.",
    *,
    mode: str = "chat",
    seed: int = 42,
    seeded: bool = True,
    finish_reason: Any = "stop",
    n: int | None = None,
    max_tokens: int = 256,
    cached: int = 0,
    speed: float = 78.0,
    **more: Any,
) -> Completion:
    """Return a completion of `text`, 100 prompt tokens in a window of 4,096."""
    written = len(text.split()) if n is None else n
    return Completion(
        text=text,
        prompt="<|im_start|>user\nHi<|im_end|>\n",
        prompt_token_ids=Fixed(range(100)),
        token_ids=Fixed(range(written)),
        finish_reason=finish_reason,
        usage=Usage(100, cached, written),
        timings=Timings(0.0, 0.05, 0.1, 1.0, speed),
        seed=seed,
        seeded=seeded,
        sampling=Sampling(),
        model="smollm2",
        budget=Budget(4096, 100, max_tokens, PARTS, cached, written),
        raw_text=text,
        mode=mode,
        **more,
    )
