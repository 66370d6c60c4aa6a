"""Colours: seen on both themes, and by who is red-green blind."""

from __future__ import annotations

import itertools
import math
import re
from pathlib import Path

import pytest

from llama_magic import display


def _luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    high, low = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_colours_are_of_marks_and_seen_on_both_themes() -> None:
    """WCAG 2.1: a mark has 3 : 1 on white, black and the grounds between; no text has a colour of ours."""
    css = (Path(display.__file__).parent / "static" / "base.css").read_text()
    colours = dict(re.findall(r"--lm-([\w-]+): (#\w{6});", css))
    assert len(colours) == 7
    for name, colour in colours.items():
        for ground in ("#ffffff", "#111111", "#1e1e1e", "#0d1117"):
            assert _contrast(colour, ground) >= 3, (name, ground)
    assert set(re.findall(r"[{; ]color: ([^;]+);", css)) == {"inherit"}


# Machado, Oliveira and Fernandes 2009, severity 1: what is seen of linear RGB.
_BLIND = {
    "deuteranopia": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    "protanopia": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
}


def _seen(colour: str, by: str) -> tuple[float, float, float]:
    """Return a colour in CIELAB as somebody sees it who has one kind of cones less."""
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    seen = [max(0.0, sum(map(math.prod, zip(row, linear, strict=True)))) for row in _BLIND[by]]
    to_xyz = ((0.434, 0.376, 0.190), (0.213, 0.715, 0.072), (0.018, 0.109, 0.873))  # 1, 1, 1 for white
    x, y, z = (math.cbrt(sum(map(math.prod, zip(row, seen, strict=True)))) for row in to_xyz)
    return 116 * y, 500 * (x - y), 200 * (y - z)


@pytest.mark.parametrize("by", _BLIND)
def test_who_is_red_green_blind_tells_the_parts_of_a_gauge_apart(by: str) -> None:
    """In CIELAB any two are 15 apart; template and user, system and answer were 2."""
    css = (Path(display.__file__).parent / "static" / "base.css").read_text()
    marks = [colour for name, colour in re.findall(r"--lm-(\w+): (#\w{6});", css) if name != "bad"]
    assert len(marks) == 6
    for one, other in itertools.combinations(marks, 2):
        assert math.dist(_seen(one, by), _seen(other, by)) >= 15, (one, other)
