"""What the endpoints share: models by name, limits, the log, counts, the threads that prepare requests."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from llama_magic.errors import OptionError
from llama_magic.model.mail import Mail
from llama_magic.serving.log import Log
from llama_magic.serving.metrics import Metrics, UnderWay
from llama_magic.serving.refusals import Refusal, busy
from llama_magic.words.names import nearest

if TYPE_CHECKING:
    from llama_magic.model.model import Model

T = TypeVar("T")


@dataclass(frozen=True)
class Limits:
    """What one client may cost. `max_tokens` is for requests that name none (None: as for a cell).

    Of a request: its head within `head_s` seconds, `body` bytes that come within `body_s`; `queue_s` seconds
    until the engine begins with it; `stall_s` seconds in which a client reads nothing of a stream; `waiting`
    requests may wait at once. `connections` may be open at once, and no more than half of the files that
    this process may open: the rest is its own.
    """

    max_tokens: int | None = None
    head_s: float = 15.0
    body: int = 8 * 2**20
    body_s: float = 30.0
    queue_s: float = 600.0
    stall_s: float = 60.0
    waiting: int = 512
    connections: int = 2048

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is None and name == "max_tokens":
                continue
            if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
                raise OptionError(f"The limit {name} is {value!r}; expected a number above 0.")


@dataclass(eq=False)
class State:
    """One server's. Lives on its loop, but for the log, at which any thread may look."""

    models: Mapping[str, Model]
    limits: Limits
    log: Log = field(default_factory=Log)
    metrics: Metrics = field(default_factory=Metrics)
    answers: set[UnderWay] = field(default_factory=set)  # under way
    stopping: bool = False

    @cached_property
    def turn(self) -> asyncio.Lock:
        """Who reads prompts for their log-probabilities: one at a time, in the order in which they ask."""
        return asyncio.Lock()

    @cached_property
    def mail(self) -> Mail:
        return Mail(asyncio.get_running_loop())

    @cached_property
    def _threads(self) -> ThreadPoolExecutor:
        # Templates, tokens and masks are made beside the loop, which meanwhile serves the others.
        return ThreadPoolExecutor(4, thread_name_prefix="llama_magic serve")

    def model(self, name: str | None) -> Model:
        """Return a model by its name, without one the first loaded one; `Refusal` 404 for another."""
        if not name:
            loaded = (model for model in self.models.values() if not model.closed)
            return next(loaded, next(iter(self.models.values())))
        if name not in self.models:
            near = nearest(name, self.models)
            hint = f" Did you mean {near[0]!r}?" if near else ""
            names = ", ".join(map(repr, self.models))
            words = f"There is no model {name[:200]!r} here.{hint} Models: {names}."
            raise Refusal(404, f"{words} Without model the first of them answers.", param="model")
        return self.models[name]

    async def to_thread(self, work: Callable[[], T]) -> T:
        """Return what `work` returns, done on a thread of its own, while the loop goes on."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, work)

    def admit(self, count: int) -> None:
        """Raise `Refusal` where too many requests wait already, or the server is being stopped.

        More than may ever wait at once is a mistake of the client's, which is not to try again.
        """
        if count > self.limits.waiting:
            raise Refusal(
                400, f"prompt: {count:,} of them in one request; {self.limits.waiting:,} at most.", "prompt"
            )
        if self.stopping:
            raise busy("The server is being stopped.", 1)
        waiting = sum(not answer.begun for answer in self.answers)
        if waiting + count > self.limits.waiting:
            raise busy(f"{waiting:,} requests wait already; {self.limits.waiting:,} may.", 1)

    def stop(self) -> None:
        """Cancel what is under way."""
        self.stopping = True
        for answer in list(self.answers):
            answer.cancel()

    def close(self) -> None:
        """Let the threads end."""
        if "_threads" in self.__dict__:
            self._threads.shutdown(wait=False, cancel_futures=True)


_fingerprints: dict[int, tuple[Any, str]] = {}


def fingerprint(model: Model) -> str:
    """Return what stands for file and engine: answers with equal seeds are equal where it is equal."""
    known = _fingerprints.get(id(model))
    if known is not None and known[0] is model.backend:
        return known[1]
    text = json.dumps([model.name, model.made_with], sort_keys=True, default=str)
    made = "b" + hashlib.blake2b(text.encode(), digest_size=6).hexdigest()
    if len(_fingerprints) > 100:
        _fingerprints.clear()
    _fingerprints[id(model)] = (model.backend, made)
    return made
