"""Weights on their way into memory: proved in a process of their own, mapped once, shared by models."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llama_magic.doors import option
from llama_magic.engine import crash_check, trial_ends
from llama_magic.engine.native import Weights, WeightsOptions
from llama_magic.engine.native.backend import give_back_memory
from llama_magic.engine.row_trials import RowTrials
from llama_magic.engine.vocabulary import Vocabulary
from llama_magic.errors import BackendError, InvalidGGUFError, LlamaMagicError
from llama_magic.sources import cache_dir
from llama_magic.threads import Latch, at_fork, start_thread
from llama_magic.words.progress import Progress, ProgressCallback

if TYPE_CHECKING:
    from llama_magic.gguf import GGUFInfo
    from llama_magic.loading.options import Settings
    from llama_magic.sources import Resolved
    from llama_magic.sources.types import Identity

_weights: dict[Any, SharedWeights] = {}
at_fork(_weights.clear)


def in_memory() -> list[Weights]:
    """Return the weights that models of this process use now."""
    return [shared.weights for shared in list(_weights.values())]


class SharedWeights:
    """Weights in memory and how many models use them; freed with the last."""

    def __init__(self, key: Any, weights: Weights) -> None:
        self.key = key
        self.weights = weights
        self.users = 0
        self.vocabulary: Vocabulary | None = None

    def release(self) -> None:
        self.users -= 1
        if self.users <= 0:
            _weights.pop(self.key, None)
            self.weights.close()
            give_back_memory()


def prove(
    found: Resolved, info: GGUFInfo, settings: Settings, report: ProgressCallback
) -> crash_check.TrialVerdict:
    """Return the verdict of the crash check; refuse a file that kills the child."""
    report(Progress("check", 0, None, "trying the file in a process of its own", unit="%"))
    trial = crash_check.Trial(
        tuple(str(path) for path in found.parts),
        settings.gpu_layers,
        settings.mapped,
        settings.extra_bufts,
        settings.type_k,
        settings.type_v,
        settings.flash_attn,
        info.positions,
    )
    verdict = crash_check.check(trial, size=found.size, fingerprint=info.digest, store=(store := _store()))
    report(Progress("check", 100, 100, unit="%"))
    if not verdict.survived:
        raise _refusal(found.path, verdict, store)
    return verdict


def _store() -> Path:
    return cache_dir() / "crash_checks.json"


def proved_before(found: Resolved, info: GGUFInfo) -> bool:
    """Say whether the file was loaded before, as it lies there, and so has a sound header."""
    paths = [str(path) for path in found.parts]
    return crash_check.has_survived(paths, fingerprint=info.digest, store=_store())


def row_trials(found: Resolved, info: GGUFInfo, weights: Weights) -> RowTrials:
    """Return what is remembered of whether rows of these weights are alike."""
    paths = [str(path) for path in found.parts]
    return RowTrials.of(cache_dir() / "rows_alike.json", info.digest, paths, weights.options)


def _refusal(file: Path, verdict: crash_check.TrialVerdict, store: Path) -> LlamaMagicError:
    """Return the error for a file that the child did not survive, or could not be asked about."""
    name, cause, where = file.name, verdict.cause, f"at the stage {verdict.stage!r}"
    if not verdict.of_the_file or (trial_ends.crashed(cause) and verdict.times < 2):
        return BackendError(
            f"{name} could not be tried: the process that loads it first ended {where} ({cause}). That "
            "says nothing about the file: the machine may have run out of memory, disk or time. Nothing is "
            "remembered of it.",
            remedy=f"Load it again; free memory first, or choose a smaller file or {option('ctx')}.",
        )
    again = ""
    if verdict.day:  # from the store: nobody tried just now
        again = f" That was found on {verdict.day}; to have it tried again, remove {store}."
    if verdict.stage == "weights":
        return InvalidGGUFError(
            f"{name} cannot be used: {cause}",
            field=_tensor_in(cause),
            remedy=f"Download the file again, or use another one.{again}",
        )
    if not trial_ends.crashed(cause):
        return BackendError(f"llama.cpp cannot use {name} ({where}): {cause}", remedy=again.strip() or None)
    return InvalidGGUFError(
        f"llama.cpp crashes on {name} {where} ({cause}; {verdict.times} times in a row). It was tried in a "
        "process of its own, so nothing here was harmed.",
        field=verdict.stage,
        remedy="The file is damaged or of a kind that this version of llama.cpp cannot run; "
        f"download it again, or use another one.{again}",
    )


def _tensor_in(text: str) -> str:
    """Return `tensor NAME` where llama.cpp's log names one."""
    found = re.search(r"tensor '([^']+)'", text)
    return f"tensor {found[1]}" if found else "tensor data"


def mapped_already(identity: Identity) -> bool | None:
    """Say of the weights of a file that are in memory whether they are mapped; None where there are none."""
    return next((options.mmap for held, options in _weights if held == identity), None)


def acquire(
    found: Resolved,
    settings: Settings,
    verdict: crash_check.TrialVerdict,
    identity: Identity,
    report: ProgressCallback,
    meanwhile: Callable[[], None] = lambda: None,
) -> SharedWeights:
    """Return the weights of a file, shared with models that hold them already.

    `meanwhile` is done here while a thread reads them.
    """
    options = WeightsOptions(
        settings.gpu_layers, settings.mapped, settings.mlock, use_extra_bufts=verdict.use_extra_bufts
    )
    key = (identity, options)
    shared = _weights.get(key)
    if shared is None:
        weights = _map_weights(found.parts, options, report, meanwhile)
        if not (weights.generates or weights.embeds):
            weights.close()
            raise BackendError(
                f"{found.path.name} holds a model that neither generates text token by token nor embeds it "
                "(an encoder with a decoder, or a diffusion model).",
                remedy="Use a decoder model, such as an instruct model in GGUF.",
            )
        shared = SharedWeights(key, weights)
        _weights[key] = shared
    shared.users += 1
    return shared


def _map_weights(
    parts: Sequence[Path], options: WeightsOptions, report: ProgressCallback, meanwhile: Callable[[], None]
) -> Weights:
    """Load weights on a thread, so that Ctrl-C and progress work meanwhile."""
    box: list[Weights | BaseException] = []
    abandoned: list[bool] = []
    done = Latch()
    share = [0.0]

    def on_progress(part: float) -> bool:
        share[0] = part
        return not abandoned

    def work() -> None:
        try:
            box.append(Weights(parts, options, on_progress))
        except BaseException as error:
            box.append(error)
        done.set()
        if abandoned:
            free()

    def free() -> None:
        with contextlib.suppress(IndexError):
            made = box.pop()  # once, by whichever thread comes first
            if isinstance(made, Weights):
                made.close()

    try:
        start_thread(work, "llama_magic load")
        meanwhile()
        while not done.wait(0.05):
            report(Progress("load", round(100 * share[0]), 100, unit="%"))
        report(Progress("load", 100, 100, unit="%"))
    except BaseException:
        # llama.cpp asks between two tensors, which may be long: the thread frees what it comes back with.
        abandoned.append(True)
        if done.is_set():
            free()
        raise
    made = box.pop()
    if isinstance(made, BaseException):
        raise made
    return made
