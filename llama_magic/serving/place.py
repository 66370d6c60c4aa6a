"""Where a server listens and who may ask it, made of what a user says: address, key, names, pages."""

from __future__ import annotations

import os
import re
import socket
from collections.abc import Callable, Iterable
from typing import Any

from llama_magic.doors import option
from llama_magic.errors import InputTypeError, OptionError
from llama_magic.serving.guard import Rules, digest, is_loopback, name_of

_SEND_BUFFER = 256 * 1024
_LONGEST_KEY = 8192  # characters: the head of a request has 16 kB
_ORIGIN = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s]+|null|\*")


def rules(host: str, key_env: str | None, hosts: Iterable[str] = (), cors: Iterable[str] = ()) -> Rules:
    """Return who may ask a server. Raises `OptionError` for what cannot be meant."""
    name = _address(host)
    return Rules(
        name,
        _key(name, key_env),
        _all("hosts", hosts, name_of, "a name of this machine, as models.example.org"),
        _all("cors", cors, _origin, "the origin of a page, as https://example.org, or '*'"),
    )


def listen(host: str, port: int) -> socket.socket:
    """Return what listens there. Raises `OptionError`."""
    if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65535:
        raise OptionError(f"port is {port!r}; expected a number from 0 (any that is free) to 65535.")
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    both = host == "::" and socket.has_dualstack_ipv6()  # all addresses: the older ones, too
    try:
        listener = socket.create_server((host, port), family=family, backlog=1024, dualstack_ipv6=both)
    except (OSError, UnicodeError) as error:
        raise OptionError(
            f"{host} port {port} cannot be listened at: {getattr(error, 'strerror', '') or error}.",
            remedy=f"Take another port ({option('port', 'N')}; 0: any that is free), or stop what "
            "listens there.",
        ) from None
    # Of each connection: what a client that reads nothing may hold of this machine's memory.
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
    # Python makes it without a protocol number, by which asyncio knows a connection that must not wait:
    # each body would lie 40 ms behind its head, until the client acknowledged that.
    return socket.socket(listener.family, listener.type, socket.IPPROTO_TCP, fileno=listener.detach())


def _address(host: str) -> str:
    if not isinstance(host, str):
        raise InputTypeError(f"host is {host!r}; expected an address as text, '127.0.0.1'.")
    name = host.strip().strip("[]")
    if (
        not re.fullmatch(r"[^\s/\0:]{1,253}|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*(%\S+)?", name)
        or name.count(":") == 1
    ):
        raise OptionError(
            f"host is {host[:100]!r}; expected an address of this machine, without a scheme or a port.",
            remedy="127.0.0.1 and ::1 are for this machine alone, 0.0.0.0 and :: for all.",
        )
    return name if "%" in name else name.lower()  # behind the % stands an interface, by its name


def _key(host: str, key_env: str | None) -> bytes | None:
    if key_env is None:
        if not is_loopback(host):
            raise OptionError(
                f"{host} can be reached from other machines, and there is no key.",
                remedy=f"Put a key into an environment variable, and name that: {option('key_env', 'NAME')}.",
            )
        return None
    if not isinstance(key_env, str) or not key_env.strip():
        raise InputTypeError(f"key_env is {key_env!r}; expected the name of an environment variable.")
    key = os.environ.get(key_env, "").strip()
    if not key:
        raise OptionError(
            f"The environment variable {key_env} holds no key.", remedy=f"Set it: export {key_env}=…"
        )
    if len(key) > _LONGEST_KEY or re.search("[\x00-\x08\x0a-\x1f\x7f]", key):
        raise OptionError(
            f"The key in {key_env} cannot be sent in a header: it has line breaks or other controls, or more "
            f"than {_LONGEST_KEY:,} characters.",
            remedy="Take a text of one line, as `openssl rand -hex 32` writes it.",
        )
    return digest(key.encode("utf-8", "surrogateescape"))


def _origin(text: str) -> str | None:
    text = text.strip().lower().rstrip("/")
    return text if _ORIGIN.fullmatch(text) else None


def _all(what: str, given: Any, clean: Callable[[str], str | None], expected: str) -> frozenset[str]:
    """Return texts as they are compared; one alone may be given."""
    texts = [given] if isinstance(given, str) else given
    if not isinstance(texts, Iterable):
        raise InputTypeError(f"{what} is {given!r}; expected a list, each {expected}.")
    found = set()
    for text in texts:
        if not isinstance(text, str):
            raise InputTypeError(f"{what} holds {text!r}; expected {expected}.")
        if (cleaned := clean(text)) is None:
            raise OptionError(f"{what} holds {text[:100]!r}; expected {expected}.")
        found.add(cleaned)
    return frozenset(found)
