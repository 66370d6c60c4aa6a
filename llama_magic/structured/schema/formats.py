"""The string formats that are checked, and how.

Every format below is asserted after the answer, whatever the draft says; the mask enforces
those in `MASKED`, whose languages in llguidance are inside the ones here. A format that is not
in `CHECKS` ("textarea", "int32") is an annotation in every validator, and here too.
Sources: RFC 3339, 3986, 3987, 5321, 6570, 6901, 1123, ISO 8601 (appendix A of RFC 3339).
"""

from __future__ import annotations

import calendar
import ipaddress
import re
from collections.abc import Callable

from llama_magic.structured.schema.written import NETWORKS

MASKED = frozenset(
    ("date-time", "time", "date", "duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")
)

_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TIME = re.compile(
    r"([01]\d|2[0-3]):([0-5]\d):([0-5]\d|60)(\.\d+)?([zZ]|[+-]([01]\d|2[0-3]):[0-5]\d)", re.ASCII
)
_DURATION = re.compile(
    r"P(?:\d+W|(?=[\dT])(?:\d+Y(?:\d+M(?:\d+D)?)?|\d+M(?:\d+D)?|\d+D)?"
    r"(?:T(?=\d)(?:\d+H(?:\d+M(?:\d+S)?)?|\d+M(?:\d+S)?|\d+S))?)",
    re.ASCII,
)
_UUID = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LABEL = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?")
_IDN_LABEL = re.compile(r"[^\s.@/:?#\[\]]{1,63}")
_POINTER = re.compile(r"(?:/(?:[^~/]|~[01])*)*")
_RELATIVE = re.compile(r"(?:0|[1-9]\d*)(?:#|(?:/(?:[^~/]|~[01])*)*)", re.ASCII)
_TEMPLATE = re.compile(r"(?:[^\x00-\x20\"'<>\\^`{|}%]|%[0-9A-Fa-f]{2}|\{[+#./;?&=,!@|]?[^{}\s]+\})*")

_UNRESERVED = r"A-Za-z0-9\-._~"
_SUB = r"!$&'()*+,;="
_UCS = "\u00a0-\ud7ff\uf900-\ufdcf\ufdf0-\uffef\U00010000-\U0010fffd"


def _uri_pattern(extra: str, relative: bool) -> str:
    pct = "%[0-9A-Fa-f]{2}"
    pchar = f"(?:[{_UNRESERVED}{_SUB}:@{extra}]|{pct})"
    authority = (
        rf"(?:(?:[{_UNRESERVED}{_SUB}:{extra}]|{pct})*@)?"
        rf"(?:\[[0-9A-Fa-f:.]+\]|\[v[0-9A-Fa-f]+\.[{_UNRESERVED}{_SUB}:]+\]|(?:[{_UNRESERVED}{_SUB}{extra}]|{pct})*)"
        r"(?::[0-9]*)?"
    )
    path = rf"(?://{authority}(?:/{pchar}*)*|/(?:{pchar}+(?:/{pchar}*)*)?|{pchar}+(?:/{pchar}*)*|)"
    private = "\ue000-\uf8ff" if extra else ""
    tail = rf"(?:\?(?:{pchar}|[/?{private}])*)?(?:\#(?:{pchar}|[/?])*)?"
    scheme = r"[A-Za-z][A-Za-z0-9+\-.]*:"
    if not relative:
        return scheme + path + tail
    segment = f"(?:[{_UNRESERVED}{_SUB}@{extra}]|{pct})"  # a first segment without a colon
    noscheme = rf"(?://{authority}(?:/{pchar}*)*|/(?:{pchar}+(?:/{pchar}*)*)?|{segment}+(?:/{pchar}*)*|)"
    return f"(?:{scheme}{path}|{noscheme}){tail}"


# Texts: to compile these four was a tenth of the import of llama_magic, and `re` keeps what it compiles.
_URI = _uri_pattern("", False)
_URI_REFERENCE = _uri_pattern("", True)
_IRI = _uri_pattern(_UCS, False)
_IRI_REFERENCE = _uri_pattern(_UCS, True)


def _full(pattern: re.Pattern[str] | str) -> Callable[[str], bool]:
    return lambda text: re.fullmatch(pattern, text) is not None


def _date(text: str) -> bool:
    match = _DATE.fullmatch(text)
    if not match:
        return False
    year, month, day = (int(part) for part in match.groups())
    return 1 <= month <= 12 and 1 <= day <= (calendar.monthrange(year or 4, month)[1])


def _time(text: str) -> bool:
    return _TIME.fullmatch(text) is not None


def _date_time(text: str) -> bool:
    return len(text) > 10 and text[10] in "Tt" and _date(text[:10]) and _time(text[11:])


def _hostname(text: str) -> bool:
    labels = text.split(".")
    return len(text) <= 253 and all(_LABEL.fullmatch(label) for label in labels)


def _idn_hostname(text: str) -> bool:
    return 0 < len(text) <= 253 and all(_IDN_LABEL.fullmatch(label) for label in text.split("."))


def _email(text: str) -> bool:
    """Take what has something on both sides of an @; RFC 5321's corners differ by validator."""
    local, at, domain = text.rpartition("@")
    return bool(at and local and domain) and not re.search(r"\s", domain)


def _ip(version: type[ipaddress.IPv4Address | ipaddress.IPv6Address]) -> Callable[[str], bool]:
    def check(text: str) -> bool:
        try:
            version(text)
        except ValueError:
            return False
        return "%" not in text  # a zone is no part of the address

    return check


def _uuid_of(version: str) -> Callable[[str], bool]:
    return lambda text: _UUID.fullmatch(text) is not None and text[14] == version


def _regex(text: str) -> bool:
    try:
        re.compile(text)
    except (re.error, RecursionError, OverflowError):
        return False
    return True


CHECKS: dict[str, Callable[[str], bool]] = {
    "date-time": _date_time,
    "date": _date,
    "time": _time,
    "duration": _full(_DURATION),
    "email": _email,
    "idn-email": _email,
    "hostname": _hostname,
    "idn-hostname": _idn_hostname,
    "ipv4": _ip(ipaddress.IPv4Address),
    "ipv6": _ip(ipaddress.IPv6Address),
    "uri": _full(_URI),
    "uri-reference": _full(_URI_REFERENCE),
    "iri": _full(_IRI),
    "iri-reference": _full(_IRI_REFERENCE),
    "uri-template": _full(_TEMPLATE),
    "uuid": _full(_UUID),
    "json-pointer": _full(_POINTER),
    "relative-json-pointer": _full(_RELATIVE),
    "regex": _regex,
    **NETWORKS,
    **{f"uuid{version}": _uuid_of(str(version)) for version in range(1, 9)},
}
