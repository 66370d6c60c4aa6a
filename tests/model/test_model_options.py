"""Every load option does what it does in plain llama_cpp, to the bit, or has the effect that it names."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import random_models
from raw_llama import raw

import llama_magic as lm

PROMPT = "the red one and a blue two " * 5
GREEDY: dict[str, Any] = {"max_tokens": 10, "seed": 1, "temperature": 0, "ignore_eos": True, "logprobs": 1}
YARN = {"rope_scaling": "yarn", "rope_freq_scale": 0.25, "yarn_orig_ctx": 128}
RAW_YARN = {"rope_scaling_type": 2, "rope_freq_scale": 0.25, "yarn_orig_ctx": 128}

# options of `load`, the fields of llama_context_params that are the same, whether the answer is another
SAME: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({"ctx": 1024}, {"n_ctx": 1024}, False),
    ({"threads": 2}, {"n_threads": 2, "n_threads_batch": 2}, False),
    ({"kv_type": "f16"}, {"type_k": 1, "type_v": 1}, False),
    ({"kv_type": "q8_0"}, {"type_k": 8, "type_v": 8}, True),
    ({"kv_type": "q4_0"}, {"type_k": 2, "type_v": 2}, True),
    ({"flash_attn": "on"}, {"flash_attn_type": 1}, False),
    ({"flash_attn": "off"}, {"flash_attn_type": 0}, True),
    ({"rope_freq_base": 500.0}, {"rope_freq_base": 500.0}, True),
    ({"rope_freq_scale": 0.5}, {"rope_freq_scale": 0.5}, True),
    # "none" puts the scale out of force
    ({"rope_scaling": "none", "rope_freq_scale": 0.5}, {"rope_scaling_type": 0}, False),
    (
        {"rope_scaling": "linear", "rope_freq_scale": 0.5},
        {"rope_scaling_type": 1, "rope_freq_scale": 0.5},
        True,
    ),
    (YARN, RAW_YARN, True),
    ({**YARN, "yarn_ext_factor": 0.3}, {**RAW_YARN, "yarn_ext_factor": 0.3}, True),
    ({**YARN, "yarn_attn_factor": 1.7}, {**RAW_YARN, "yarn_attn_factor": 1.7}, True),
    ({**YARN, "yarn_beta_fast": 4.0}, {**RAW_YARN, "yarn_beta_fast": 4.0}, True),
    ({**YARN, "yarn_beta_slow": 8.0}, {**RAW_YARN, "yarn_beta_slow": 8.0}, True),
    ({**YARN, "yarn_orig_ctx": 1000}, {**RAW_YARN, "yarn_orig_ctx": 1000}, True),
    ({"mmap": False}, {}, False),
    ({"mmap": True}, {}, False),
    ({"gpu_layers": 0}, {}, False),
]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model with RoPE."""
    return random_models.build(tmp_path_factory.mktemp("options"), ["llama"])["llama"]


@pytest.fixture
def load(path: Path) -> Iterator[Callable[..., Any]]:
    """Load it for one test."""
    kept: list[Any] = []

    def load(**options: Any) -> Any:
        kept.append(lm.load(path, **{"ctx": 512, "threads": 1, **options}))
        return kept[-1]

    yield load
    for model in kept:
        model.close()


def _answer(model: Any) -> tuple[list[int], list[float]]:
    answer = model.complete(PROMPT, **GREEDY)
    return list(answer.token_ids), [entry.logprob for entry in answer.logprobs]


def _reference(path: Path, **changes: Any) -> tuple[list[int], list[float]]:
    with raw(path, **changes) as plain:
        return plain.greedy(plain.tokens(PROMPT), 10)


@pytest.fixture(scope="module")
def plain(path: Path) -> tuple[list[int], list[float]]:
    """The answer of plain llama_cpp with nothing set."""
    return _reference(path)


@pytest.mark.parametrize(
    ("options", "changes", "another"), SAME, ids=[" ".join(map(str, o.items())) for o, _, _ in SAME]
)
def test_a_load_option_is_that_of_llama_cpp(
    load: Callable[..., Any], path: Path, plain: Any, options: Any, changes: Any, another: bool
) -> None:
    """Tokens and log-probabilities are those of llama_cpp with the same field, others where it matters."""
    ours = _answer(load(**options))
    assert ours == _reference(path, **{"n_ctx": 512, **changes})
    assert (ours != plain) == another


def test_options_of_memory_have_their_effect(load: Callable[..., Any]) -> None:
    """`mmap` maps, `--no-mmap` reads; `mlock` answers the same; `batch` is the most read in one step."""
    mapped, read, locked = load(mmap=True), load(mmap=False), load(mlock=True)
    assert mapped.memory["actual_mapped"] > 0
    assert "actual_mapped" not in read.memory
    assert read.memory["actual_model"] == mapped.memory["actual_mapped"]
    assert locked.options["mlock"] is True
    assert _answer(locked) == _answer(mapped) == _answer(read)
    small = load(batch=32)
    context = small.backend.call(lambda core: core.lane(exact=False)).context
    sizes: list[int] = []
    decode = context.decode
    context.decode = lambda tokens, *rest: sizes.append(len(tokens)) or decode(tokens, *rest)
    small.complete(PROMPT, max_tokens=2, ignore_eos=True)
    assert max(sizes) == 32


def test_a_name_and_a_formatter_are_kept(load: Callable[..., Any], tmp_path: Path) -> None:
    """`name` is the model's name, `formatter` a file of Jinja or a name."""
    file = tmp_path / "x.jinja"
    file.write_text("{% for m in messages %}[{{ m.content }}]{% endfor %}")
    model = load(name="mine", formatter=str(file))
    assert model.name == "mine"
    assert model.prompt_for([{"role": "user", "content": "q"}]) == "[q]"


def test_sampling_as_one_object_is_its_keywords(load: Callable[..., Any]) -> None:
    """`sampling` draws what the same parameters draw as keywords; keywords beside it have precedence."""
    model, drawn = load(), {"max_tokens": 12, "ignore_eos": True, "seed": 3}
    recipe = lm.Sampling(temperature=3.0, top_k=50)
    one = model.complete(PROMPT, sampling=recipe, **drawn)
    assert one.token_ids == model.complete(PROMPT, temperature=3.0, top_k=50, **drawn).token_ids
    assert one.token_ids != model.complete(PROMPT, temperature=3.0, top_k=2, **drawn).token_ids
    both = model.complete(PROMPT, sampling=recipe, temperature=0, **drawn)
    assert both.token_ids == model.complete(PROMPT, temperature=0, **drawn).token_ids
