"""The options of `load` as keywords, for signatures: `options` checks and completes them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, TypedDict

if TYPE_CHECKING:
    from llama_magic.formatters import Formatter

_Adapter = str | os.PathLike[str]  # `PATH` or `PATH:SCALE`


class LoadKeywords(TypedDict, total=False):
    """The options of `load` as keywords; `load` says what each means."""

    ctx: int | None
    gpu_layers: int | Literal["all"] | None
    threads: int | None
    batch: int | None
    kv_type: Literal["f16", "q8_0", "q4_0"] | None
    flash_attn: Literal["auto", "on", "off"] | None
    mmap: bool | None
    mlock: bool | None
    rope_freq_base: float | None
    rope_freq_scale: float | None
    rope_scaling: Literal["none", "linear", "yarn"] | None
    yarn_ext_factor: float | None
    yarn_attn_factor: float | None
    yarn_beta_fast: float | None
    yarn_beta_slow: float | None
    yarn_orig_ctx: int | None
    profile: Literal["fast", "balanced", "quality", "memory", "batch"] | None
    formatter: str | os.PathLike[str] | Formatter | None
    lora: (
        str
        | os.PathLike[str]
        | tuple[str | os.PathLike[str], float]
        | Sequence[str | os.PathLike[str] | tuple[str | os.PathLike[str], float]]
        | None
    )
    draft: str | os.PathLike[str] | None
