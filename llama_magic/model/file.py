"""What a model keeps of where it came from: file, header, options, window, template, memory."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from llama_magic.request.sampling import Sampling

if TYPE_CHECKING:
    from llama_magic.formatters import Formatter
    from llama_magic.gguf import GGUFInfo
    from llama_magic.sources import Resolved


@dataclass
class LoadedFile:
    """The facts of a model that do not change between calls.

    `window` is the context window in tokens, `n_ctx_train` what the model was trained on (0: not known),
    `kv_bytes_per_token` what one more token of window costs. `guarded` are the texts that a message must
    not be able to write as tokens. `info` and `source` are None where there is no file in reach.
    `release` is called once, by `Model.close`.
    """

    window: int
    formatter: Formatter
    sampling: Sampling = field(default_factory=Sampling)
    options: dict[str, Any] = field(default_factory=dict)
    load_s: float = 0.0
    memory: dict[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    guarded: frozenset[str] = frozenset()
    made_with: dict[str, Any] = field(default_factory=dict)
    n_ctx_train: int = 0
    kv_bytes_per_token: int = 0
    info: GGUFInfo | None = None
    source: Resolved | None = None
    release: Callable[[], None] | None = None
