"""Amounts in words: bytes, counts, durations."""

from __future__ import annotations


def size(count: float | None) -> str:
    """Say a number of bytes to three digits, in powers of 1000: `92.1 MB`, `4.37 GB`; None is not known."""
    return "size unknown" if count is None else _scaled(count, ("B", "kB", "MB", "GB", "TB"))


def count(number: float) -> str:
    """Say a number of parameters to three digits: `135 M`, `7.24 B`."""
    return _scaled(number, ("", "k", "M", "B", "T"))


def _scaled(amount: float, units: tuple[str, ...]) -> str:
    """Return an amount in the first unit that leaves it below 1000, as it is rounded there."""
    if amount < 1000:
        return f"{amount:.0f} {units[0]}".rstrip()
    value = float(amount)
    for unit in units[1:]:
        value /= 1000
        if value < 999.5:
            return f"{value:.3g} {unit}"
    return f"{value:,.0f} {units[-1]}"


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
