"""The most tokens a second: what is read for a token, over what this machine reads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from llama_magic.fit import Machine, bytes_per_token, speed
from llama_magic.fit import _speed as measuring
from llama_magic.gguf import GGUFInfo, inspect
from llama_magic.sources import cache_dir

sys.path.insert(0, str(Path(__file__).parents[1] / "gguf"))
from gguf_build import BLOCK, File, Tensor, tiny_llama

sys.path.pop(0)
MACHINE = Machine(2, 4, 1 << 34, 1 << 33)
TABLE = 64 * 260 * 4  # bytes of the embedding, and of the output matrix


def info_of(file: File, folder: Path) -> GGUFInfo:
    return inspect(file.write(folder / "model.gguf"))


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that reads 1 GB and adds 1 billion numbers a second."""
    monkeypatch.setattr(measuring, "rates", lambda threads: measuring.Rates(1e9, 1e9))


def test_of_the_embedding_one_row_is_read(tmp_path: Path) -> None:
    """An embedding of its own counts as a row; one that is the output matrix too counts whole."""
    untied = info_of(tiny_llama(), tmp_path)
    assert bytes_per_token(untied) == untied.tensor_bytes - TABLE + 64 * 4
    tied = info_of(tiny_llama().without_tensor("output.weight"), tmp_path)
    assert bytes_per_token(tied) == tied.tensor_bytes


def test_of_a_mixture_the_experts_that_are_used_are_read(tmp_path: Path) -> None:
    """Two of eight experts: a quarter of their weights."""
    experts = Tensor(f"{BLOCK}ffn_up_exps.weight", (64, 32, 8))
    file = tiny_llama().with_kv("llama.expert_count", "u32", 8).with_kv("llama.expert_used_count", "u32", 2)
    file.tensors.append(experts)
    info = info_of(file, tmp_path)
    whole = info.tensor_bytes - TABLE + 64 * 4
    assert bytes_per_token(info) == whole - experts.n_bytes * 3 // 4


def test_the_cache_counts_as_far_as_it_is_filled(tmp_path: Path) -> None:
    """A token more in the cache is its key and value more to read; q8_0 takes 34/64 of f16."""
    info = info_of(tiny_llama(), tmp_path)
    empty = bytes_per_token(info)
    assert bytes_per_token(info, filled=100) - empty == 100 * sum(info.kv_bytes_per_token())
    q8 = bytes_per_token(info, filled=100, kv_type="q8_0") - empty
    assert q8 * 64 == (bytes_per_token(info, filled=100) - empty) * 34


def test_the_slower_of_memory_and_arithmetic_sets_the_limit(tmp_path: Path, slow: None) -> None:
    """Seconds a token: bytes over bandwidth, or weights over what the cores multiply, and a bit a block."""
    info = info_of(tiny_llama(), tmp_path)
    found = speed(info, MACHINE)
    assert found is not None
    block = measuring.SECONDS_A_BLOCK
    assert 1 / found.tokens_per_second == pytest.approx(bytes_per_token(info) / 1e9 + block)
    assert found.limit == "memory bandwidth"
    assert str(found).startswith("at most about ")
    assert str(found).endswith(" tokens per second, from memory bandwidth")
    halved = speed(info, MACHINE, filled=10**6)
    assert halved is not None
    assert halved.tokens_per_second < found.tokens_per_second / 2


def test_few_threads_are_limited_by_arithmetic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where memory is quick, a second thread halves the time of the sums."""
    monkeypatch.setattr(measuring, "rates", lambda threads: measuring.Rates(1e15, 1e6))
    info = info_of(tiny_llama(), tmp_path)
    block = measuring.SECONDS_A_BLOCK
    one, two = (speed(info, MACHINE, threads=n) for n in (1, 2))
    assert one is not None
    assert two is not None
    assert (one.limit, one.threads) == ("arithmetic", 1)
    assert str(one).endswith("from the arithmetic of 1 thread")
    assert 1 / one.tokens_per_second - block == pytest.approx(2 * (1 / two.tokens_per_second - block))


@pytest.mark.parametrize(
    ("rate", "words"), [(187.3, "190"), (7.44, "7.4"), (0.3456, "0.35"), (12345, "12,000")]
)
def test_rates_are_said_to_two_digits(rate: float, words: str) -> None:
    """No more digits than the estimate deserves."""
    assert measuring.rounded(rate) == words


def test_a_machine_is_measured_once_a_start(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The figures lie in the cache folder; another start, or a damaged file, measures again."""
    monkeypatch.setenv("LLAMA_MAGIC_CACHE", str(tmp_path))
    calls: list[int] = []

    def count(threads: int) -> float:
        calls.append(threads)
        return 5e9

    monkeypatch.setattr(measuring, "bandwidth", count)
    monkeypatch.setattr(measuring, "sums", lambda: 2e9)
    fresh = measuring.rates.__wrapped__
    assert fresh(2) == fresh(2) == measuring.Rates(5e9, 2e9)
    fresh(1)
    assert calls == [2, 1]
    monkeypatch.setattr(measuring, "boot", lambda: "another")
    fresh(2)
    assert calls == [2, 1, 2]
    (cache_dir() / "speed.json").write_text('{"another 2": [0, "x"]}')
    fresh(2)
    assert calls == [2, 1, 2, 2]


def test_memory_is_written_in_small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """A load's Ctrl-C waited for 128 MB of new pages, up to 0.4 s: each call writes a small part of all."""
    monkeypatch.setattr(measuring, "BUFFER", 16 << 20)
    written: list[int] = []

    def note(_frame: Any, event: str, call: Any) -> None:
        if event == "c_call" and call.__name__ == "fill":
            written.append(call.__self__.nbytes)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        measuring.bandwidth(1)
    finally:
        sys.setprofile(before)
    assert sum(written) == 16 << 20
    assert max(written) <= 1 << 20


def test_what_is_measured_is_plausible(monkeypatch: pytest.MonkeyPatch) -> None:
    """This machine reads between 0.1 GB and 10 TB a second, and adds between 10 million and 1 trillion."""
    monkeypatch.setattr(measuring, "BUFFER", 16 << 20)
    assert 1e8 < measuring.bandwidth(2) < 1e13
    assert 1e7 < measuring.sums() < 1e12


def test_a_header_without_weights_has_no_speed(tmp_path: Path, slow: None) -> None:
    """Nothing is divided by nothing."""
    file: Any = tiny_llama()
    file.tensors = []
    assert speed(info_of(file, tmp_path), MACHINE) is None
