"""What a model's numbers mean: heads by layer, sliding windows, MLA, recurrent state.

The rules are llama.cpp's own (`llama_model_base::load_hparams` and `src/models/*.cpp`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

MAX_LAYERS = 512  # llama-hparams.h, LLAMA_MAX_LAYERS

# arch -> (period, dense layer first); of each `period` layers one sees the whole context
_SWA_PATTERN: dict[str, tuple[int, bool]] = {
    "afmoe": (4, False), "cohere2": (4, False), "cohere2moe": (4, True), "exaone-moe": (4, False),
    "exaone4": (4, False), "gemma-embedding": (6, False), "gemma2": (2, False), "gemma3": (6, False),
    "gemma3n": (5, False), "gpt-oss": (2, False), "laguna": (4, True), "llama4": (4, False),
    "mellum": (4, False), "modern-bert": (3, True), "muse-glimmer": (4, False), "olmo2": (4, False),
    "plamo3": (8, False), "smallthinker": (4, True), "gemma4": (6, False),
}  # fmt: skip
_SWA_DEFAULT = {"gemma2": 4096, "exaone4": 4096, "exaone-moe": 128, "smallthinker": 4096, "llama4": 8192}
RECURRENT = frozenset({"mamba", "mamba2", "rwkv6", "rwkv6qwen2", "rwkv7", "arwkv7"})
HYBRID = frozenset({
    "jamba", "falcon-h1", "plamo2", "granitehybrid", "lfm2", "lfm2moe", "nemotron_h", "nemotron_h_moe",
    "qwen3next", "kimi-linear", "bailingmoe3", "kimi-k3", "glm5-next", "qwen35", "qwen35moe", "qwen4exp",
    "deepseek4", "minimax-01",
})  # fmt: skip
EMBEDDERS = frozenset({  # read in both directions, whatever their files say
    "bert", "nomic-bert", "nomic-bert-moe", "jina-bert-v2", "jina-bert-v3", "neo-bert", "modern-bert",
    "eurobert", "gemma-embedding", "llama-embed",
})  # fmt: skip
_INTERVAL = frozenset({"qwen3next", "qwen35", "qwen35moe", "qwen4exp", "minimax-01"})


@dataclass(frozen=True)
class Layer:
    """One block's share of the memory: `k` and `v` are values a token puts into the KV cache."""

    heads: int
    heads_kv: int
    k: int
    v: int
    window: int = 0  # 0: sees the whole context
    recurrent: int = 0  # float32 values of state a sequence, whatever its length


class HParams:
    """The hyper-parameters of a header, read with care: what is absent or of a wrong type is 0 or None."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self._values = values
        arch = values.get("general.architecture")
        self.arch = arch if isinstance(arch, str) else ""
        self.block_count = self.whole("block_count")
        self.embedding = self.whole("embedding_length")
        self.context = self.whole("context_length")
        self.experts = self.whole("expert_count")
        self._layers: tuple[Layer, ...] | None = None

    def get(self, name: str) -> Any:
        """Return the value of `{architecture}.{name}`, or None."""
        return self._values.get(f"{self.arch}.{name}")

    def whole(self, name: str, default: int = 0) -> int:
        """Return a whole number; of an array its first element."""
        value = self.get(name)
        if value is not None and not isinstance(value, (str, bool, int, float)) and len(value):
            value = value[0]
        return value if isinstance(value, int) and not isinstance(value, bool) else default

    def real(self, name: str, default: float = 0.0) -> float:
        """Return a number; what is no number is `default`."""
        value = self.get(name)
        return float(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else default

    def per_layer(self, name: str) -> list[int]:
        """Return one whole number a block, from a scalar or an array; 0 where there is none."""
        value = self.get(name)
        n = min(max(self.block_count, 0), MAX_LAYERS)
        if value is not None and not isinstance(value, (str, bool, int, float)):
            found = [v if isinstance(v, int) else 0 for v in value[:n]]
            return found + [0] * (n - len(found))
        return [self.whole(name)] * n

    @property
    def heads(self) -> list[int]:
        return self.per_layer("attention.head_count")

    @property
    def heads_kv(self) -> list[int]:
        if self.get("attention.head_count_kv") is None:
            return self.heads
        return self.per_layer("attention.head_count_kv")

    @property
    def head_k(self) -> int:
        return self.whole("attention.key_length", self._head_size)

    @property
    def head_v(self) -> int:
        return self.whole("attention.value_length", self._head_size)

    @property
    def _head_size(self) -> int:
        heads = self.whole("attention.head_count")
        return self.embedding // heads if heads > 0 else 0

    @property
    def is_mla(self) -> bool:
        return self.whole("attention.key_length_mla") > 0 and self.whole("attention.value_length_mla") > 0

    @property
    def window(self) -> int:
        """Return the sliding window in tokens, 0 where the architecture uses none."""
        if self.arch == "phi3" or (self.arch not in _SWA_PATTERN and self.get(_PATTERN_KEY) is None):
            return 0
        if self.arch == "llama4":
            return 0 if self.get("attention.sliding_window") == 0 else _SWA_DEFAULT["llama4"]
        if self.arch == "exaone4" and self.block_count != 64:
            return 0
        return self.whole("attention.sliding_window", _SWA_DEFAULT.get(self.arch, 0))

    def sliding(self) -> list[bool]:
        """Return for each block whether it sees only the sliding window."""
        n = min(max(self.block_count, 0), MAX_LAYERS)
        if not self.window:
            return [False] * n
        found = self.get(_PATTERN_KEY)
        if found is not None and not isinstance(found, (str, bool, int, float)):
            flags = [bool(x) for x in found[:n]]
            return flags + [False] * (n - len(flags))
        period, dense_first = _SWA_PATTERN.get(self.arch, (1, False))
        if isinstance(found, int) and not isinstance(found, bool):
            period = found
        if period == 0:
            return [True] * n
        if dense_first:
            return [i % period != 0 for i in range(n)]
        return [i % period < period - 1 for i in range(n)]

    def layers(self) -> tuple[Layer, ...]:
        """Return the memory shape of each block."""
        if self._layers is None:  # a load asks dozens of times
            self._layers = tuple(self._each_layer())
        return self._layers

    def _each_layer(self) -> Iterator[Layer]:
        heads, heads_kv, sliding = self.heads, self.heads_kv, self.sliding()
        state = self._state_values()
        shared_from = len(heads) - self.whole("attention.shared_kv_layers")
        for i, (q, kv) in enumerate(zip(heads, heads_kv, strict=True)):
            recurrent = self._is_recurrent(i, kv)
            attends = (not recurrent or self.arch == "falcon-h1") and i < shared_from
            k, v = self._kv_values(kv, sliding[i]) if attends else (0, 0)
            window = self.window if sliding[i] else 0
            yield Layer(q, kv, k, v, window, state if recurrent else 0)

    def _kv_values(self, heads_kv: int, sliding: bool) -> tuple[int, int]:
        if self.is_mla:  # one shared latent head; V is a view of K
            return self.whole("attention.kv_lora_rank") + self.whole("rope.dimension_count"), 0
        k, v = self.head_k, self.head_v
        if sliding:
            k, v = self.whole("attention.key_length_swa", k), self.whole("attention.value_length_swa", v)
        return heads_kv * k, heads_kv * v

    def _is_recurrent(self, index: int, heads_kv: int) -> bool:
        if self.arch in RECURRENT or self.arch == "falcon-h1":
            return True
        if self.arch in _INTERVAL:
            return (index + 1) % max(1, self.whole("full_attention_interval", 4)) != 0
        if self.arch in ("nemotron_h", "nemotron_h_moe"):
            return heads_kv == 0 and self.per_layer("feed_forward_length")[index] == 0
        return self.arch in HYBRID and heads_kv == 0

    def _state_values(self) -> int:
        """Return the float32 values of recurrent state that one block keeps for one sequence."""
        if self.whole("wkv.head_size"):
            shifts = self.whole("token_shift_count", 2)
            return self.embedding * (shifts + self.whole("wkv.head_size"))
        if self.whole("shortconv.l_cache"):
            return self.embedding * (self.whole("shortconv.l_cache") - 1)
        if self.whole("kda.head_dim"):
            size, heads = self.whole("kda.head_dim"), self.whole("attention.head_count")
            return 3 * max(self.whole("ssm.conv_kernel", 4) - 1, 0) * heads * size + size * size * heads
        inner, state = self.whole("ssm.inner_size"), self.whole("ssm.state_size")
        conv = max(self.whole("ssm.conv_kernel") - 1, 0) * (inner + 2 * self.whole("ssm.group_count") * state)
        return conv + inner * state


_PATTERN_KEY = "attention.sliding_window_pattern"
