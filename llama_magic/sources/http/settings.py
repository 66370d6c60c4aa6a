"""What the environment says of proxies and certificates, as an error of ours where it cannot be used."""

from __future__ import annotations

import contextlib
import functools
import os
import ssl
from collections.abc import Iterator

from llama_magic.errors import OptionError
from llama_magic.sources.redaction import redact

try:  # huggingface-hub 2 brings httpx2, huggingface-hub 1 brings httpx; their client is the same
    import httpx2 as httpx
except ImportError:
    import httpx  # type: ignore[no-redef]  # one or the other

__all__ = ["certificates", "httpx", "proxies", "read_settings"]
_CERTIFICATES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
_PROXIES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY")


@contextlib.contextmanager
def read_settings() -> Iterator[None]:
    """Make a client inside: what it finds in the environment and cannot use is an `OptionError`."""
    try:
        yield
    except Exception as error:  # of many kinds: no such file, no package for SOCKS, no port
        names = [*proxies(), *(name for name in _CERTIFICATES if os.environ.get(name))]
        why = redact(str(error)).rstrip(".")
        raise OptionError(
            f"What the environment says of proxies or certificates cannot be used: {why}.",
            remedy=f"Correct or remove the variables: {', '.join(names)}." if names else None,
        ) from None


def proxies() -> list[str]:
    """Return the variables that are set and speak of proxies."""
    return [name for upper in _PROXIES for name in (upper, upper.lower()) if os.environ.get(name)]


def certificates() -> ssl.SSLContext:
    """Return what servers' certificates are checked by."""
    return _read(*map(os.environ.get, _CERTIFICATES))


@functools.cache
def _read(*_places: str | None) -> ssl.SSLContext:
    """Read the certificates once for each place they may lie in: it takes 30 ms, most of a client's cost."""
    return httpx.create_ssl_context()
