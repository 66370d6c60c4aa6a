"""Defaults that the environment sets: `LLAMA_MAGIC_CTX=8192` and its kin.

They stand below what is said on a line, in a call or with `%config`, and above what the model file says.
They are read when a model is loaded or connected to; `LLAMA_MAGIC_CACHE` whenever the folder is asked for.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import urlsplit

from llama_magic.errors import OptionError
from llama_magic.request.stages import PARAMETERS
from llama_magic.sources.redaction import redact
from llama_magic.words.names import nearest

if TYPE_CHECKING:
    from llama_magic.request.sampling import Sampling

PREFIX = "LLAMA_MAGIC_"
_MOST = 2**31 - 1
MOST_THREADS = 512  # GGML_MAX_N_THREADS

# What each variable takes, in words; `_reader` checks it.
EXPECTED = {
    "model": "what %llama load takes: an alias, a path, a URL or owner/repo:QUANT",
    "server_url": "the address of a server, without user and password: http://host:port",
    "ctx": f"a whole number, 0 to {_MOST:,}",
    "threads": f"a whole number, 1 to {MOST_THREADS}",
    "batch": f"a whole number, 1 to {_MOST:,}",
    "max_tokens": f"a whole number, 1 to {_MOST:,}",
    "temperature": f"a number, 0 to {PARAMETERS['temperature'].high:g}",
    "top_p": "a number, 0 to 1",
    "top_k": f"a whole number, -1 to {PARAMETERS['top_k'].high:,}",
    "cache": "a folder",
}
_SAMPLING = ("temperature", "top_p", "top_k")


@dataclass(frozen=True)
class Defaults:
    """What the environment sets, checked; None where it says nothing."""

    model: str | None = None
    server_url: str | None = None
    ctx: int | None = None
    threads: int | None = None
    batch: int | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None

    @property
    def source(self) -> str | None:
        """What to load where nothing is named and no model is current: a model, else the server."""
        return self.model or (f"server:{self.server_url}" if self.server_url else None)

    @property
    def load_options(self) -> dict[str, Any]:
        """The options of a load that are set."""
        return self._set("ctx", "threads", "batch")

    def over(self, sampling: Sampling) -> Sampling:
        """Return the sampling of a model file with what is set in place of what the file says."""
        changes = self._set(*_SAMPLING)
        return sampling.replace(**changes) if changes else sampling

    def _set(self, *names: str) -> dict[str, Any]:
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def read() -> Defaults:
    """Return what the environment sets now. Raises `OptionError` that names the variable at fault."""
    if not _given().keys() - {"cache"}:
        return Defaults()  # the usual case, without the weight of what reads them
    values, wrong = _examined()
    for sentence in wrong.values():
        raise OptionError(sentence, remedy="Set it to such a value, or unset it.")
    return Defaults(**values)


def listed() -> Iterator[tuple[str, str, str]]:
    """Yield each variable of ours that is set: its name, its value, and what is wrong with it."""
    given = _given()
    wrong = _examined()[1] if given.keys() - {"cache"} else {}
    for name, variable in given.items():
        yield variable, redact(os.environ[variable]), wrong.get(name, "")
    for variable in sorted(os.environ):
        name = variable[len(PREFIX) :].lower()
        if variable.upper().startswith(PREFIX) and name not in EXPECTED:
            near = nearest(name, EXPECTED)
            if near:  # any other may be a key that somebody calls so, and is not shown
                meant = f"{PREFIX}{near[0].upper()}"
                yield variable, "set", f"It means nothing to llama_magic. Did you mean {meant}?"


def _given() -> dict[str, str]:
    """Return the variables of ours that hold something, by what they set."""
    ours = (v for v in sorted(os.environ) if v.upper().startswith(PREFIX) and os.environ[v])
    named = {variable[len(PREFIX) :].lower(): variable for variable in ours}
    return {name: variable for name, variable in named.items() if name in EXPECTED}


def _examined() -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values that the environment sets, and what is wrong with which of them."""
    from pydantic import ValidationError  # weight: 0.2 s, with what reads them

    try:
        return _reader()().model_dump(), {}
    except ValidationError as error:
        names = dict.fromkeys(str(problem["loc"][0]).lower() for problem in error.errors())
    given = _given()
    return {}, {
        name: f"The environment variable {given[name]} is {redact(os.environ[given[name]])!r}; "
        f"expected {EXPECTED[name]}."
        for name in names
    }


@functools.cache
def _reader() -> type[Any]:
    """Return the class that reads and checks the variables; made when one is set."""
    from pydantic import AfterValidator, Field  # weight: as above
    from pydantic_settings import BaseSettings, SettingsConfigDict

    def parameter(name: str) -> Any:
        row = PARAMETERS[name]
        return Field(None, ge=row.low, le=row.high)

    class Variables(BaseSettings):
        model_config = SettingsConfigDict(env_prefix=PREFIX, env_ignore_empty=True, extra="ignore")

        model: Annotated[str, Field(pattern=r"\S")] | None = None
        server_url: Annotated[str, AfterValidator(_address)] | None = None
        ctx: int | None = Field(None, ge=0, le=_MOST)
        threads: int | None = Field(None, ge=1, le=MOST_THREADS)
        batch: int | None = Field(None, ge=1, le=_MOST)
        max_tokens: int | None = Field(None, ge=1, le=_MOST)
        temperature: float | None = parameter("temperature")
        top_p: float | None = parameter("top_p")
        top_k: int | None = parameter("top_k")

    return Variables


def _address(text: str) -> str:
    """Return an address without a user or password; anything else is a `ValueError`."""
    parts = urlsplit(text if "://" in text else f"http://{text}")
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
        raise ValueError(text)
    return text
