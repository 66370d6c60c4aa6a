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
_ELEMENT = re.compile(r'<(\w+) class="([^"]*)"(?: style="([^"]*)")?')
# What stands many times in a view: nine in ten bytes of a large table are what stands around its words.
_BARE = re.compile(r"t[dhr] |span lm-(?:part|used|dot|key)\b")


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

    Cells, and the parts of bars, have nothing else.
    """
    return _ELEMENT.sub(_with_style, html)


def _with_style(found: re.Match[str]) -> str:
    tag, classes, own = found.groups()
    style = (_style(classes) + (own or "")).removesuffix(";")
    written = "" if _BARE.match(f"{tag} {classes}") else f' class="{classes}"'
    return f"<{tag}{written}" + (f' style="{style}"' if style else "")


@functools.cache
def _style(classes: str) -> str:
    """Return what classes stand for together; of a property that several set, only the last."""
    known = declarations()
    every = "".join(known.get(name, "") for name in classes.split()).split(";")
    last = dict(one.split(":", 1) for one in every if one)
    return "".join(f"{name}:{value};" for name, value in last.items())
