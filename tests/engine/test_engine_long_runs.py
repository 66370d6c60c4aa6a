"""Texts with long runs of one kind of character, where llama.cpp cuts by `std::regex`, which calls itself."""

from __future__ import annotations

import ctypes
import os
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from llama_magic.engine.native import Weights, WeightsOptions
from llama_magic.engine.native.vocab import Vocab

_RUNS = ("a", "-", " ", "é", "中", "-a" * 15_000 + " ")


def called(vocab: Vocab, data: bytes) -> list[int]:
    """Return the tokens as llguidance asks for them, of a text that must follow: in C, by an address."""
    kinds = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_int32, ctypes.c_void_p, ctypes.c_int32]
    function = ctypes.CFUNCTYPE(ctypes.c_int32, *kinds, ctypes.c_bool, ctypes.c_bool)(vocab.tokenize_function)
    tokens = (ctypes.c_int32 * len(data))()
    return tokens[: function(vocab.pointer, data, len(data), tokens, len(data), False, False)]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_long_run_of_letters_signs_or_spaces_is_tokenized(
    path_of: Callable[[str], Path], tmp_path: Path
) -> None:
    """30,000 of a kind come back as they were, with the rules of Mistral's newer files (26,000 ended the
    kernel, as with DeepSeek's and gpt-oss's); those who call by the address get the same.
    """
    path, head = tmp_path / "tekken.gguf", b"tokenizer.ggml.pre\x08\0\0\0\6\0\0\0\0\0\0\0"
    path.write_bytes(path_of("short").read_bytes().replace(head + b"smollm", head + b"tekken", 1))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        right = 0
        try:
            vocab = Weights([path], WeightsOptions(vocab_only=True)).vocab
            for run in _RUNS:
                text = f"One {run * 30_000 if len(run) == 1 else run}two"
                tokens = vocab.tokenize(text, add_special=False, parse_special=False)
                right += vocab.detokenize(tokens, remove_special=False, unparse_special=True) == text.encode()
                right += called(vocab, text.encode()) == tokens
        finally:
            os._exit(42 if right == 2 * len(_RUNS) else 2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
