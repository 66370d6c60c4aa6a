"""Weights on their way into memory: proved in a process of their own, mapped once, shared by models."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from llama_magic import sources
from llama_magic.engine import crash_check
from llama_magic.engine.native import Weights, WeightsOptions
from llama_magic.engine.native.backend import give_back_memory
from llama_magic.engine.vocabulary import Vocabulary
from llama_magic.errors import BackendError, InvalidGGUFError
from llama_magic.results import Progress, ProgressCallback

if TYPE_CHECKING:
    from llama_magic.gguf import GGUFInfo
    from llama_magic.load_options import Settings
    from llama_magic.sources import Resolved

_weights: dict[Any, SharedWeights] = {}


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
) -> crash_check.Verdict:
    """Return the verdict of the crash check; refuse a file that kills the child."""
    report(Progress("check", 0, None, "trying the file in a process of its own", unit="%"))
    trial = crash_check.Trial(
        tuple(str(path) for path in found.parts),
        settings.gpu_layers,
        settings.mmap,
        settings.extra_bufts,
        settings.type_k,
        settings.type_v,
        settings.flash_attn,
        info.positions,
    )
    verdict = crash_check.check(
        trial, size=found.size, fingerprint=info.digest, store=sources.cache_dir() / "crash_checks.json"
    )
    report(Progress("check", 100, 100, unit="%"))
    if verdict.survived:
        return verdict
    crashed = verdict.cause.startswith(("killed", "exit code", crash_check.NO_ANSWER))
    if verdict.stage == "weights":
        raise InvalidGGUFError(
            f"{found.path.name} cannot be used: {verdict.cause}",
            field=_tensor_in(verdict.cause),
            remedy="Download the file again, or use another one.",
        )
    where = f"at the stage {verdict.stage!r}"
    if not crashed:
        raise BackendError(f"llama.cpp cannot use {found.path.name} ({where}): {verdict.cause}")
    raise InvalidGGUFError(
        f"llama.cpp crashes on {found.path.name} {where} ({verdict.cause}). It was tried in a process of "
        "its own, so nothing here was harmed.",
        field=verdict.stage,
        remedy="The file is damaged or of a kind that this version of llama.cpp cannot run; "
        "download it again, or use another one.",
    )


def _tensor_in(text: str) -> str:
    """Return `tensor NAME` where llama.cpp's log names one."""
    found = re.search(r"tensor '([^']+)'", text)
    return f"tensor {found[1]}" if found else "tensor data"


def acquire(
    found: Resolved, settings: Settings, verdict: crash_check.Verdict, identity: Any, report: ProgressCallback
) -> SharedWeights:
    """Return the weights of a file, shared with models that hold them already."""
    options = WeightsOptions(
        settings.gpu_layers, settings.mmap, settings.mlock, use_extra_bufts=verdict.use_extra_bufts
    )
    key = (identity, options)
    shared = _weights.get(key)
    if shared is None:
        weights = _map_weights(found.parts, options, report)
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


def _map_weights(parts: Sequence[Path], options: WeightsOptions, report: ProgressCallback) -> Weights:
    """Load weights on a thread, so that Ctrl-C and progress work meanwhile."""
    box: list[Any] = []
    stop = threading.Event()
    share = [0.0]

    def on_progress(done: float) -> bool:
        share[0] = done
        return not stop.is_set()

    def work() -> None:
        try:
            box.append(Weights(parts, options, on_progress))
        except BaseException as error:
            box.append(error)

    thread = threading.Thread(target=work, name="llama_magic load", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(0.05)
            report(Progress("load", round(100 * share[0]), 100, unit="%"))
    except BaseException:
        stop.set()
        thread.join()
        if box and isinstance(box[0], Weights):
            box[0].close()
        raise
    if isinstance(box[0], BaseException):
        raise box[0]
    return box[0]  # type: ignore[no-any-return]
