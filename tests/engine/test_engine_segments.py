"""Prompts that are cut before marks and remembered: their tokens are those of the whole text."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gguf_build import tiny_llama
from hypothesis import given, settings
from hypothesis import strategies as st

import llama_magic as lm
from llama_magic.engine.segments import FROM, KEPT, Segments
from llama_magic.request.tokenizer import TooManyTokensError

CHATML = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "<s>", "</s>", "<unk>")
ODD = (
    "<|im_start",
    "|>",
    "<",
    " ",
    "  ",
    "\n",
    "\n\n",
    "user\n",
    "é漢😀",
    "1234",
    "it's",
    "<empty_output>",
    "x" * 9,
)


@pytest.fixture(scope="module")
def models(loaded: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A byte-pair vocabulary, and one of SentencePiece that puts a space before a text and a BOS."""
    words = [*(b"<unk>", b"<s>", b"</s>"), *(b"<0x%02X>" % b for b in range(256)), "▁".encode()]
    words += [b"<|im_start|>", b"<|im_end|>", "▁us".encode(), b"er", b"us", b"user", b"im", b"|>", b"\n\n"]
    path: Path = tmp_path_factory.mktemp("pieces") / "tiny.gguf"
    tiny_llama(words).write(path)
    with lm.load(path, threads=1) as spm:
        yield loaded("short"), spm


def _whole(model: Any, text: str) -> list[int]:
    """Tokenize a text in one call of llama.cpp; a BOS of its own after the vocabulary's is dropped."""
    vocabulary = model.backend.tokenizer
    tokens: list[int] = vocabulary.native.tokenize(text, add_special=True, parse_special=True)
    while vocabulary.add_bos and len(tokens) > 1 and tokens[0] == tokens[1] == vocabulary.bos_id:
        del tokens[0]
    return tokens


texts = st.lists(st.sampled_from((*CHATML, *ODD)) | st.text(max_size=20), max_size=60).map("".join)


@settings(max_examples=150)
@given(texts, texts)
def test_the_tokens_of_a_long_prompt_are_those_of_the_whole(models: Any, text: str, more: str) -> None:
    """Whatever stands between marks, and a turn later again: nothing is otherwise for being known."""
    text = (text or "a ") * (1 + FROM // len(text or "a "))
    if "\x00" in text or any("\ud800" <= char <= "\udfff" for char in text + more):
        return
    for model in models:
        for prompt in (text, text + more, more + text):
            assert model.backend.tokenizer.encode(prompt) == _whole(model, prompt)


@settings(max_examples=150)
@given(st.lists(st.text("<|>ab[ ", min_size=1, max_size=5), max_size=12), st.text("<|>ab[ ", max_size=40))
def test_a_text_is_cut_before_each_mark_wherever_it_stands(marks: list[str], text: str) -> None:
    """As by one pattern of all marks that no other special token reaches across."""
    firsts, laters = {mark[0] for mark in marks}, {char for mark in marks for char in mark[1:]}
    alone = [m for m in marks if len(m) > 1 and m[0] not in laters and not firsts & set(m[1:])]
    segments = Segments(marks, marks)
    expected = re.split(f"(?={'|'.join(map(re.escape, alone))})", text) if alone else [text]
    assert segments.cut(text) == expected
    first = segments.first(text)
    assert first == (len(expected[0]) if len(expected) > 1 else None)


def test_llama_cpp_is_asked_once_for_the_texts_of_special_tokens(
    models: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A vocabulary may have 6,000, and formats, guards and marks look at all of them."""
    _, model = models
    native = model.backend.tokenizer.native
    native.__dict__.pop("_special_texts", None)
    asked: list[Any] = []
    use = native.use
    monkeypatch.setattr(native, "use", lambda call: (asked.append(call), use(call))[1])
    ids = sorted(native.control_ids | native.user_defined_ids)
    texts = [[native.text(token) for token in ids] for _ in range(2)]
    assert len(asked) == 1
    assert texts[0] == texts[1]
    assert {"<s>", "</s>"} <= {*texts[0]}


def test_only_what_is_new_is_tokenized(models: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A chat of a hundred turns and one more: llama.cpp is given the last turn, not the hundred."""
    model, _ = models
    turns = "".join(f"<|im_start|>user\nIs {i * 37} odd?<|im_end|>\n" for i in range(100))
    vocabulary = model.backend.tokenizer
    vocabulary.encode(turns)
    given: list[str] = []
    tokenize = vocabulary.native.tokenize

    def told(text: str, **how: bool) -> Any:
        given.append(text)
        return tokenize(text, **how)

    monkeypatch.setattr(vocabulary.native, "tokenize", told)
    assert vocabulary.encode(turns + "<|im_start|>user\nAnd 1?<|im_end|>\n")[-5:]
    assert sum(map(len, given)) < 100, given


def test_a_prompt_over_the_most_is_refused_before_its_end(models: Any) -> None:
    """Cut before marks or not, no more than `most` is counted, and what is said is a lower bound."""
    model, _ = models
    prompt = "<|im_start|>user\nHello there<|im_end|>\n" * 4000
    with pytest.raises(TooManyTokensError) as caught:
        model.backend.tokenizer.encode(prompt, 500)
    assert 500 < caught.value.least <= len(_whole(model, prompt))


@pytest.mark.parametrize(
    ("marks", "specials", "text", "cut"),
    [
        (["<a>"], ["<a>", "<b>"], "x<a>y<a>", ["x", "<a>y", "<a>"]),
        (["<a>"], ["<a>", "x<a>"], "x<a>y", ["x<a>y"]),  # another reaches across the place before it
        (["<a>"], ["<a>", "a>b"], "<a>b", ["<a>b"]),  # another begins within it
        (["<a>"], ["<a>", "<a>b"], "x<a>b", ["x", "<a>b"]),  # a longer one begins where it does
        (["aba"], ["aba"], "ababa", ["ababa"]),  # it reaches into itself
    ],
)
def test_marks_that_others_reach_into_are_no_places_to_cut(
    marks: list[str], specials: list[str], text: str, cut: list[str]
) -> None:
    """A text is cut before a mark only where each reading of it begins a special token."""
    assert Segments(marks, specials).cut(text) == cut


def test_what_is_remembered_is_bounded() -> None:
    """A hundred megabytes that pass leave a megabyte at most, and are tokenized right all the same."""
    segments = Segments(["<a>"], ["<a>"])
    for number in range(2000):
        text = f"<a>{number}" + "x" * (KEPT // 20)
        assert list(segments.tokens(text, lambda given: [len(given)])) == [len(text)]
        assert list(segments.tokens(text, lambda given: [len(given)])) == [len(text)]
        assert segments.held <= KEPT
