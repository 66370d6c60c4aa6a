"""What goes wrong between here and a server, each kind by its name."""

from __future__ import annotations

import json
import time
from typing import Any

import httpx

from llama_magic.doors import option
from llama_magic.errors import (
    ServerAnswerError,
    ServerBusyError,
    ServerError,
    ServerFailedError,
    ServerKeyError,
    ServerLoadingError,
    ServerModelError,
    ServerRefusedError,
    ServerUnreachableError,
    StreamCutError,
    StreamStalledError,
)
from llama_magic.remote.address import Address
from llama_magic.sources.http.settings import proxies
from llama_magic.sources.redaction import redact
from llama_magic.words.amounts import duration

_LONGEST = 500  # characters of a server's words that are shown
_DAY_S = 24 * 3600.0
_KINDS: dict[int, tuple[type[ServerError], str]] = {
    401: (ServerKeyError, f"Name the variable that holds the key: {option('key_env', 'VAR')}."),
    403: (ServerKeyError, f"The key does not open this; use another ({option('key_env', 'VAR')})."),
    404: (ServerModelError, f"{option('model', 'ID')} chooses one that the server has when connecting."),
    429: (ServerBusyError, "Ask again later, or fewer at a time."),
    503: (ServerLoadingError, "Wait until the server has loaded its model, and ask again."),
}


def said(body: bytes | str) -> str:
    """Return what a server says of an error: the message of its JSON, else the beginning of its text."""
    text = body.decode("utf-8", "replace") if isinstance(body, bytes) else body
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return " ".join(text.split())[:_LONGEST]
    return message_of(found)


def message_of(found: Any) -> str:
    """Return the message in an error's JSON, wherever this kind of server puts it."""
    for name in ("error", "message", "detail"):
        if isinstance(found, dict) and found.get(name):
            return message_of(found[name])
    return (found if isinstance(found, str) else json.dumps(found, ensure_ascii=False))[:_LONGEST]


def of_status(address: Address, status: int, body: bytes | str) -> ServerError:
    """Return the error that a status stands for."""
    words = redact(address.hide(said(body)))
    kind, remedy = _KINDS.get(status, (None, None))
    if kind is None:
        kind = ServerFailedError if status >= 500 else ServerRefusedError
        remedy = "Look at the server's own log." if status >= 500 else None
    if 300 <= status < 400:
        words, remedy = "it sends us elsewhere", "Give the address where the server itself is."
    where = f"{address.base} answered {status}"
    return kind(f"{where}: {words}" if words else f"{where}.", status=status, remedy=remedy)


def add_wait(error: ServerError) -> None:
    """Say on the error for how long the server asks not to be asked, and until when that is."""
    wait = min(error.retry_after or 0.0, 3650 * _DAY_S)  # "inf" is a number, too
    until = time.strftime("%H:%M" if wait < _DAY_S else "%Y-%m-%d %H:%M", time.localtime(time.time() + wait))
    error.add(f"It asks to wait {duration(wait)}, until {until}, which is not done here.")


def only_alive(address: Address, seconds: float) -> StreamStalledError:
    """Return the error for a server that says that it is there, and nothing of the answer."""
    return StreamStalledError(
        f"{address.base} has sent signs of life for {duration(seconds)}, and nothing of the answer.",
        remedy="Ask again; where it does need so long, wait longer: "
        f"{option('stall', 'S')}, a quarter of that time.",
    )


def too_slow(address: Address, path: str, seconds: float) -> StreamStalledError:
    """Return the error for a short question whose answer comes byte by byte."""
    return StreamStalledError(
        f"{address.base}{path} was not answered within {duration(seconds)}, though bytes came.",
        remedy="Is this the address of the server itself? Look at whether it is still at work.",
    )


def of_words(address: Address, found: Any) -> ServerError:
    """Return the error that a server reports in the middle of an answer."""
    words = redact(address.hide(message_of(found)))
    return ServerFailedError(f"{address.base} broke off the answer: {words}")


def of_transport(address: Address, error: httpx.HTTPError | httpx.InvalidURL, begun: bool) -> ServerError:
    """Return the error for a connection that could not be made or did not hold.

    `begun`: something of the answer has come already.
    """
    reason = redact(address.hide(str(error))) or type(error).__name__
    if isinstance(error, httpx.ReadTimeout):
        return StreamStalledError(
            f"{address.base} has sent nothing for too long, and did not end the answer.",
            remedy="Ask again; look at whether the server is still at work.",
        )
    if isinstance(error, httpx.DecodingError):
        return ServerAnswerError(
            f"What {address.base} sends is not packed as its head says ({reason}).",
            remedy="Look at what stands between here and the server: a proxy may have unpacked it.",
        )
    if isinstance(error, (httpx.ConnectError, httpx.ConnectTimeout, httpx.InvalidURL, httpx.ProxyError)):
        return _no_connection(address, reason)
    if begun:
        return StreamCutError(f"{address.base} closed the connection in the middle of the answer ({reason}).")
    return ServerUnreachableError(
        f"The connection to {address.base} failed before anything came ({reason}).",
        remedy="Ask again, and look at the server's own log.",
    )


def _no_connection(address: Address, reason: str) -> ServerError:
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        return ServerUnreachableError(
            f"The certificate of {address.base} is not trusted here ({reason}).",
            remedy="Name a file with the certificate of who signed it in the environment: SSL_CERT_FILE.",
        )
    if "ssl" in reason.lower():
        return ServerUnreachableError(
            f"{address.base} does not answer as https ({reason}).",
            remedy="Where the server has no certificate, its address begins with http://.",
        )
    remedy = "Start the server, or correct the address."
    if not address.local and (names := proxies()):
        remedy += f" It is asked by way of a proxy: look at {', '.join(names)}."
    return ServerUnreachableError(f"Nothing answers at {address.base} ({reason}).", remedy=remedy)


def no_answer(address: Address, path: str, why: str) -> ServerAnswerError:
    """Return the error for a body that is not what is sent there."""
    return ServerAnswerError(
        f"What {address.base}{path} sends is not what a model server sends: {why}.",
        remedy="Is this the address of the server itself?",
    )
