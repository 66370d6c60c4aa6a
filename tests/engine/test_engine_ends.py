"""Which tokens end an answer, where a file names no end or one that it has not."""

from __future__ import annotations

import string
from pathlib import Path

import pytest
from gguf_build import File, tiny_llama

from llama_magic import gguf
from llama_magic.engine.native import Weights, WeightsOptions, specials
from llama_magic.engine.native.vocab import Vocab

T = "tokenizer.ggml."
_TOKENS = [*(letter.encode() for letter in string.ascii_letters), b"<|im_start|>", b"<|im_end|>"]
_END = len(_TOKENS) - 1


def _vocab(path: Path, file: File) -> Vocab:
    file = file.with_kv(f"{T}model", "str", "gpt2").with_kv(f"{T}merges", "arr[str]", ["a b"])
    return Weights([file.with_kv(f"{T}bos_token_id").write(path)], WeightsOptions(vocab_only=True)).vocab


@pytest.mark.parametrize("named", [None, 999_999])
def test_an_end_that_nobody_named_ends_nothing(tmp_path: Path, named: int | None) -> None:
    """llama.cpp takes token 11 (here the letter l) where a BPE file names no end, or none of its tokens."""
    file = tiny_llama(_TOKENS).with_kv(f"{T}eos_token_id", named and "u32", named)
    vocab = _vocab(tmp_path / "none.gguf", file)
    assert (vocab.eog_ids, vocab.eos_id) == ((_END,), None)


def test_an_end_that_is_named_ends_answers(tmp_path: Path) -> None:
    """Token 11 is an end where the file says so."""
    vocab = _vocab(tmp_path / "named.gguf", tiny_llama(_TOKENS).with_kv(f"{T}eos_token_id", "u32", 11))
    assert (vocab.eog_ids, vocab.eos_id) == ((11, _END), 11)


def test_tokens_are_asked_for_what_they_are_when_somebody_wants_to_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once, in parts between which other threads have a turn: 262,144 of them take 50 ms."""
    known = _vocab(tmp_path / "whole.gguf", tiny_llama(_TOKENS))
    known.look()
    asked: list[int] = []
    monkeypatch.setattr(specials, "_AT_ONCE", 7)
    ask = specials._attribute
    monkeypatch.setattr(specials, "_attribute", lambda at, token: (asked.append(token), ask(at, token))[1])
    vocab = _vocab(tmp_path / "parts.gguf", tiny_llama(_TOKENS))
    assert asked == []
    for _ in range(2):
        assert vocab.control_ids == known.control_ids == {_END, _END - 1}
        assert (vocab.parsed_ids, vocab.user_defined_ids) == (known.parsed_ids, known.user_defined_ids)
        assert (vocab.eog_ids, vocab.eos_id, vocab.strips) == (known.eog_ids, known.eos_id, known.strips)
        assert asked == list(range(vocab.n_tokens))


def test_a_special_token_beyond_the_vocabulary_is_none(tmp_path: Path) -> None:
    """It has neither id nor text, and a warning names it and the size of the vocabulary."""
    file = tiny_llama().with_kv(f"{T}eos_token_id", "u32", 999_999)
    info = gguf.inspect(file.write(tmp_path / "beyond.gguf"))
    assert dict(info.special_tokens) == {"bos": (1, "<s>"), "unk": (0, "<unk>")}
    (finding,) = gguf.special_ids(info)
    assert finding.message == "The eos token is 999,999, outside the 260 tokens, so it is not used."
