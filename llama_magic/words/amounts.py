"""Amounts in words: bytes, counts, durations."""

from __future__ import annotations


def size(count: float) -> str:
    """Say a number of bytes in decimal units: `92.1 MB`."""
    value = float(count)
    for unit in ("B", "kB", "MB"):
        if abs(value) < 1000:
            return f"{value:,.0f} {unit}" if unit == "B" else f"{value:,.1f} {unit}"
        value /= 1000
    return f"{value:,.2f} GB"


def count(number: int) -> str:
    """Say a number of parameters: `135 M`, `7.2 B`."""
    for limit, unit in ((1e9, "B"), (1e6, "M"), (1e3, "k")):
        if number >= limit:
            value = number / limit
            return f"{value:.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    return str(number)


def duration(seconds: float) -> str:
    """Say a duration: `0.4 s`, `12 s`, `3 min 20 s`, `1 h 5 min`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
