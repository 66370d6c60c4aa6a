"""Where a server is, and the key that opens it: the address without secrets, the key read when it is sent."""

from __future__ import annotations

import ipaddress
import os
import re
from dataclasses import dataclass
from urllib.parse import urlsplit

from llama_magic.doors import option
from llama_magic.errors import InputTypeError, OptionError, ServerKeyError

# What is asked at an address is no part of it, though it is what manuals show.
_ENDPOINT = re.compile(r"/v1/(chat/completions|completions|models|embeddings|responses)$")


@dataclass(frozen=True)
class Address:
    """A server: `base` is its address without a closing slash or `/v1`.

    `key_env` names the variable of its key. The key itself is kept nowhere: it is read from the
    environment each time it is sent.
    """

    base: str
    key_env: str = ""
    bare: bool = False  # what others have under `/v1` stands here without it

    @classmethod
    def read(cls, url: object, key_env: str | None = None) -> Address:
        """Check what a user typed: `localhost:8080`, `http://host:port/v1/`. Raises `OptionError`."""
        if not isinstance(url, str):
            raise InputTypeError(f"The address is a {type(url).__name__}; expected a str, http://host:port.")
        text = url.strip()
        try:
            parts = urlsplit(text if "://" in text else f"http://{text}")
            host, _ = parts.hostname, parts.port
            # What a name server is asked for has no empty or long label.
            (host or "").encode("idna").decode("idna")
        except ValueError:
            parts, host = urlsplit(""), None
        if parts.scheme not in ("http", "https") or not host:
            place = re.split(r"[/?#]", text.partition("://")[2] or text)[0].rpartition("@")[2]  # no secret
            raise OptionError(
                f"{place:.80} is no address of a server." if place else "The address names no server.",
                remedy="Expected http://host:port or https://host.",
            )
        if "/openai/deployments/" in parts.path:
            deployment = parts.path.partition("/openai/deployments/")[2].partition("/")[0]
            raise OptionError(
                "That is an older address of Azure's, with the deployment and a version of the API in it.",
                remedy=f"Give its newer one: {parts.scheme}://{host}/openai/v1, and "
                f"{option('model', deployment)}.",
            )
        if parts.username or parts.password or parts.query or parts.fragment:
            raise OptionError(
                "The address holds more than a place: a user, a password or a query, which would be shown.",
                remedy=f"Put the key into an environment variable and name it: {option('key_env', 'VAR')}.",
            )
        path = _ENDPOINT.sub("", parts.path.rstrip("/"))
        path = path.removesuffix("/v1" if path.endswith("/v1") else "/api").rstrip("/")
        address = cls(f"{parts.scheme}://{parts.netloc}{path}", key_env or "")
        address.headers()  # a key that is missing is said at once
        return address

    def url(self, path: str) -> str:
        """Return where a path of OpenAI's API, or of a server's own, is."""
        return self.base + (path.removeprefix("/v1") if self.bare else path)

    @property
    def local(self) -> bool:
        """Whether it is this machine: no proxy stands between."""
        host = urlsplit(self.base).hostname or ""
        try:
            return ipaddress.ip_address(host).is_loopback
        except ValueError:
            return host == "localhost"

    @property
    def secure(self) -> bool:
        """Whether the connection is encrypted, and the server shows a certificate."""
        return self.base.startswith("https:")

    def headers(self) -> dict[str, str]:
        """Return the header that carries the key. Raises `ServerKeyError` where the variable is not set."""
        if not self.key_env:
            return {}
        key = os.environ.get(self.key_env, "").strip()
        if not key:
            raise ServerKeyError(
                f"The environment variable {self.key_env} is not set, so there is no key to send.",
                remedy=f"Set it before Jupyter is started, or with %env {self.key_env}=… in a cell that "
                "is not saved.",
            )
        if not key.isascii() or not key.isprintable():
            raise ServerKeyError(f"The value of {self.key_env} cannot be a key: it is not plain ASCII.")
        return {"Authorization": f"Bearer {key}"}

    def hide(self, text: str) -> str:
        """Return a server's words without the key: some servers repeat it."""
        key = os.environ.get(self.key_env, "").strip() if self.key_env else ""
        return text.replace(key, "…") if key else text
