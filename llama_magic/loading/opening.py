"""From a file on this disk to a `Model` in memory: judged, tried, mapped, its engine started."""

from __future__ import annotations

import _thread
import functools
import itertools
import sys
import threading
from typing import TYPE_CHECKING, Any

from llama_magic import fit, gguf, sources
from llama_magic.doors import here, verb
from llama_magic.engine.core import EngineOptions
from llama_magic.engine.engine import Engine
from llama_magic.engine.vocabulary import Vocabulary
from llama_magic.errors import BackendError
from llama_magic.loading import draft
from llama_magic.loading.checks import gpu_available, room_for_prompts, room_for_seeded
from llama_magic.loading.facts import Judged, describe
from llama_magic.loading.weights import (
    SharedWeights,
    acquire,
    mapped_already,
    prove,
    proved_before,
    row_trials,
)
from llama_magic.model.model import Model
from llama_magic.starts import launch
from llama_magic.threads import Latch, at_fork, may_wait, module_lock

if TYPE_CHECKING:
    from llama_magic.fit import Machine
    from llama_magic.gguf import GGUFInfo
    from llama_magic.loading.options import LoadOptions, Settings
    from llama_magic.sources import Resolved
    from llama_magic.sources.types import Identity
    from llama_magic.words.progress import ProgressCallback

_models: dict[Any, Model] = {}
_lock = module_lock()  # one load at a time
_loading: set[int] = set()  # the thread that holds it
at_fork(_models.clear)  # their engines stayed in the parent
at_fork(_loading.clear)


def open_file(
    found: Resolved,
    wanted: LoadOptions,
    name: str | None,
    report: ProgressCallback,
    began: float,
    machine: Machine,
) -> Model:
    """Return the model of a file, the one that is loaded already where file and options are the same.

    `began` is when its load began (`time.perf_counter()`).
    """
    with _lock:
        _loading.add(threading.get_ident())
        try:
            return _open(found, wanted, name, report, began, machine)
        finally:
            _loading.discard(threading.get_ident())


def _open(
    found: Resolved,
    wanted: LoadOptions,
    name: str | None,
    report: ProgressCallback,
    began: float,
    machine: Machine,
) -> Model:
    identity = found.identity
    with sources.doubting(found):
        info = _header(found, identity)
    settings = wanted.settle(info, machine, gpu=gpu_available(wanted))
    key = (identity, settings)
    known = _models.get(key)
    if known is not None and not known.closed:
        return known
    settings = settings.held(info, machine, mapped_already(identity))
    for adapter in settings.lora:
        gguf.validate_adapter(gguf.inspect(adapter.path), info)
    estimate = settings.estimate(info)
    warnings = fit.check(estimate, machine)
    with sources.doubting(found):
        verdict = prove(found, info, settings, report)
        judged = Judged(found, info, wanted.formatter or "auto", settings, estimate, warnings, verdict)
        held = [acquire(found, settings, verdict, identity, report, judged.prepare)]
    try:
        engine = _engine(held, found, settings, info, machine, report)
    except BaseException:
        _let_go(held)
        raise
    try:
        file = describe(judged, engine, began)
    except BaseException:
        engine.close()
        _let_go(held)
        raise
    file.release = _Release(key, engine, held)
    others = [m.name for k, m in list(_models.items()) if k[0] == identity and not m.closed]
    if others:
        names = ", ".join(others)
        one = len(others) == 1
        kept = "is of the same file: it stays loaded" if one else "are of the same file: they stay loaded"
        note = f"{names} {kept}, and {'shares' if one else 'share'} the weights."
        file.notes = (*file.notes, here(f"{note} {verb('unload', others[0])} frees it."))
    model = Model(name or _free_name(found.name), file, engine)
    _models[key] = model
    return model


def _header(found: Resolved, identity: Identity) -> GGUFInfo:
    """Return a file's header, known to be sound; that of a model of the same file where one is loaded."""
    for (of, _), model in list(_models.items()):
        if of == identity and not model.closed:
            return model.info
    info = gguf.inspect(found.path, parts=found.parts)
    if not proved_before(found, info):  # else it was validated then: 262,144 tokens take 0.1 s
        gguf.validate(info)
    return info


def _let_go(held: list[SharedWeights]) -> None:
    while held:
        held.pop().release()


def _engine(
    held: list[SharedWeights],
    found: Resolved,
    settings: Settings,
    info: GGUFInfo,
    machine: Machine,
    report: ProgressCallback,
) -> Engine:
    """Start the engine on the first weights of `held`; those of a draft model are added to it."""
    (shared,) = held
    guessing = settings.draft
    drafted = None
    if guessing is not None and guessing.found is not None:
        verdict = prove(guessing.found, guessing.info, settings, report)
        held.append(acquire(guessing.found, settings, verdict, guessing.identity, report))
        drafted = draft.options(guessing, held[-1].weights, shared.weights, settings.window, settings)
    if shared.vocabulary is None:
        shared.vocabulary = Vocabulary(shared.weights.vocab, f"{info.digest}:{id(shared.weights)}")
    on_gpu = bool(settings.gpu_layers)
    options = EngineOptions(
        settings.context(),
        settings.store_budget(machine),
        before={
            "exact": functools.partial(room_for_seeded, settings.seeded_bytes(info), on_gpu=on_gpu),
            "prompt_reader": functools.partial(room_for_prompts, settings.prompt_reader_bytes(info)),
        },
        draft=drafted,
        trials=row_trials(found, info, shared.weights),
    )
    return Engine(shared.weights, options, shared.vocabulary, shared.vocabulary.look)


class _Release:
    """Stop a model's engine, then let go of its weights: done once, and waited for by every caller that can.

    A thread of its own does it, for this may be called where nothing can be waited for: by a finalizer on
    the thread that computes, or in the middle of a load.
    """

    def __init__(self, key: Any, engine: Engine, held: list[SharedWeights]) -> None:
        self._key, self._engine, self._held = key, engine, held
        self._calls = itertools.count()
        self._freed = Latch()

    def __call__(self) -> None:
        if not self._engine.closed:
            _models.pop(self._key, None)
            self._engine.stop()
        if self._engine.forked or self._freed.is_set() or sys.is_finalizing():
            return  # memory and engine are the parent's, or gone
        try:
            launch(_thread.start_new_thread, self._free, ())
        except BackendError:
            if not may_wait():
                raise
            self._free()  # no thread is left: the caller's own does it
        if may_wait() and threading.get_ident() not in _loading:
            self._freed.wait_long()

    def _free(self) -> None:
        if next(self._calls):
            return  # another thread is at it
        try:
            self._engine.close()
            with _lock:
                _let_go(self._held)
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
