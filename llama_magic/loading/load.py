"""`load`: from what a user names to a `Model` in memory.

resolve -> read and judge the header -> estimate the fit -> prove the file in a child process
-> map the weights -> start the engine. The same file and options give the same object; other
context sizes share the weights.
"""

from __future__ import annotations

import _thread
import functools
import itertools
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

from llama_magic import fit, gguf, sources
from llama_magic.engine import crash_check, embedding
from llama_magic.engine.engine import Engine, EngineOptions
from llama_magic.engine.native.backend import supports_gpu
from llama_magic.engine.vocabulary import Vocabulary
from llama_magic.errors import FitError, InvalidGGUFError, OptionError, shown_briefly
from llama_magic.loading.options import LoadKeywords, LoadOptions, Settings
from llama_magic.loading.provenance import made_with
from llama_magic.loading.weights import SharedWeights, acquire, prove
from llama_magic.model.file import LoadedFile
from llama_magic.model.model import Model
from llama_magic.request.sampling import Sampling
from llama_magic.threads import Latch, may_wait, module_lock
from llama_magic.words import amounts
from llama_magic.words.progress import ProgressCallback
from llama_magic.words.shown import Shown
from llama_magic.words.signature import spelled_out

if TYPE_CHECKING:
    from llama_magic.fit import Estimate, Machine, Speed
    from llama_magic.gguf import GGUFInfo
    from llama_magic.request.tokenizer import Tokenizer
    from llama_magic.sources import Resolved

_models: dict[Any, Model] = {}
_lock = module_lock()  # one load at a time
_loading: set[int] = set()  # the thread that holds it
os.register_at_fork(after_in_child=_models.clear)  # their engines stayed in the parent
os.register_at_fork(after_in_child=_loading.clear)


@dataclass(frozen=True)
class DryRun(Shown):
    """What `load` would do: the file, the options as they would be taken, the memory it would need."""

    origin: str
    size: int | None
    info: GGUFInfo | None
    window: int | None
    estimate: Estimate | None
    options: dict[str, Any]
    notes: tuple[str, ...] = ()
    speed: Speed | None = None
    seeded_bytes: int = 0  # what the first answer with a seed adds

    def __str__(self) -> str:
        lines = [f"{self.origin} ({amounts.size(self.size)}); nothing was loaded."]
        if self.info is not None:
            lines.append(
                f"{self.info.architecture} {self.info.quantisation}, trained on "
                f"{self.info.context_length:,} tokens"
            )
        if self.estimate is not None and self.window is not None:
            lines.append(f"a window of {self.window:,} tokens: {self.estimate.explained()}")
            lines.append(f"{amounts.size(self.seeded_bytes)} more from the first answer with a seed on")
        if self.speed is not None:
            lines.append(str(self.speed))
        lines += [f"{name}: {value}" for name, value in self.options.items()]
        return "\n".join((*lines, *self.notes))


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
) -> DryRun: ...
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

    `source` is nothing (the demo model), an alias, a path, a URL or a hub name. Options are
    those of `%llama load`: `ctx` (tokens; 0: as trained, capped by what fits), `gpu_layers`,
    `threads`, `batch`, `kv_type`, `flash_attn`, `mmap`, `mlock`, `rope_*`, `yarn_*`, `profile`,
    `formatter`, `lora`. With `dry_run` returns a `DryRun` report instead.

    Raises `SourceError`, `InvalidGGUFError`, `FitError`, `BackendError`, `OptionError`.
    """
    for what, value in (("name", name), ("sha256", sha256), ("revision", revision)):
        if value is not None and (not isinstance(value, str) or not value.strip() or len(value) > 200):
            raise OptionError(f"{what} is {str(value)[:40]!r}; expected a text.")
    wanted = LoadOptions.read(options)
    report = progress or (lambda _progress: None)
    began = time.perf_counter()
    if dry_run:
        return _dry_run(source, wanted, revision, offline)
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
    settings = wanted.settle(info, machine, gpu=_gpu_available(wanted))
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
            before_exact=functools.partial(_room_for_seeded, seeded, on_gpu=bool(settings.gpu_layers)),
        )
        engine = Engine(shared.weights, options, shared.vocabulary)
    except BaseException:
        shared.release()
        raise
    try:
        file = _describe(found, info, wanted, settings, shared, engine, estimate, verdict, began, warnings)
    except BaseException:
        engine.close()
        shared.release()
        raise
    file.release = _Release(key, engine, shared)
    others = [m.name for k, m in _models.items() if k[0] == identity and not m.closed]
    if others:
        names = ", ".join(others)
        note = f"{names}: of the same file, stays loaded, shares the weights. %llama unload {others[0]}"
        file.notes = (*file.notes, note)
    model = Model(name or _free_name(found.name), file, engine)
    _models[key] = model
    return model


class _Release:
    """Stop a model's engine, then let go of its weights; once.

    A thread of its own does it, for this may be called where nothing can be waited for: by a finalizer on
    the thread that computes, or in the middle of a load. Elsewhere it is waited for.
    """

    def __init__(self, key: Any, engine: Engine, shared: SharedWeights) -> None:
        self._key, self._engine, self._shared = key, engine, shared
        self._calls = itertools.count()
        self._freed = Latch()

    def __call__(self) -> None:
        if next(self._calls):
            return
        _models.pop(self._key, None)
        self._engine.stop()
        if self._engine.forked:
            return  # memory and engine are the parent's
        _thread.start_new_thread(self._free, ())
        if may_wait() and threading.get_ident() not in _loading:
            self._freed.wait_long()

    def _free(self) -> None:
        try:
            self._engine.close()
            with _lock:
                self._shared.release()
        finally:
            self._freed.set()


def _room_for_seeded(need: int, *, on_gpu: bool) -> None:
    """Refuse the context for seeded answers where it would not fit."""
    machine, size = fit.machine(), amounts.size
    have = machine.vram_free if on_gpu and machine.gpus else machine.ram_available
    if need > have:
        raise FitError(
            "Answers with a seed have a context of their own, made at the first of them. It needs "
            f"{size(need)}, {size(need - have)} more than the {size(have)} there is.",
            remedy="Ask without a seed, unload another model, or load with a smaller --ctx or with "
            "--kv-type q8_0.",
        )


def _free_name(name: str) -> str:
    """Return `name`, with a number if another loaded model has it."""
    taken = {model.name for model in _models.values() if not model.closed}
    number = 2
    free = name
    while free in taken:
        free = f"{name}-{number}"
        number += 1
    return free


def _gpu_available(wanted: LoadOptions) -> bool:
    """Say whether layers can go to a GPU; asking for it on a build that cannot is an error."""
    available = supports_gpu()
    if wanted.gpu_layers not in (None, 0) and not available:
        raise OptionError(
            f"--gpu-layers {wanted.gpu_layers} was asked for, but this llama.cpp has no GPU support.",
            remedy='Leave it out, or rebuild: CMAKE_ARGS="-DGGML_CUDA=on" (NVIDIA), "-DGGML_METAL=on" '
            '(Apple) or "-DGGML_VULKAN=on", then pip install --force-reinstall --no-cache-dir --no-binary '
            "llama-cpp-python llama-cpp-python==0.3.36",
        )
    return available


def _describe(
    found: Resolved,
    info: GGUFInfo,
    wanted: LoadOptions,
    settings: Settings,
    shared: SharedWeights,
    engine: Engine,
    estimate: Any,
    verdict: crash_check.Verdict,
    began: float,
    warnings: tuple[str, ...],
) -> LoadedFile:
    from llama_magic import formatters

    formatter = formatters.choose(wanted.formatter or "auto", info)
    window, buffers = _measured(engine, info, settings)
    memory = {f"predicted_{what}": size for what, size, _ in estimate.parts()}
    memory["predicted_total"] = estimate.total
    memory["predicted_seeded"] = settings.seeded_bytes(info)
    actual = dict(shared.weights.buffers)
    for kind, size in buffers.items():
        actual[kind] = actual.get(kind, 0) + size
    memory |= {f"actual_{k}": v for k, v in actual.items()}
    memory["actual_total"] = sum(actual.values())
    notes = [*found.notes, *settings.notes, *warnings, *formatter.notes]
    if settings.extra_bufts and verdict.fell_back:
        notes.append(
            "This build of llama.cpp crashes with repacked weights on this CPU, so the model runs without "
            'them (a little slower). To mend the build: CMAKE_ARGS="-DGGML_NATIVE=OFF" pip install '
            "--force-reinstall --no-cache-dir --no-binary llama-cpp-python llama-cpp-python==0.3.36"
        )
    return LoadedFile(
        source=found,
        info=info,
        options=settings.shown(),
        window=window,
        formatter=formatter,
        sampling=file_sampling(info.metadata),
        load_s=time.perf_counter() - began,
        memory=memory,
        notes=tuple(dict.fromkeys(notes)),
        guarded=_guarded(engine.tokenizer, info),
        made_with=made_with(found, info, settings, verdict, window),
        n_ctx_train=info.context_length,
        kv_bytes_per_token=sum(info.kv_bytes_per_token()),
    )


def _measured(engine: Engine, info: GGUFInfo, settings: Settings) -> tuple[int, dict[str, int]]:
    """Return the window that llama.cpp made, and the bytes by kind of its context."""
    if engine.weights.generates:
        lane = engine.call(lambda core: core.lane(exact=False))
        # All answers together may have more cells than one may be long (--profile batch).
        return min(settings.window, lane.cells), lane.context.buffers
    context = engine.call(lambda core: embedding.context(core, info))
    return min(settings.window, context.n_ctx), context.buffers


def _guarded(tokenizer: Tokenizer, info: GGUFInfo) -> frozenset[str]:
    """Return the texts that a message must not be able to write as tokens.

    Control tokens, ends of generation, and those user-defined tokens that the chat template
    writes itself. (Other user-defined tokens, such as runs of line breaks, are ordinary text.)
    """
    templates = "\n".join(info.chat_templates.values())
    user_defined = (tokenizer.text(i) for i in tokenizer.user_defined_ids)
    marks = {t for t in user_defined if len(t) > 2 and t.strip("▁ \t\r\n") and t in templates}
    return tokenizer.control_texts | frozenset(marks)


# general.sampling.* of a GGUF file (llama.cpp: common_init_sampler_from_model)
_FILE_SAMPLING = {
    "temp": "temperature", "top_k": "top_k", "top_p": "top_p", "min_p": "min_p",
    "xtc_probability": "xtc_probability", "xtc_threshold": "xtc_threshold",
    "penalty_last_n": "repeat_last_n", "penalty_repeat": "repeat_penalty", "mirostat": "mirostat",
    "mirostat_tau": "mirostat_tau", "mirostat_eta": "mirostat_eta",
}  # fmt: skip


def file_sampling(metadata: Mapping[str, Any]) -> Sampling:
    """Return the sampling defaults that a file brings, llama.cpp's own where it says nothing."""
    known = {f.name: f.type for f in fields(Sampling)}
    changes: dict[str, Any] = {}
    for key, name in _FILE_SAMPLING.items():
        value = metadata.get(f"general.sampling.{key}")
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            changes[name] = int(value) if known[name] == "int" else float(value)
    try:
        return Sampling(**changes)
    except (OptionError, TypeError):
        return Sampling()  # a file may hold nonsense here; its findings say so


def _dry_run(source: Any, wanted: LoadOptions, revision: str | None, offline: bool | None) -> DryRun:
    located = sources.locate(source, revision=revision, offline=offline)
    machine = fit.machine()
    if located.path is not None:
        info = gguf.inspect(located.path, parts=located.parts)
    else:
        readers = sources.open_parts(source, revision=revision)
        info = gguf.inspect(readers[0], parts=readers[1:])
    gguf.validate(info)
    settings = wanted.settle(info, machine, gpu=_gpu_available(wanted))
    estimate = settings.estimate(info)
    notes = [*located.notes, *settings.notes]
    try:
        notes += fit.check(estimate, machine)
    except FitError as error:
        notes.append(str(error))
    return DryRun(
        located.origin,
        located.size,
        info,
        settings.window,
        estimate,
        settings.shown(),
        tuple(notes),
        settings.speed(info, machine),
        settings.seeded_bytes(info),
    )


def loaded() -> list[Model]:
    """Return the models that are in memory now."""
    return [model for model in list(_models.values()) if not model.closed]
