"""Small random models of a dozen kinds: the whole promise on each, against plain llama_cpp."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import promise
import pytest
import random_models
from raw_llama import raw

import llama_magic as lm

HYBRIDS = ["lfm2", "falcon-h1", "jamba", "nemotron_h", "granitehybrid", "qwen35", "qwen3next"]
EMBEDDERS = ["bert", "nomic-bert", "gemma-embedding"]
OTHERS = ["llama", "qwen3moe", "gemma3", "deepseek2", "gpt2", "mamba2"]
PROMPT = "abcdefgh " * 27
FREE: dict[str, Any] = {"max_tokens": 12, "ignore_eos": True}
GREEDY: dict[str, Any] = {"seed": 1, "temperature": 0, "ignore_eos": True}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """All models of this module, built once."""
    return random_models.build(tmp_path_factory.mktemp("architectures"), [*HYBRIDS, *OTHERS, *EMBEDDERS])


@pytest.fixture(scope="module")
def load(files: dict[str, Path]) -> Iterator[Callable[..., Any]]:
    """Load a random model by name; the same options give the same model until the last test."""
    kept: list[Any] = []

    def load(name: str, **options: Any) -> Any:
        kept.append(lm.load(files[name], **{"ctx": 512, "threads": 1, **options}))
        return kept[-1]

    yield load
    for model in kept:
        model.close()


def test_the_table_of_shapes_is_up_to_date() -> None:
    """No model is asked of llama.cpp anew; else `python tests/random_shapes.py` writes the table."""
    rows = json.loads(random_models.SHAPES.read_text("utf-8"))
    assert {name: row["key"] for name, row in rows.items()} == {
        name: random_models.key(name) for name in rows
    }
    assert {*HYBRIDS, *OTHERS, *EMBEDDERS} <= rows.keys()


def _lane(model: Any) -> Any:
    return model.backend.call(lambda core: core.lane(exact=False))


def _count_decoded(model: Any, patch: pytest.MonkeyPatch) -> list[int]:
    """Note the size of every batch of the lane for unseeded requests from now on."""
    sizes: list[int] = []
    context = _lane(model).context
    decode = context.decode

    def counted(tokens: Any, *rest: Any) -> Any:
        sizes.append(len(tokens))
        return decode(tokens, *rest)

    patch.setattr(context, "decode", counted, raising=False)
    return sizes


def _same_but_for_bits(one: Any, other: Any) -> bool:
    """Whether answers at temperature 0 are equal up to where two tokens are as likely as each other.

    Batches of other sizes change the last bits: by 0.0002 to 0.01 of a log-probability here.
    """
    for mine, theirs in zip(one.logprobs, other.logprobs, strict=True):
        if abs(mine.logprob - theirs.logprob) > 0.02:
            return False
        if mine.token_id != theirs.token_id:
            return mine.token_id in {
                token for token, _, logprob in theirs.top if theirs.logprob - logprob < 0.05
            }
    return True


@pytest.mark.parametrize("name", [*HYBRIDS, "mamba2", "llama"])
@pytest.mark.parametrize("options", [{}, {"reuse": False}], ids=["reuse", "fresh"])
def test_unseeded_samples_end_and_read_each_prompt_once(
    load: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, name: str, options: Any
) -> None:
    """Five samples that share no prompt end though their cells do not fit at once, beside other calls;
    nothing is read twice.
    """
    model = load(name)
    how = {"temperature": 0, "logprobs": 3, **FREE}
    alone = model.complete(PROMPT, **how)
    sizes = _count_decoded(model, monkeypatch)
    with ThreadPoolExecutor(4) as pool:
        others = [pool.submit(model.complete, "z" * n, max_tokens=3, ignore_eos=True) for n in (1, 2, 3)]
        samples = pool.submit(model.complete, PROMPT, n=5, **how, **options).result(60)
        beside = sum(len(f.result(60).prompt_token_ids) + 2 for f in others)
    assert len(samples) == 5
    assert all(len(sample.token_ids) == 12 for sample in samples)
    assert all(_same_but_for_bits(sample, alone) for sample in samples)
    shares = name == "llama" and not options
    prompts = 5 * len(alone.prompt_token_ids) if not shares else len(alone.prompt_token_ids)
    assert sum(sizes) <= prompts + 5 * 12 + beside


def test_a_sample_sent_back_waits_until_another_ends(
    load: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where cells run out though all was counted, the lane goes on with fewer, one after the other."""
    model = load("lfm2")
    # count wrongly on purpose: five prompts of 218 in 512 cells
    monkeypatch.setattr(_lane(model), "fits", lambda _running: True)
    with ThreadPoolExecutor(1) as pool:
        samples = pool.submit(model.complete, PROMPT, n=5, temperature=0, **FREE).result(60)
    assert [len(sample.token_ids) for sample in samples] == [12] * 5


TEXTS = ["hello world", "one two three four five", "the red one and a blue two " * 9, "z"]


@pytest.mark.parametrize("name", [*HYBRIDS, *OTHERS, *EMBEDDERS])
def test_memory_is_foretold_within_a_tenth(load: Callable[..., Any], name: str) -> None:
    """What llama.cpp allocates for weights, cells, states, buffers is what was foretold, within 10 %."""
    promise.memory(load(name))


@pytest.mark.parametrize("name", EMBEDDERS)
def test_embedding_models_embed_as_llama_cpp_does(
    load: Callable[..., Any], files: dict[str, Path], name: str
) -> None:
    """They load; each vector has cosine 1 to that of plain llama_cpp, whatever was embedded before."""
    model = load(name)
    ours = model.embed(TEXTS)
    assert ours.dtype == np.float32
    changes = {"embeddings": True, "n_batch": 512, "n_ubatch": 512, "n_outputs_max": 512}
    with raw(files[name], **changes) as plain:
        for row, text in zip(ours, TEXTS, strict=True):
            assert float(row @ plain.embed(plain.tokens(text))) == pytest.approx(1, abs=1e-5)
    assert abs(ours @ ours.T - np.eye(len(TEXTS))).max() > 0.01
    assert (model.embed(TEXTS[::-1])[::-1] == ours).all()


@pytest.mark.parametrize("name", EMBEDDERS)
@pytest.mark.parametrize(
    "ask",
    [
        lambda m: m.complete("a", max_tokens=2),
        lambda m: m.complete("a", max_tokens=2, seed=1),
        lambda m: m.chat([{"role": "user", "content": "a"}]),
        lambda m: m.structured("a", {"type": "integer"}),
        lambda m: m.read("a b c"),
        lambda m: m.xray("a"),
    ],
    ids=["complete", "seeded", "chat", "structured", "read", "xray"],
)
def test_embedding_models_refuse_to_write(
    load: Callable[..., Any], name: str, ask: Callable[[Any], Any]
) -> None:
    """Whatever would need logits is refused in one sentence, and they go on embedding."""
    model = load(name)
    with pytest.raises(lm.OptionError, match="is an embedding model"):
        ask(model)
    assert model.embed(["a"]).shape == (1, random_models.WIDTH)
    assert model.kv is not None


def test_a_window_beyond_the_positions_of_a_model_is_refused(load: Callable[..., Any]) -> None:
    """GPT-2 has an embedding for each of 512 positions: more is refused at load, up to them it writes."""
    with pytest.raises(lm.OptionError, match=r"512 positions.*no RoPE"):
        load("gpt2", ctx=1024)
    for options in ({}, {"profile": "quality"}, {"ctx": 0}, {"profile": "batch"}):
        assert load("gpt2", **{"ctx": None, **options}).window == 512
    model = load("gpt2")
    ids = model.tokenize("a" * 505)
    answer = model.complete("a" * (505 - len(ids) + 505), max_tokens=512 - 505, **GREEDY)
    assert len(answer.prompt_token_ids) + len(answer.token_ids) == 512
    with pytest.raises(lm.ContextOverflowError):
        model.complete("a" * 600, max_tokens=1)


def test_few_positions_are_enough(tmp_path: Path, files: dict[str, Path]) -> None:
    """A GPT-2 of 64 positions, fewer than llama.cpp's smallest cache, loads with a window of 64."""
    reader = gguf.GGUFReader(files["gpt2"])
    shapes = {t.name: [int(n) for n in t.shape] for t in reader.tensors}
    shapes["position_embd.weight"][1] = 64
    path = tmp_path / "short.gguf"
    random_models.write(path, "gpt2", shapes, context_length=64)
    with lm.load(path, threads=1) as model:
        assert model.window == 64
        answer = model.complete("a b", max_tokens=50, **GREEDY)
        assert len(answer.token_ids) == 50
        with pytest.raises(lm.ContextOverflowError):
            model.complete("a b", max_tokens=64)


@pytest.mark.parametrize("profile", ["fast", "balanced", "quality", "memory", "batch"])
@pytest.mark.parametrize("ctx", [256, 512])
def test_each_profile_has_the_window_that_was_asked_for(
    load: Callable[..., Any], profile: str, ctx: int
) -> None:
    """The window is `ctx`, for one prompt and in every profile; `batch` has cells for 16 of them beside."""
    model = load("llama", ctx=ctx, profile=profile)
    assert model.window == model.options["window"] == ctx
    cells = _lane(model).cells
    assert cells == (16 * ctx if profile == "batch" else ctx)
    with pytest.raises(lm.ContextOverflowError):
        model.complete("a" * (ctx + 10), max_tokens=1)


def test_an_edited_template_is_another_formatter(load: Callable[..., Any], tmp_path: Path) -> None:
    """A template file written anew is read anew, by its content; `auto` and nothing said are one model."""
    file = tmp_path / "x.jinja"
    file.write_text("{% for m in messages %}AA {{ m.content }}{% endfor %}")
    facts = file.stat()
    old = load("llama", formatter=str(file))
    assert load("llama", formatter=file) is old  # a Path, too
    file.write_text("{% for m in messages %}BB {{ m.content }}{% endfor %}")
    os.utime(file, ns=(facts.st_atime_ns, facts.st_mtime_ns))  # as rsync -t leaves it
    new = load("llama", formatter=str(file))
    question = [{"role": "user", "content": "q"}]
    assert (old.prompt_for(question), new.prompt_for(question)) == ("AA q", "BB q")
    with pytest.raises(lm.OptionError, match="formatter is empty"):
        load("llama", formatter="")
    assert load("llama") is load("llama", formatter="auto")


def test_values_without_sense_are_named(load: Callable[..., Any]) -> None:
    """More threads than cores or a batch beyond the cache leave a note; a temperature below 0 is refused."""
    notes = " ".join(load("llama", threads=200, batch=10**9).notes)
    assert "200 threads on" in notes
    assert "A batch of 1,000,000,000 tokens is more than the 512" in notes
    with pytest.raises(lm.OptionError, match="temperature"):
        load("llama").complete("a", temperature=-1)


def test_a_sequence_is_not_taken_back_under_other_weights(load: Callable[..., Any], tmp_path: Path) -> None:
    """Cells written with repacked weights are refused by name where the weights are not repacked."""
    balanced, quality = load("llama"), load("llama", profile="quality")
    balanced.complete(PROMPT, max_tokens=2, seed=1)
    saved = balanced.kv_save(tmp_path / "x.kv")
    balanced.kv_restore(saved)
    with pytest.raises(lm.SourceError, match="repacked_weights"):
        quality.kv_restore(saved)


@pytest.mark.parametrize("what", promise.PARTS, ids=lambda part: part.__name__)
@pytest.mark.parametrize("name", ["qwen3moe", "gemma3", "deepseek2", "qwen35", "mamba2"])
def test_the_whole_promise(
    load: Callable[..., Any], files: dict[str, Path], name: str, what: Callable[[Any, Path], None]
) -> None:
    """Experts, sliding windows, latent attention, a hybrid, a recurrent model: each part holds on each."""
    what(load(name), files[name])
