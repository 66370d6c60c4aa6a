"""The style sheet, written into the elements: an untrusted notebook drops `<style>` and keeps `style="…"`.

Only rules of one class are taken (`.lm .lm-head { … }`), with the variables of `.lm` put in: JupyterLab's
sanitizer knows no `var()`.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from pathlib import Path

_RULE = re.compile(r"^\.lm(?: \.(lm-[\w-]+))? \{([^{}]*)\}", re.MULTILINE)
_CELLS = re.compile(r'<(t[dhr]) class="([^"]*)"')
_CLASSES = re.compile(r'class="([^"]*)"( style="([^"]*)")?')


def sheet() -> str:
    """Return the style sheet of live views, as it is."""
    return Path(__file__).with_name("base.css").read_text("utf-8")


@functools.cache
def declarations() -> Mapping[str, str]:
    """Return what each class stands for in an element's own style; "lm" is the whole view."""
    rules = {name or "lm": body for name, body in _RULE.findall(sheet())}
    variables = dict(re.findall(r"(--lm-[\w-]+):\s*([^;]+);", rules["lm"]))
    return {name: _written(body, variables) for name, body in rules.items()}


def _written(body: str, variables: Mapping[str, str]) -> str:
    body = re.sub(r"--lm-[\w-]+:[^;]*;", "", body)
    body = re.sub(r"var\((--lm-[\w-]+)\)", lambda found: variables[found[1]], body)
    return re.sub(r"\s*([:;,])\s*", r"\1", " ".join(body.split())).strip()


def inlined(html: str) -> str:
    """Give each element of ours its style; what a model wrote is escaped, and has no attributes.

    Rows and cells have nothing else: nine in ten bytes of a large table are what stands around its words.
    """
    return _CLASSES.sub(_with_style, _CELLS.sub(_cell, html))


def _cell(found: re.Match[str]) -> str:
    style = _style(found[2]).removesuffix(";")
    return f'<{found[1]} style="{style}"' if style else f"<{found[1]}"


def _with_style(found: re.Match[str]) -> str:
    style = _style(found[1]) + (found[3] or "")
    return f'class="{found[1]}" style="{style}"' if style else f'class="{found[1]}"'


@functools.cache
def _style(classes: str) -> str:
    """Return what classes stand for together; of a property that several set, only the last."""
    known = declarations()
    every = "".join(known.get(name, "") for name in classes.split()).split(";")
    last = dict(one.split(":", 1) for one in every if one)
    return "".join(f"{name}:{value};" for name, value in last.items())
