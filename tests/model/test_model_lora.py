"""LoRA adapters: what they change is what they change in plain llama_cpp, bit for bit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import random_models
from gguf_build import tiny_llama
from raw_llama import raw

import llama_magic as lm
from llama_magic.loading.options import LoadOptions

PROMPT = "the red one and a blue two " * 5
GREEDY: dict[str, Any] = {"max_tokens": 12, "seed": 1, "temperature": 0, "ignore_eos": True, "logprobs": 1}


@pytest.fixture(scope="module", params=["llama", "lfm2", "phi3"])
def base(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model: plain attention, a hybrid, and one with a fused tensor."""
    return random_models.build(tmp_path_factory.mktemp("lora"), [request.param])[request.param]


@pytest.fixture
def load(base: Path) -> Iterator[Callable[..., Any]]:
    """Load the base with adapters for one test."""
    kept: list[Any] = []

    def load(lora: Any = None, **options: Any) -> Any:
        kept.append(lm.load(base, **{"ctx": 512, "threads": 1, "lora": lora, **options}))
        return kept[-1]

    yield load
    for model in kept:
        model.close()


def _answer(model: Any) -> tuple[list[int], list[float]]:
    answer = model.complete(PROMPT, **GREEDY)
    return list(answer.token_ids), [entry.logprob for entry in answer.logprobs]


def _reference(base: Path, *adapters: tuple[Path, float]) -> tuple[list[int], list[float]]:
    with raw(base, adapters=adapters) as plain:
        return plain.greedy(plain.tokens(PROMPT), 12)


def test_an_adapter_changes_what_it_changes_in_llama_cpp(
    load: Callable[..., Any], base: Path, tmp_path: Path
) -> None:
    """At scales 1, -0.5 and 0, alone and two in both orders, tokens and log-probabilities are the same bits;
    scale 0 is none.
    """
    a = random_models.write_adapter(tmp_path / "a.gguf", base, seed=1)
    b = random_models.write_adapter(tmp_path / "b.gguf", base, seed=2)
    seen = {}
    for lora, adapters in {
        None: (),
        f"{a}": ((a, 1.0),),
        f"{a}:-0.5": ((a, -0.5),),
        f"{a}:0": ((a, 0.0),),
    }.items():
        seen[lora] = _answer(load(lora))
        assert seen[lora] == _reference(base, *adapters)
    assert seen[f"{a}:0"] == seen[None]
    assert len({str(answer) for answer in seen.values()}) == 3
    for adapters in (((a, 1.0), (b, 0.5)), ((b, 0.5), (a, 1.0))):
        both = _answer(load(list(adapters)))
        assert both == _reference(base, *adapters)
        assert both not in seen.values()


def test_samples_and_seeds_hold_with_an_adapter(load: Callable[..., Any], base: Path, tmp_path: Path) -> None:
    """Samples, reuse and a model without the adapter beside it: each answers as alone."""
    a = random_models.write_adapter(tmp_path / "a.gguf", base, seed=1)
    adapted, plain = load(f"{a}"), load()
    assert adapted is not plain
    expected = _answer(adapted), _answer(plain)
    assert expected[0] != expected[1]
    first, again = (adapted.complete(PROMPT, n=3, seed=4, max_tokens=8, ignore_eos=True) for _ in "ab")
    assert [r.token_ids for r in first] == [r.token_ids for r in again]
    assert (_answer(adapted), _answer(plain)) == expected


def test_a_pair_is_one_adapter_and_its_scale(tmp_path: Path) -> None:
    """A path and a number, which a refusal proposes, are taken alone as in a list; two paths are two."""
    a, b = (str(tiny_llama().write(tmp_path / name)) for name in ("a.gguf", "b.gguf"))

    def read(lora: Any) -> list[tuple[str, float]]:
        return [(str(found.path), found.scale) for found in LoadOptions.read({"lora": lora}).lora]

    assert read((a, 0.5)) == read([(a, 0.5)]) == read(f"{a}:0.5") == [(a, 0.5)]
    assert read((a, b)) == [(a, 1.0), (b, 1.0)]
    with pytest.raises(lm.InputTypeError, match=r"\(path, scale\), or a list of these"):
        read(0.5)


def test_a_replaced_file_is_another_adapter(load: Callable[..., Any], base: Path, tmp_path: Path) -> None:
    """An adapter written anew under its name is read anew; the old one, still in use, goes on."""
    path = random_models.write_adapter(tmp_path / "a.gguf", base, seed=1)
    old = load(f"{path}")
    before = _answer(old)
    assert load(f"{path}") is old
    saved = old.kv_save(tmp_path / "old.kv")
    other = random_models.write_adapter(tmp_path / "new.gguf", base, seed=2)
    os.replace(other, path)
    new = load(f"{path}")
    assert new is not old
    assert _answer(new) == _reference(base, (path, 1.0)) != before
    assert _answer(old) == before
    with pytest.raises(lm.SourceError, match="adapters"):  # another adapter's cells
        new.kv_restore(saved)


def test_embeddings_follow_the_adapter(load: Callable[..., Any], base: Path, tmp_path: Path) -> None:
    """The vectors of a model with an adapter are others than those without; at scale 0 they are the same."""
    a = random_models.write_adapter(tmp_path / "a.gguf", base, seed=1)
    plain, nothing, adapted = (load(lora).embed([PROMPT]) for lora in (None, f"{a}:0", f"{a}"))
    assert (plain == nothing).all()
    assert abs(plain - adapted).max() > 1e-3


@pytest.mark.parametrize(
    "scale", ["nan", "inf", "-inf", "1e39", float("nan"), float("inf"), 1e39, "x", None, True]
)
def test_scales_that_are_no_numbers_are_refused(
    load: Callable[..., Any], base: Path, tmp_path: Path, scale: Any
) -> None:
    """NaN and infinite scales, in the text form and as a pair, and what is no number at all."""
    a = random_models.write_adapter(tmp_path / "a.gguf", base, seed=1)
    given = f"{a}:{scale}" if isinstance(scale, str) else (a, scale)
    with pytest.raises((lm.OptionError, lm.InputTypeError, lm.SourceError), match=r"lora|LoRA"):
        load([given])


def test_wrong_adapters_are_refused_by_name(load: Callable[..., Any], base: Path, tmp_path: Path) -> None:
    """An adapter of another architecture or width, the base model itself, one named twice."""
    good = random_models.write_adapter(tmp_path / "good.gguf", base)
    foreign = random_models.write_adapter(tmp_path / "foreign.gguf", base, arch="bloom")
    with pytest.raises(lm.InvalidGGUFError, match="'bloom'"):
        load(f"{foreign}")
    with pytest.raises(lm.InvalidGGUFError, match=r"not a LoRA adapter: general\.type"):
        load(f"{base}")
    with pytest.raises(lm.OptionError, match=r"good\.gguf more than once"):
        load([f"{good}", f"{good}:0.5"])
    cut = tmp_path / "cut.gguf"
    cut.write_bytes(good.read_bytes()[:-100])
    with pytest.raises(lm.InvalidGGUFError, match=r"cut\.gguf"):
        load(f"{cut}")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("a.gguf", "There is no file .*/a.gguf.\nCheck it; relative paths start at the working folder"),
        ("folder", "is a directory, not a file.\nName one of its files: b.gguf"),
        ("https://127.0.0.1:1/a.gguf", "is no file on this machine.\nDownload the adapter"),
        ("owner/repo", "is no file on this machine.\nDownload the adapter"),
        ("", "The path is empty"),
    ],
)
def test_what_is_no_adapter_is_named_as_what_is_no_model(
    given: str, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A missing file, a folder, an address and a repository; of an address no slash is lost."""
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "b.gguf").touch()
    monkeypatch.chdir(tmp_path)
    with pytest.raises(lm.errors.LlamaMagicError, match=said) as caught:
        LoadOptions.read({"lora": given})
    assert given in str(caught.value)
