"""Take secrets out of texts before they are shown, logged or raised."""

from __future__ import annotations

import os
import re

# Query parameters whose values are worth showing and are never credentials.
_PLAIN_PARAMETERS = frozenset({"download", "raw", "rev", "revision", "ref", "filename", "file", "id"})
_URL_QUERY = re.compile(r"(?P<head>\bhttps?://[^\s?#'\"<>]*)\?(?P<query>[^\s'\"<>]*)", re.IGNORECASE)
_USERINFO = re.compile(r"(?P<scheme>\b[A-Za-z][A-Za-z0-9+.-]*://)[^\s/?#@]*@")
_AUTH = re.compile(
    r"(?P<name>(?:proxy-)?authorization['\"]?\s*[:=]\s*['\"]?)(?:(?:bearer|basic|token)\s+)?[^\s'\",;)]+",
    re.IGNORECASE,
)
_BEARER = re.compile(r"\b(?P<name>bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}", re.IGNORECASE)
_HUB_TOKEN = re.compile(r"\b(?:hf|api_org)_[A-Za-z0-9_-]{4,}")
_TOKEN_VARIABLES = ("HF_TOKEN", "HUGGING_FACE_HUB_TOKEN")


def redact(text: str) -> str:
    """Return `text` without tokens, passwords, authorization headers and secret query values.

    Hub tokens (`hf_…`), the value of `HF_TOKEN` whatever it looks like, `user:password@` in
    addresses, and query values other than a few harmless ones become `…`.
    """
    for name in _TOKEN_VARIABLES:
        secret = os.environ.get(name, "").strip()
        if len(secret) >= 4:
            text = text.replace(secret, "…")
    text = _HUB_TOKEN.sub("…", text)
    text = _AUTH.sub(r"\g<name>…", text)
    text = _BEARER.sub(r"\g<name> …", text)
    text = _USERINFO.sub(r"\g<scheme>…@", text)
    return _URL_QUERY.sub(lambda m: f"{m['head']}?{_redact_query(m['query'])}", text)


def _redact_query(query: str) -> str:
    query, hash_mark, _ = query.partition("#")
    pairs = []
    for pair in query.split("&"):
        name, equals, _ = pair.partition("=")
        secret = not equals or name.lower() not in _PLAIN_PARAMETERS
        pairs.append(f"{name}=…" if secret and equals else "…" if secret else pair)
    return "&".join(pairs) + ("#…" if hash_mark else "")
