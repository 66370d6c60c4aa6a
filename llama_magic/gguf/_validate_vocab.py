"""Checks of the tokenizer: stored types, lengths, and what would abort while text is read.

Each stands for a throw, an assertion or an uncaught exception in `llama-vocab.cpp`.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import NoReturn

import numpy as np

from llama_magic.gguf import _archs
from llama_magic.gguf._arrays import LazyArray
from llama_magic.gguf._info import GGUFInfo
from llama_magic.gguf._judge import check_types, fail
from llama_magic.words.names import nearest

_BYTE = 6  # llama.h, LLAMA_TOKEN_TYPE_BYTE
_U32 = ("u32",)
_BOOL = ("bool",)
_IDS = (
    "bos", "eos", "eot", "eom", "unknown", "seperator", "padding", "mask", "fim_pre", "fim_suf", "fim_mid",
    "fim_pad", "fim_rep", "fim_sep", "prefix", "suffix", "middle",
)  # fmt: skip
_TYPES: dict[str, tuple[str, ...]] = {
    "model": ("str",), "pre": ("str",), "token_type_count": _U32, "tokens": ("arr[str]",),
    "scores": ("arr[f32]", "arr[i32]"), "token_type": ("arr[i32]",), "add_space_prefix": _BOOL,
    "remove_extra_whitespaces": _BOOL, "add_bos_token": _BOOL, "add_eos_token": _BOOL, "add_sep_token": _BOOL,
    "suppress_tokens": ("arr[i32]",), "precompiled_charsmap": ("arr[i8]", "arr[u8]"),
    **{f"{name}_token_id": _U32 for name in _IDS},
}  # fmt: skip
_BPE = frozenset({"gpt2", "hybriddna", "whitespace", "gemma4"})
NO_VOCAB = frozenset({"none", "no_vocab"})
# pre-tokenizers that add BOS unless told otherwise, and the one family that has no BOS by default
_PRE_ADDS_BOS = frozenset({
    "llama3", "llama-v3", "llama-bpe", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2", "jina-v5-nano",
    "tekken", "chameleon",
})  # fmt: skip
_PRE_NO_BOS = frozenset({"chatglm-bpe", "glm4", "glm5"})
_DEFAULT_BOS = {"llama": 1, "bert": 101, "plamo2": 1, "gpt2": 11, "hybriddna": 11, "whitespace": 11}
_DEFAULT_EOS = {"llama": 2, "t5": 1, "plamo2": 2, "gpt2": 11, "hybriddna": 11, "whitespace": 11}
# bytes that occur in UTF-8 text; a SentencePiece vocabulary must have a token for each
_UTF8_BYTES = [b for b in range(0xF5) if b not in (0xC0, 0xC1)]
MAX_TOKEN = 4096  # bytes; the longest pieces in use are runs of spaces or dashes, below 1,100
_NORMAL = 1  # llama.h, LLAMA_TOKEN_TYPE_NORMAL
_UGM = ("t5", "t5encoder", "bert", "nomic-bert-moe", "jina-bert-v3")  # that use the 't5' tokenizer
_T = "tokenizer.ggml."


def check_vocab(info: GGUFInfo, newer_backend: bool) -> None:
    """Check the tokenizer; raises `InvalidGGUFError`."""
    check_types(info, _TYPES, _T)
    model = info.tokenizer_model
    if not model:
        fail(info, f"{_T}model is missing: the file has no tokenizer.", f"{_T}model")
    if model not in _archs.TOKENIZERS and not newer_backend:
        near = nearest(model, _archs.TOKENIZERS)
        hint = f" Did they mean {near[0]!r}?" if near else f" Known: {', '.join(_archs.TOKENIZERS)}."
        fail(info, f"{_T}model is {model[:60]!r}, which llama.cpp does not know.{hint}", f"{_T}model")
    if model in NO_VOCAB:
        return
    tokens = info.tokens
    if tokens is None or not len(tokens):
        fail(info, f"{_T}tokens is missing or empty: the file has no vocabulary.", f"{_T}tokens")
    for name in ("scores", "token_type"):
        array = info.metadata.get(_T + name)
        if isinstance(array, LazyArray) and len(array) < len(tokens):
            message = f"{_T}{name} has {len(array):,} elements, and there are {len(tokens):,} tokens."
            fail(info, message, _T + name)
        if isinstance(array, LazyArray) and array.type == "f32" and np.isnan(array.to_numpy()).any():
            fail(info, f"{_T}{name} holds NaN; pieces cannot be ordered by it.", _T + name)
    if model in _BPE:
        _check_bpe(info, newer_backend)
    texts = _texts(tokens)
    known = set(texts)
    if len(known) < len(texts):
        _fail_duplicates(info, texts)
    _check_marked_bytes(info, model, texts)
    _check_all_bytes(info, model, known)
    if model == "rwkv":
        _check_rwkv(info, texts)
    _check_added(info, model, len(tokens))
    _check_charsmap(info)
    _check_size(info, tokens)
    _check_lengths(info, model, tokens)


def _texts(tokens: LazyArray) -> list[bytes]:
    """Return the texts as llama.cpp sees them: cut at a NUL byte, empty ones named by their number."""
    found = tokens.all_bytes()
    if tokens.lengths().all() and b"\0" not in b"".join(found):
        return found
    return [
        (raw if b"\0" not in raw else raw.split(b"\0", 1)[0]) or b"[EMPTY_%d]" % i
        for i, raw in enumerate(found)
    ]


def _check_bpe(info: GGUFInfo, newer_backend: bool) -> None:
    key = f"{_T}merges"
    found = info.value_types.get(key)
    if found is None and info.pre_tokenizer != "kimi-k2":
        fail(info, f"{key} is missing; a {info.tokenizer_model!r} tokenizer needs its merges.", key)
    if found is not None and found != "arr[str]":
        fail(info, f"{key} is stored as {found}; expected arr[str].", key)
    pre = info.pre_tokenizer
    if pre and pre not in ("default", *_archs.pre_tokenizers()) and not newer_backend:
        near = nearest(pre, _archs.pre_tokenizers())
        hint = f" The nearest known one is {near[0]!r}." if near else ""
        fail(
            info,
            f"{_T}pre is {pre[:60]!r}, a pre-tokenizer that this llama.cpp does not know.{hint}",
            f"{_T}pre",
            "Update llama-cpp-python if the model is newer than it.",
        )


def _fail_duplicates(info: GGUFInfo, texts: list[bytes]) -> NoReturn:
    text, count = Counter(texts).most_common(1)[0]
    first = texts.index(text)
    second = texts.index(text, first + 1)
    extra = len(texts) - len(set(texts))
    fail(
        info,
        f"{_T}tokens holds the token {text[:40].decode('utf-8', 'replace')!r} {count} times (ids {first} and "
        f"{second}), {extra:,} duplicates in all; llama.cpp aborts on duplicate tokens.",
        f"{_T}tokens",
        "The file is known to be bad in this way for some official models: get a corrected file.",
    )


def _check_marked_bytes(info: GGUFInfo, model: str, texts: list[bytes]) -> None:
    types = info.token_types
    if types is None or model not in ("llama", "t5", "bert", *_BPE):
        return
    for token in (types.to_numpy()[: len(texts)] == _BYTE).nonzero()[0].tolist():
        said = f"Token {token} ({texts[token][:20]!r}) is marked as a byte in {_T}token_type"
        if model == "bert":
            fail(info, f"{said}; a vocabulary of WordPiece ({_T}model bert) has no bytes.", f"{_T}token_type")
        if len(texts[token]) < 3:
            fail(info, f"{said}; the text of such a token is like <0x0A>.", f"{_T}token_type")


def _check_all_bytes(info: GGUFInfo, model: str, known: set[bytes]) -> None:
    """Check that every byte of a text has a token: these tokenizers fall back to bytes, unguarded."""
    if model == "llama":
        missing = [b for b in _UTF8_BYTES if b"<0x%02X>" % b not in known and bytes([b]) not in known]
    elif model == "plamo2":
        missing = [b for b in range(256) if b"<0x%02X>" % b not in known]
    else:
        return
    if missing:
        fail(
            info,
            f"{_T}tokens has no token for {len(missing)} of the bytes that text is made of (the first is "
            f"<0x{missing[0]:02X}>); llama.cpp aborts when it meets one.",
            f"{_T}tokens",
        )


def _check_rwkv(info: GGUFInfo, texts: list[bytes]) -> None:
    """Check that each byte that begins a token is a token: where none matches, this tokenizer never ends."""
    written = [_unescape(text) for text in texts]
    single = {text for text in written if len(text) == 1}
    stuck = sorted({text[:1] for text in written if text} - single)
    if stuck:
        fail(
            info,
            f"{_T}tokens has no token for {len(stuck)} of the bytes that its tokens begin with (the first is "
            f"<0x{stuck[0][0]:02X}>); an 'rwkv' tokenizer goes on for ever when it meets one.",
            f"{_T}tokens",
        )


def _unescape(text: bytes) -> bytes:
    """Return a token of an RWKV vocabulary as bytes (llama.cpp: `llama_unescape_rwkv_token`)."""
    named = {b"t": b"\t", b"n": b"\n", b"r": b"\r"}
    return re.sub(
        rb"\\(x([0-9a-f]{2})|.)",
        lambda m: bytes([int(m[2], 16)]) if m[2] else named.get(m[1], m[1]),
        text,
        flags=re.DOTALL,
    )


def _check_added(info: GGUFInfo, model: str, n: int) -> None:
    """Check that a BOS or EOS that is to be added exists: llama.cpp aborts where it does not."""
    pre = info.pre_tokenizer
    adds_bos = model in ("llama", "bert") or (model in _BPE and (pre in _PRE_ADDS_BOS or model == "gemma4"))
    for what, adds, default in (
        ("bos", info.add_bos if info.add_bos is not None else adds_bos, _DEFAULT_BOS.get(model)),
        ("eos", info.add_eos if info.add_eos is not None else model == "t5", _DEFAULT_EOS.get(model)),
    ):
        if what == "bos" and model in _BPE and pre in _PRE_NO_BOS:
            default = None
        key = f"{_T}{what}_token_id"
        given = info.metadata.get(key)
        has_default = default is not None and default < n
        # Of byte pairs the default is a number of GPT-2's time, whatever token that is here.
        usable = given < n or (has_default and model not in _BPE) if isinstance(given, int) else has_default
        if adds and not usable and model not in ("rwkv", "test", "plamo2"):
            shown = f"is {given:,}, outside the {n:,} tokens" if isinstance(given, int) else "is missing"
            does = f"adds token {default} in its place" if has_default else "aborts on that"
            message = f"Texts are to get {what.upper()} added, and {key} {shown}; llama.cpp {does}."
            fail(info, message, key)


def _check_charsmap(info: GGUFInfo) -> None:
    key = f"{_T}precompiled_charsmap"
    table = info.metadata.get(key)
    if info.tokenizer_model != "t5":
        return
    if table is None and info.architecture not in _UGM:
        fail(
            info,
            f"{_T}model is 't5', the tokenizer of T5 and XLM-RoBERTa, in a {info.architecture!r} model and "
            "without its precompiled_charsmap: texts would be split otherwise than in training.",
            f"{_T}model",
        )
    if not isinstance(table, LazyArray):
        return
    raw = table.to_numpy().tobytes()
    size = int.from_bytes(raw[:4], "little")
    if len(raw) < 4 or size + 4 >= len(raw):
        fail(info, f"{key} is {len(raw):,} bytes long and claims a table of {size:,}.", key)


def _check_size(info: GGUFInfo, tokens: LazyArray) -> None:
    """Check that a size given in the metadata is that of vocabulary and embedding, where these two agree."""
    key = f"{info.architecture}.vocab_size"
    size = info.metadata.get(key)
    table = info.tensors.get("token_embd.weight")
    if size is None or size == len(tokens) or table is None or table.shape[1:] != (len(tokens),):
        return
    fail(
        info,
        f"{key} is {size:,}; expected {len(tokens):,}, the number of tokens in {_T}tokens and of rows in "
        "token_embd.weight.",
        key,
    )


def _check_lengths(info: GGUFInfo, model: str, tokens: LazyArray) -> None:
    """Check that no text is absurdly long, nor empty where SentencePiece forbids it."""
    key = f"{_T}tokens"
    lengths = tokens.lengths()
    for name, array, most in (("tokens", tokens, MAX_TOKEN), ("merges", info.merges, 2 * MAX_TOKEN + 1)):
        sizes = lengths if array is tokens else array.lengths() if array is not None else lengths[:0]
        if len(sizes) and sizes.max() > most:
            at = int(sizes.argmax())
            fail(
                info,
                f"{_T}{name}[{at}] is a text of {int(sizes[at]):,} bytes; expected at most {most:,}.",
                f"{_T}{name}",
            )
    if model != "llama" or lengths.all():
        return
    types = info.token_types
    for token in (lengths == 0).nonzero()[0].tolist():
        if types is None or types.to_numpy()[token] == _NORMAL:
            fail(
                info,
                f"{key}[{token}] is a normal token without a text, which no SentencePiece model has.",
                key,
            )
