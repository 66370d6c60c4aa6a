"""The variables of one line, which fill `{{ }}` too in options that take a text."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from llama_magic.magics._variables import LineVariables

_RAW = re.compile(r"(?:^|\s)--raw(?:\s|$)")


def line_variables(line: str, namespace: Mapping[str, Any]) -> LineVariables:
    """Return what fills the words of a line; with `--raw` on it `{{ }}` is left as it is."""

    def fill(flag: str, text: str) -> str:
        from llama_magic.magics._interpolate import interpolate_line  # weight: Jinja

        return str(interpolate_line(text, namespace, raw=False, flag=flag))

    return LineVariables(namespace, None if _RAW.search(line) else fill)
