"""Texts of a magic line: variables as in every option, and `{{ }}` as in a body."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from llama_magic.magics._variables import LineVariables
from llama_magic.model.interpolate import Filling, expression, value_of
from llama_magic.model.wording import BODY
from llama_magic.request.filled import Filled


def interpolate_line(text: str, namespace: Mapping[str, Any], *, raw: bool, flag: str = "--system") -> Filled:
    """Fill a text for the model: `{expression}` and `$name` as in every option and, unless `raw`, `{{ }}`."""
    words = replace(BODY, what=flag)
    filling, variables = Filling(), LineVariables(namespace)
    at = 0
    while found := variables.find(text, at, "" if raw else "{{"):
        if not found.source:
            source, end = expression(text, found.start, words)
            filling.text(text[at : found.start if source else end])
            if source:
                filling.value(source, value_of(text, found.start, source, namespace, words))
            at = end
            continue
        filling.text(text[at : found.start])
        filling.value(found.source, variables.text_of(found))
        at = found.end
    filling.text(text[at:])
    return filling.filled()
