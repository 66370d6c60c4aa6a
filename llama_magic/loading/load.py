"""`load`: from what a user names to a `Model` in memory.

resolve -> read and judge the header -> estimate the fit -> prove the file in a child process
-> map the weights -> start the engine. The same file and options give the same object; other
context sizes share the weights.
"""

from __future__ import annotations

import _thread
import functools
import importlib
import itertools
import os
import threading
import time
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from llama_magic import fit, gguf, sources
from llama_magic.engine.core import EngineOptions
from llama_magic.engine.engine import Engine
from llama_magic.engine.vocabulary import Vocabulary
from llama_magic.errors import InvalidGGUFError, OptionError, shown_briefly
from llama_magic.loading import dry
from llama_magic.loading.checks import gpu_available, room_for_seeded
from llama_magic.loading.current import current
from llama_magic.loading.facts import describe
from llama_magic.loading.options import LoadKeywords, LoadOptions
from llama_magic.loading.weights import SharedWeights, acquire, prove
from llama_magic.model.model import Model
from llama_magic.threads import Latch, may_wait, module_lock
from llama_magic.words.progress import ProgressCallback
from llama_magic.words.signature import spelled_out

if TYPE_CHECKING:
    from llama_magic.fit import Machine
    from llama_magic.sources import Resolved

_models: dict[Any, Model] = {}
_lock = module_lock()  # one load at a time
_loading: set[int] = set()  # the thread that holds it
os.register_at_fork(after_in_child=_models.clear)  # their engines stayed in the parent
os.register_at_fork(after_in_child=_loading.clear)


# Where else tokens may come from, by what a source begins with (`SCHEME:…`): a new place is a line here.
# What is named there (`module:function`, imported when asked for) is called with the source and the
# keywords, and makes a `Model` over a `Backend` of its own.
OPENERS = {
    "server": "llama_magic.remote.connect:open_server",
}


@overload
def load(
    source: str | os.PathLike[str] | None = None,
    *,
    name: str | None = None,
    dry_run: Literal[False] = False,
    progress: ProgressCallback | None = None,
    sha256: str | None = None,
    revision: str | None = None,
    offline: bool | None = None,
    **options: Unpack[LoadKeywords],
) -> Model: ...
@overload
def load(
    source: str | os.PathLike[str] | None = None,
    *,
    dry_run: Literal[True],
    name: str | None = None,
    progress: ProgressCallback | None = None,
    sha256: str | None = None,
    revision: str | None = None,
    offline: bool | None = None,
    **options: Unpack[LoadKeywords],
) -> dry.DryRun: ...
@spelled_out(LoadKeywords, {}, "None")
@shown_briefly("The load")
def load(
    source: str | os.PathLike[str] | None = None,
    *,
    name: str | None = None,
    dry_run: bool = False,
    progress: ProgressCallback | None = None,
    sha256: str | None = None,
    revision: str | None = None,
    offline: bool | None = None,
    **options: Any,
) -> Any:
    """Load a model and return it; a second call for the same file and options returns the same object.

    `source` is nothing (the current model of the session; where there is none, the demo model), an
    alias, a path, a URL or a hub name. With nothing at all the current model itself is returned, with
    options its file is loaded with them. Options are those of `%llama load`: `ctx` (tokens; 0: as
    trained, capped by what fits), `gpu_layers`, `threads`, `batch`, `kv_type`, `flash_attn`, `mmap`,
    `mlock`, `rope_*`, `yarn_*`, `profile`, `formatter`, `lora`. With `dry_run` returns a `DryRun`.

    Raises `SourceError`, `InvalidGGUFError`, `FitError`, `BackendError`, `OptionError`.
    """
    for what, value in (("name", name), ("sha256", sha256), ("revision", revision)):
        if value is not None and (not isinstance(value, str) or not value.strip() or len(value) > 200):
            raise OptionError(f"{what} is {str(value)[:40]!r}; expected a text.")
    scheme = source.partition(":")[0] if isinstance(source, str) else ""
    if scheme in OPENERS:
        of_files = {"dry_run": dry_run, "sha256": sha256, "revision": revision, "offline": offline}
        return _opened(scheme, str(source), of_files, name=name, progress=progress, **options)
    wanted = LoadOptions.read(options)
    model = current() if source is None and revision is None else None
    if model is not None and wanted == LoadOptions() and name is sha256 is None and not dry_run:
        return model
    if model is not None and model.has_file:
        source = model.path
    report = progress or (lambda _progress: None)
    began = time.perf_counter()
    if dry_run:
        return dry.dry_run(source, wanted, revision, offline)
    machine = fit.machine()
    found = sources.resolve(
        source,
        revision=revision,
        offline=offline,
        sha256=sha256,
        progress=progress,
        fits=lambda size: size < machine.ram_available,
    )
    try:
        with _lock:
            _loading.add(threading.get_ident())
            try:
                return _load(found, wanted, name, report, began, machine)
            finally:
                _loading.discard(threading.get_ident())
    except InvalidGGUFError as error:
        again = sources.doubt(found)
        if not again:
            raise
        remedy = f"{error.remedy or ''} {again}".strip()
        raise InvalidGGUFError(error.message, field=error.field, offset=error.offset, remedy=remedy) from None


def _opened(scheme: str, source: str, of_files: dict[str, Any], **options: Any) -> Model:
    """Return the model of a source that is no file; raises `OptionError` for what only a file has."""
    for what, value in of_files.items():
        if value:
            raise OptionError(
                f"{what} is for model files, and {source} is none.", remedy="Leave it out to load from there."
            )
    module, _, function = OPENERS[scheme].partition(":")
    opened: Model = getattr(importlib.import_module(module), function)(source, **options)
    return opened


def _load(
    found: Resolved,
    wanted: LoadOptions,
    name: str | None,
    report: ProgressCallback,
    began: float,
    machine: Machine,
) -> Model:
    info = gguf.inspect(found.path, parts=found.parts)
    gguf.validate(info)
    settings = wanted.settle(info, machine, gpu=gpu_available(wanted))
    identity = tuple((str(p.resolve()), p.stat().st_size, p.stat().st_mtime_ns) for p in found.parts)
    key = (identity, settings)
    known = _models.get(key)
    if known is not None and not known.closed:
        return known
    for adapter in settings.lora:
        gguf.validate_adapter(gguf.inspect(adapter.path), info)
    estimate = settings.estimate(info)
    warnings = fit.check(estimate, machine)
    verdict = prove(found, info, settings, report)
    shared = acquire(found, settings, verdict, identity, report)
    try:
        if shared.vocabulary is None:
            shared.vocabulary = Vocabulary(shared.weights.vocab, f"{info.digest}:{id(shared.weights)}")
        seeded = settings.seeded_bytes(info)
        options = EngineOptions(
            settings.context(),
            settings.store_budget(machine),
            before_exact=functools.partial(room_for_seeded, seeded, on_gpu=bool(settings.gpu_layers)),
        )
        engine = Engine(shared.weights, options, shared.vocabulary)
    except BaseException:
        shared.release()
        raise
    try:
        file = describe(found, info, wanted, settings, shared, engine, estimate, verdict, began, warnings)
    except BaseException:
        engine.close()
        shared.release()
        raise
    file.release = _Release(key, engine, shared)
    others = [m.name for k, m in list(_models.items()) if k[0] == identity and not m.closed]
    if others:
        names = ", ".join(others)
        note = f"{names}: of the same file, stays loaded, shares the weights. %llama unload {others[0]}"
        file.notes = (*file.notes, note)
    model = Model(name or _free_name(found.name), file, engine)
    _models[key] = model
    return model


class _Release:
    """Stop a model's engine, then let go of its weights: done once, and waited for by every caller that can.

    A thread of its own does it, for this may be called where nothing can be waited for: by a finalizer on
    the thread that computes, or in the middle of a load.
    """

    def __init__(self, key: Any, engine: Engine, shared: SharedWeights) -> None:
        self._key, self._engine, self._shared = key, engine, shared
        self._calls = itertools.count()
        self._freed = Latch()

    def __call__(self) -> None:
        if not self._engine.closed:
            _models.pop(self._key, None)
            self._engine.stop()
        if self._engine.forked or self._freed.is_set():
            return  # memory and engine are the parent's, or gone
        _thread.start_new_thread(self._free, ())
        if may_wait() and threading.get_ident() not in _loading:
            self._freed.wait_long()

    def _free(self) -> None:
        if next(self._calls):
            return  # another thread is at it
        try:
            self._engine.close()
            with _lock:
                self._shared.release()
        finally:
            self._freed.set()


def _free_name(name: str) -> str:
    """Return `name`, with a number if another loaded model has it."""
    taken = {model.name for model in loaded()}
    number = 2
    free = name
    while free in taken:
        free = f"{name}-{number}"
        number += 1
    return free


def loaded() -> list[Model]:
    """Return the models that are in memory now."""
    return [model for model in list(_models.values()) if not model.closed]
