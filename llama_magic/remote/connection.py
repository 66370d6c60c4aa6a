"""`connect`: from an address to a `Model` over a server, with a card of what holds there."""

from __future__ import annotations

import time
from typing import Any
from urllib.parse import urlsplit

from llama_magic import environment
from llama_magic.doors import here, option
from llama_magic.errors import OptionError, ServerError, shown_briefly
from llama_magic.model.file import LoadedFile
from llama_magic.model.model import Model
from llama_magic.remote.address import Address
from llama_magic.remote.backend import Abilities, RemoteBackend
from llama_magic.remote.dialect import default_sampling
from llama_magic.remote.find import Found, find
from llama_magic.remote.openai import OpenAIServer
from llama_magic.remote.probe import ServerCard, probe, unprobed
from llama_magic.remote.wire import Wire
from llama_magic.request.tokenizer import Tokenizer
from llama_magic.words.given import at_least
from llama_magic.words.signature import checked

_UNKNOWN = 4096  # a window where neither the server nor the user tells one
_LONG = 400_000  # characters, more than most windows hold


@checked
@shown_briefly("The connection")
def connect(
    url: str | None = None,
    *,
    name: str | None = None,
    model: str | None = None,
    key_env: str | None = None,
    ctx: int | None = None,
    probing: bool = True,
    stall: float = 300.0,
) -> Model:
    """Return a `Model` whose tokens come from a server; everything that asks a model can ask it.

    `url` is the address of llama-server, vLLM, Ollama, llama_cpp.server or of any OpenAI-compatible
    server; None is what `LLAMA_MAGIC_SERVER_URL` in the environment says. `model` is one of its models
    (needed where it has several), `name` what to call it here. `key_env` names the environment variable
    of its key: the key itself is sent, and kept nowhere. `ctx` is the window in tokens, for servers that
    do not tell theirs (Ollama is told it). With `probing`, each ability is tried with a few tokens, and
    what does not hold is refused later by name; `model.card` says what held. `stall` is how many seconds
    a stream may be silent; one in which the server says only that it is there has four times as long.

    Raises `ServerError` and `OptionError`.
    """
    address = Address.read(url if url is not None else _usual(), key_env)
    ctx = None if ctx is None else at_least(1, "ctx", ctx, " of tokens")
    began = time.perf_counter()
    wire = Wire(address, stall)
    try:
        dialect = find(wire, model, ctx or 0)
        made = _model(wire, dialect, name, ctx, began)
        made.card = _card(made, dialect, address, probed=probing)
        made.stats.reset()  # what was tried is none of what it will be asked
    except BaseException:
        wire.close()
        raise
    return made


def _usual() -> str:
    url = environment.read().server_url
    if url is None:
        raise OptionError(
            "No address of a server was given.",
            remedy="Name one, http://host:port, or set the environment variable LLAMA_MAGIC_SERVER_URL.",
        )
    return url


def _model(wire: Wire, dialect: Found, name: str | None, ctx: int | None, began: float) -> Model:
    facts, notes = dialect.facts, list(dialect.facts.notes)
    window = ctx or facts.window or _asked_for(wire, dialect)
    if facts.window and window > facts.window:
        raise OptionError(
            f"ctx is {window:,}, but the server's window holds {facts.window:,} tokens.",
            remedy="Leave it out, or start the server with a larger window.",
        )
    if not window:
        window = _UNKNOWN
        says = f"{window:,} tokens are assumed ({option('ctx', 'N')} says it)"
        notes.append(here(f"the server does not tell its window; {says}"))
    facts.window = window
    abilities = Abilities(
        constraints=dialect.constraints,
        logprobs=dialect.logprobs,
        tools=dialect.tools,
        pressure=False,
        scores=dialect.scores,
        masks=False,
        least=dialect.keeps_least,
        renders=dialect.takes_tokens,
        dialect=dialect,
    )
    backend = RemoteBackend(wire, dialect, abilities, facts.slots)
    tokenizer: Tokenizer = dialect.tokenizer
    file = LoadedFile(
        window,
        dialect.formatter,
        default_sampling(dialect),
        {"server": wire.address.base, "kind": dialect.name, "model": facts.model, "ctx": window},
        load_s=time.perf_counter() - began,
        notes=tuple(notes),
        guarded=tokenizer.control_texts,
        made_with={"engine": _engine(wire, dialect)},
        n_ctx_train=facts.n_ctx_train,
        release=wire.close,
    )
    return Model(name or _short(facts.model), file, backend)


def _engine(wire: Wire, dialect: Found) -> dict[str, Any]:
    facts = dialect.facts
    return {
        "server": dialect.name,
        "build": facts.build,
        "address": wire.address.base,
        "model": facts.model,
    }


def _asked_for(wire: Wire, dialect: Found) -> int:
    """Return the window that the server names when it refuses a long prompt, 0 where it does not."""
    if not isinstance(dialect, OpenAIServer):
        return 0
    body = {"model": dialect.facts.model, "prompt": "a " * (_LONG // 2), "max_tokens": 1}
    try:
        wire.ask("/v1/completions", body)
    except ServerError as error:
        return dialect.window_from(error)
    return 0


def _card(model: Model, dialect: Found, address: Address, *, probed: bool) -> ServerCard:
    facts = dialect.facts
    abilities = probe(model) if probed else unprobed(model.backend.capabilities)
    return ServerCard(
        address.base, dialect.name, facts.build, facts.model, model.window, abilities, probed, model.notes
    )


def _short(model: str) -> str:
    """Return a name for a model that is called by a path there."""
    last = urlsplit(model).path.rstrip("/").rpartition("/")[2] or model
    return last.removesuffix(".gguf")


def open_server(source: str, *, progress: Any = None, **options: Any) -> Model:
    """Open `server:URL`, as `load` does it; `options` are those of `connect`."""
    return connect(source.partition(":")[2], **options)
