"""The door: `serve()` begins to serve models, and gives the `Server` that can be looked at and stopped."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import socket
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Self

from llama_magic.errors import InputTypeError, ModelClosedError, OptionError
from llama_magic.loading import hooks
from llama_magic.model.model import Model
from llama_magic.serving import place
from llama_magic.serving.guard import Rules
from llama_magic.serving.state import Limits, State
from llama_magic.threads import Latch, set_going
from llama_magic.words.inprocess import InProcess
from llama_magic.words.shown import Shown
from llama_magic.words.signature import checked

if TYPE_CHECKING:
    from llama_magic.serving.log import Log

_running: list[Server] = []
_STOP_S = 10.0


@checked
def serve(
    *models: Model | str,
    host: str = "127.0.0.1",
    port: int = 8080,
    key_env: str | None = None,
    hosts: Iterable[str] = (),
    cors: Iterable[str] = (),
    limits: Limits | None = None,
) -> Server:
    """Serve models of this process to other programs, beside everything else that asks them; return at once.

    `models` are loaded models, or sources to load; without one the current model, or in a script the only
    one that is loaded. `port` 0 takes a free one. `key_env` names the environment variable that holds the
    key; an address that other machines reach needs one. `hosts` are further names by which this machine may
    be called, `cors` origins of pages that may ask ("*": all). `limits` bound what one client may cost.

    Raises `OptionError` where the port is taken, the key is missing, or Starlette and uvicorn are.
    """
    check_place(host, port, key_env)
    rules = place.rules(host, key_env, hosts, cors)
    if not isinstance(limits, Limits | None):
        raise InputTypeError(
            f"limits is a {type(limits).__name__}; expected Limits(…) of llama_magic.serving.state."
        )
    made = _models(models)
    return Server(made, place.listen(rules.host, port), rules, limits or Limits(), _application())


def check_place(host: str = "127.0.0.1", port: int = 8080, key_env: str | None = None) -> None:
    """Raise `OptionError` where nothing could be served: asked before models are loaded, which takes time."""
    rules = place.rules(host, key_env)
    _application()
    place.listen(rules.host, port).close()


def servers() -> list[Server]:
    """Return the servers of this process that run."""
    return list(_running)


class Server(InProcess, Shown):
    """A running server. `log` has a row for each of the latest requests; `stop()` ends it."""

    _what = "A running server"
    _instead = "Share the object itself between threads; in another process begin one with llama_magic.serve."

    def __init__(
        self, models: dict[str, Model], listener: socket.socket, rules: Rules, limits: Limits, app: Any
    ) -> None:
        address = listener.getsockname()
        self.host, self.port = rules.host, int(address[1])
        self.models = tuple(models)
        self.has_key = rules.key is not None
        self.ended = Latch()
        self._state = State(models, limits)
        self._process = os.getpid()
        self._started = Latch()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._uvicorn: Any = None
        self._failure: BaseException | None = None
        self._unwanted = False  # nobody has it: an interrupt came while it began
        arguments = (listener, rules, app)
        thread = threading.Thread(target=self._run, args=arguments, name="llama_magic server", daemon=True)
        try:
            set_going(thread)
            self._started.wait_long()
        except KeyboardInterrupt:
            self._unwanted = True
            if self._started.is_set():
                self._ask_to_stop()
            raise
        if self._failure is not None:
            raise self._failure
        _running.append(self)

    @property
    def url(self) -> str:
        """The address of the server; `/v1` below it is what OpenAI's clients take as `base_url`."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def log(self) -> Log:
        return self._state.log

    @property
    def running(self) -> bool:
        return not self.ended.is_set()

    def _run(self, listener: socket.socket, rules: Rules, app: Any) -> None:
        try:
            asyncio.run(self._main(listener, rules, app))
        except BaseException as error:
            self._failure = error
        finally:
            self._state.close()
            listener.close()
            with contextlib.suppress(ValueError):
                _running.remove(self)
            self._started.set()
            self.ended.set()
            self.log.changed()

    async def _main(self, listener: socket.socket, rules: Rules, app: Any) -> None:
        self._loop = asyncio.get_running_loop()
        self._uvicorn = app(self._state, rules, self._begun)
        await self._uvicorn.serve(sockets=[listener])

    def _begun(self) -> None:
        self._started.set()
        if self._unwanted:
            self._stop()

    def stop(self) -> None:
        """End the server: what it writes is cancelled, its port is free. Idempotent."""
        if not self.ended.is_set() and self._process == os.getpid():
            self._ask_to_stop()
            self.ended.wait(_STOP_S)

    def _ask_to_stop(self) -> None:
        assert self._loop is not None
        with contextlib.suppress(RuntimeError):  # it ends by itself at this moment
            self._loop.call_soon_threadsafe(self._stop)

    def _stop(self) -> None:
        self._state.stop()
        self._uvicorn.should_exit = True

    close = stop

    def wait(self) -> None:
        """Return when the server has ended; Ctrl-C stops it."""
        try:
            self.ended.wait_long()
        except KeyboardInterrupt:
            self.stop()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.stop()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.log)

    def __repr__(self) -> str:
        state = "" if self.running else ", stopped"
        return f"<Server {self.url}: {', '.join(self.models)}{state}>"


def _models(given: tuple[Model | str, ...]) -> dict[str, Model]:
    from llama_magic.loading.load import load  # for weight: llama.cpp

    if not given:
        found = hooks.model_at_hand()
        given = (found if found is not None else load(),)
    models: dict[str, Model] = {}
    for one in given:
        model = load(one) if isinstance(one, str) else one
        if not isinstance(model, Model):
            raise InputTypeError(f"A {type(model).__name__} cannot be served; expected a model, or a source.")
        if models.get(model.name, model) is not model:
            raise OptionError(
                f"Two models are called {model.name!r}.", remedy="Load one of them under another name: name=…"
            )
        if model.closed:
            raise ModelClosedError(f"The model {model.name!r} was unloaded; load it again to serve it.")
        models[model.name] = model
    return models


def _application() -> Any:
    """Return what makes the HTTP server of a state, its rules and what is called once it listens."""
    try:
        from llama_magic.serving.http import make  # for weight: Starlette, uvicorn
    except ImportError as error:
        raise OptionError(
            f"To serve, {error.name} is needed, which is not installed.",
            remedy='pip install "llama-magic[serve]"',
        ) from None
    return make


@atexit.register
def _stop_all() -> None:
    for server in servers():
        server.stop()
