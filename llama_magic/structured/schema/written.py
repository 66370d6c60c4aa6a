"""What a model is let write of the formats that check more than a mask can say.

Each pattern is inside the language of its format: whatever is written is valid. What is *taken* as
an answer is not limited by these; the check after the answer decides that. They are the forms that
one would write by hand: networks without host bits, hosts without percent signs, days that exist.
"""

from __future__ import annotations

import functools
import ipaddress
from typing import Any

KEY = "\0write"  # in a lowered schema: what takes the place of keywords where an answer is written
SAID = "x-write"  # the same in a schema that this package itself made of a type

_OCTET = "(?:25[0-5]|2[0-4][0-9]|1[0-9][0-9]|[1-9]?[0-9])"
_V4 = rf"{_OCTET}(?:\.{_OCTET}){{3}}"
_H = "[0-9a-f]{1,4}"
_V6 = (
    f"(?:(?:{_H}:){{7}}{_H}|(?:{_H}:){{1,7}}:|"
    + "|".join(f"(?:{_H}:){{1,{7 - n}}}(?::{_H}){{1,{n}}}" for n in range(1, 6))
    + f"|{_H}:(?::{_H}){{1,6}}|:(?::{_H}){{1,7}}|::)"
)
_P4 = "(?:3[0-2]|[12]?[0-9])"
_P6 = "(?:12[0-8]|1[01][0-9]|[1-9]?[0-9])"

DAY = (
    r"[12][0-9]{3}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])"
    r"|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)|02-(?:0[1-9]|1[0-9]|2[0-8]))"
)
_CLOCK = "(?:[01][0-9]|2[0-3]):[0-5][0-9]:[0-5][0-9]"
_ZONE = "(?:Z|[+-](?:0[0-9]|1[0-3]):[0-5][0-9])"
_HOST = "(?:[a-z0-9]{1,30}(?:-[a-z0-9]{1,30})?[.]){0,4}[a-z][a-z0-9]{1,30}"
_PATH = "(?:/[A-Za-z0-9._~-]{1,60}){0,8}/?"
_QUERY = r"(?:\?[A-Za-z0-9_]{1,30}=[A-Za-z0-9._~-]{0,60}(?:&[A-Za-z0-9_]{1,30}=[A-Za-z0-9._~-]{0,60}){0,6})?"
_PLACE = rf"{_HOST}(?::[1-9][0-9]{{0,3}})?{_PATH}{_QUERY}"
NUMBER = r"-?(?:0|[1-9][0-9]{0,18})(?:\.[0-9]{1,17})?"
_WHOLE = "(?:0|[1-9][0-9]{0,8})"
_DATE_PART = f"(?:{_WHOLE}Y(?:{_WHOLE}M(?:{_WHOLE}D)?)?|{_WHOLE}M(?:{_WHOLE}D)?|{_WHOLE}D)"
_TIME_PART = f"T(?:{_WHOLE}H(?:{_WHOLE}M(?:{_WHOLE}S)?)?|{_WHOLE}M(?:{_WHOLE}S)?|{_WHOLE}S)"
_POINTER = "(?:/(?:[^~/]|~[01])*)*"
_ATOM = r"(?:[A-Za-z0-9 _:,@/-]|\\[dwsDWS.+*?()|^$]|\[\^?(?:a-z|A-Z|0-9|[_ .])+\]|\.)"


def url(schemes: list[str] | None) -> str:
    """Return a pattern for URLs with a host, of some schemes or of any."""
    names = "|".join(scheme.replace("+", "[+]").replace(".", "[.]") for scheme in schemes or ())
    if schemes == ["file"]:  # it has no host
        return "file://(?:/[A-Za-z0-9._~-]{1,60}){1,8}"
    return f"(?:{names or '[a-z][a-z0-9]{1,14}'})://{_PLACE}"


def _networks_4() -> str:
    """Networks of version 4: what lies behind the prefix is zero."""
    ways = []
    for place in range(4):
        before, after = rf"{_OCTET}\." * place, r"\.0" * (3 - place)
        for bits in range(0 if place == 0 else 1, 9):
            step = 2 ** (8 - bits)
            values = _OCTET if step == 1 else f"(?:{'|'.join(str(n) for n in range(0, 256, step))})"
            ways.append(f"{before}{values}{after}/{8 * place + bits}")
    return "(?:" + "|".join(ways) + ")"


def _networks_6() -> str:
    """Networks of version 6 as groups, two colons and a prefix that ends in the last of the groups."""
    ways = [f"::/{_P6}"]
    for groups in range(1, 8):
        before = f"{_H}:" * (groups - 1)
        for bits in range(4, 17, 4):
            last = f"[1-9a-f][0-9a-f]{{0,{bits // 4 - 1}}}" + "0" * (4 - bits // 4)
            ways.append(f"{before}{last}::/{16 * (groups - 1) + bits}")
    return "(?:" + "|".join(ways) + ")"


def _uuid(version: int) -> str:
    return f"[0-9a-f]{{8}}-[0-9a-f]{{4}}-{version}[0-9a-f]{{3}}-[89ab][0-9a-f]{{3}}-[0-9a-f]{{12}}"


def _base64(letters: str) -> str:
    """Base64 of ASCII text: it is UTF-8 in any case."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789" + letters

    def some(fits: Any) -> str:
        return "[" + "".join("\\" + c if c == "-" else c for i, c in enumerate(alphabet) if fits(i)) + "]"

    first, second = some(lambda i: i < 32), some(lambda i: i % 16 < 8)
    third, last = some(lambda i: i % 4 < 2), some(lambda _: True)
    end2 = first + some(lambda i: i % 16 == 0) + "=="
    end3 = first + second + some(lambda i: i % 4 == 0) + "="
    return f"(?:{first}{second}{third}{last}){{0,400}}(?:{end2}|{end3})?"


def _zones() -> str:
    import zoneinfo  # reads a folder of some 600 files

    names = sorted(name for name in zoneinfo.available_timezones() if not name.startswith(("posix", "right")))
    return "(?:" + "|".join(name.replace("+", "[+]") for name in names) + ")"


_MAKERS: dict[str, Any] = {
    "ipv4network": _networks_4,
    "ipv6network": _networks_6,
    "ipvanynetwork": lambda: f"(?:{_networks_4()}|{_networks_6()})",
    "zoneinfo": _zones,
}
_PATTERNS = {
    "ipv4interface": f"{_V4}(?:/{_P4})?",
    "ipv6interface": f"{_V6}(?:/{_P6})?",
    "ipvanyaddress": f"(?:{_V4}|{_V6})",
    "ipvanyinterface": f"(?:{_V4}(?:/{_P4})?|{_V6}(?:/{_P6})?)",
    **{f"uuid{version}": _uuid(version) for version in range(1, 9)},
    "base64": _base64("+/"),
    "base64url": _base64("-_"),
    "decimal": NUMBER,
    "fraction": "-?(?:0|[1-9][0-9]{0,8})(?:/[1-9][0-9]{0,8})?",
    "complex": rf"{NUMBER}[+-](?:0|[1-9][0-9]{{0,9}})(?:\.[0-9]{{1,9}})?j",
    "multi-host-uri": url(None),
    "iri": url(None),
    "date": DAY,
    "date-time": rf"{DAY}T{_CLOCK}(?:\.[0-9]{{1,6}})?{_ZONE}",
    "duration": f"P(?:{_WHOLE}W|{_DATE_PART}(?:{_TIME_PART})?|{_TIME_PART})",
    "uri-reference": f"(?:{url(['https', 'http'])}|{_PATH}{_QUERY})",
    "iri-reference": f"(?:{url(['https', 'http'])}|{_PATH}{_QUERY})",
    "uri-template": r"(?:[A-Za-z0-9/._~-]|\{[A-Za-z_][A-Za-z0-9_]{0,30}\}){1,200}",
    "json-pointer": _POINTER,
    "relative-json-pointer": f"(?:0|[1-9][0-9]{{0,2}})(?:#|{_POINTER})",
    "idn-hostname": _HOST,
    "idn-email": rf"[A-Za-z0-9][A-Za-z0-9_+-]{{0,40}}(?:\.[A-Za-z0-9_+-]{{1,20}}){{0,3}}@{_HOST}",
    "regex": rf"\^?(?:{_ATOM}[*+?]?){{1,100}}\$?",
}


@functools.lru_cache(maxsize=64)
def pattern_of(name: str) -> str | None:
    """Return the anchored pattern of a format, None where any text, or llguidance's own form, will do."""
    pattern = _PATTERNS.get(name) or (_MAKERS[name]() if name in _MAKERS else None)
    return f"^{pattern}$" if pattern and pattern != "(?:)" else None


_KEYS = {"uuid": _uuid(4), "ipv4": _V4, "ipv6": _V6, "time": f"{_CLOCK}{_ZONE}", "hostname": _HOST}
FOR_PATTERNS = {  # of pydantic's ByteSize
    r"^\s*(\d*\.?\d+)\s*(\w+)?": r"^[0-9]{1,9}(?:\.[0-9]{1,3})?(?:[kMGTP]i?B|B)?$",
}


def pattern_of_key(name: str) -> str | None:
    """Return the anchored pattern of a format for keys of objects."""
    return f"^{_KEYS[name]}$" if name in _KEYS else pattern_of(name)


def network(version: Any) -> Any:
    """Return a check that a text is a network or interface of a version (4, 6, or None for either)."""

    def check(text: str) -> bool:
        try:
            made = version(text)
        except ValueError:
            return False
        return made is not None

    return check


NETWORKS = {
    "ipv4network": network(ipaddress.IPv4Network),
    "ipv6network": network(ipaddress.IPv6Network),
    "ipv4interface": network(ipaddress.IPv4Interface),
    "ipv6interface": network(ipaddress.IPv6Interface),
    "ipvanyaddress": network(ipaddress.ip_address),
    "ipvanynetwork": network(ipaddress.ip_network),
    "ipvanyinterface": network(ipaddress.ip_interface),
}


def as_taken(node: Any) -> Any:
    """Return a lowered schema for what is taken as an answer: without any `KEY`."""
    if isinstance(node, list):
        return [as_taken(value) for value in node]
    return {k: as_taken(v) for k, v in node.items() if k != KEY} if isinstance(node, dict) else node


def as_written(node: Any) -> Any:
    """Return a lowered schema for writing: each `KEY` in place of the keywords that it names."""
    if isinstance(node, list):
        return [as_written(value) for value in node]
    if not isinstance(node, dict):
        return node
    narrow = node.get(KEY)
    whole = {key: value for key, value in node.items() if key != KEY}
    if isinstance(narrow, dict):
        whole |= narrow
        if "pattern" in narrow:
            whole.pop("format", None)
    return {key: as_written(value) for key, value in whole.items()}
