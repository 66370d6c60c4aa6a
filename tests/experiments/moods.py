"""What tests of many rows ask a scripted model, and what it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from pydantic import BaseModel

from llama_magic.testing import Script


class Mood(BaseModel):
    mood: str


def said(request: Any) -> str:
    return str(request.messages[-1]["content"])


def asked(model: Any) -> list[str]:
    return [said(request) for request in model.backend.requests]


def until(text: str) -> Callable[[Any], Script]:
    """Answer by what was said; press Ctrl-C in the middle of one answer, once."""
    pressed: list[bool] = []

    def answer(request: Any) -> Script:
        if said(request) == text and not pressed:
            pressed.append(True)
            return Script(json.dumps({"mood": said(request)}), at=3, interrupt=True)
        return Script(json.dumps({"mood": said(request)}))

    return answer


TEXTS = [f"{i:02}" for i in range(40)]
