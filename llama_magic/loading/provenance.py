"""Which file and which engine made an answer: what a receipt needs so that another can repeat it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from llama_magic.doors import escaped
from llama_magic.engine import prebuilt, system_report

if TYPE_CHECKING:
    from llama_magic.engine.crash_check import TrialVerdict
    from llama_magic.engine.native import Adapter
    from llama_magic.gguf import GGUFInfo
    from llama_magic.loading.draft import Draft
    from llama_magic.loading.options import Settings
    from llama_magic.sources import Resolved


def made_with(
    found: Resolved, info: GGUFInfo, fingerprint: str, settings: Settings, verdict: TrialVerdict, window: int
) -> dict[str, Any]:
    """Return `file` and `engine` as JSON: everything that decides which bits come out, no folder, no time.

    The number of threads is part of it: from some hundred tokens of prompt on, llama.cpp's flash attention
    sums in another order with another number of threads, but where seeded requests run together
    (CONTRIBUTING, "How the engine arranges contexts").
    """
    build = system_report()
    return {
        "file": {
            "name": escaped(found.path.name),
            "bytes": found.size,
            "fingerprint": fingerprint,
            "architecture": info.architecture,
            "quantisation": info.quantisation,
        },
        "engine": {
            "llama_cpp": build["llama_cpp"],
            "llama_cpp_python": build["bindings"],
            "features": _features(build["features"]),
            **({"library": build["library_from"]} if build["library_from"] != prebuilt.OWN else {}),
            "repacked_weights": verdict.use_extra_bufts,
            "window": window,
            "kv_type": settings.type_k,
            "flash_attn": settings.flash_attn,
            "threads": settings.threads,
            "batch": settings.batch,
            "ubatch": settings.ubatch,
            "gpu_layers": settings.gpu_layers,
            **dict(settings.rope),
            **({"lora": [_adapter(adapter) for adapter in settings.lora]} if settings.lora else {}),
            **({"draft": _draft(settings.draft)} if settings.draft else {}),
        },
    }


def _features(text: str) -> str:
    """Shorten `CPU : AVX = 1 | AVX2 = 1 |` to `CPU: AVX AVX2`."""
    words = text.replace(" = 1 |", "").replace(" :", ":")
    return " ".join(words.split())


def _draft(draft: Draft) -> dict[str, Any]:
    return {"name": escaped(Path(draft.origin).name), "fingerprint": draft.fingerprint}


def _adapter(adapter: Adapter) -> dict[str, Any]:
    return {
        "name": escaped(adapter.path.name),
        "fingerprint": adapter.fingerprint,
        "scale": adapter.scale,
    }
