"""What does not fit: refused by arithmetic or by count, oldest turns left out, the longest text cut."""

from __future__ import annotations

import _thread
import itertools
import random
import re
import threading
import tracemalloc
from typing import Any

import llama_cpp
import pytest

import llama_magic as lm
from llama_magic.model.guard import Guard
from llama_magic.request.filled import Filled

_ODD = ["a", " ", "\n", "é", "日", "\x04", "=", "<|im_end|>", "\U00100000"]
_WORDS = [
    "the",
    "cat's",
    "12 345",
    "日本",
    "\n\n x",
    "  two",
    "a.b",
    "I'll",
    "e é",
    "<|im_end|>",
    "Z z",
    "🙂",
]


def test_drop_oldest_keeps_instructions_wherever_they_stand(scripted: Any) -> None:
    """Every system and developer message stays, and the last turn whole; exchanges go oldest first."""
    turns: list[dict[str, Any]] = [{"role": "system", "content": "A" * 20}]
    turns.append({"role": "system", "content": "B" * 20})
    for i in range(5):
        turns += [{"role": "user", "content": f"{i}" * 150}, {"role": "assistant", "content": "r" * 50}]
        if i == 1:
            turns.append({"role": "developer", "content": "C" * 20})
    turns += [{"role": "user", "content": "D" * 90}, {"role": "user", "content": "E" * 90}]
    done = scripted.chat(turns, max_tokens=100, overflow="drop-oldest")
    assert all(letter * 20 in done.prompt for letter in "ABC")
    assert "D" * 90 in done.prompt
    assert "E" * 90 in done.prompt
    kept = [i for i in range(5) if f"{i}" * 150 in done.prompt]
    assert kept == list(range(5 - len(kept), 5))
    assert done.prompt.count("r" * 50) == len(kept)
    assert 0 < len(kept) < 5
    one_more = [m for m in turns if m["content"][0] not in "0123" or int(m["content"][0]) >= kept[0] - 1]
    with pytest.raises(lm.ContextOverflowError):
        scripted.chat([m for m in one_more if m["content"] != "r" * 50], max_tokens=400)
    with pytest.raises(lm.ContextOverflowError, match="Even without all 5 older exchanges"):
        scripted.chat(turns, max_tokens=900, overflow="drop-oldest")


@pytest.mark.parametrize(("size", "at_once"), [(20, 4), (45, 2), (200, 1)])
def test_a_long_chat_leaves_out_exchanges_in_steps(scripted: Any, size: int, at_once: int) -> None:
    """The fewest that make it fit, of many up to a quarter more: most prompts go on from the last."""
    talk: list[dict[str, str]] = []
    gone: list[int] = []
    for number in range(60):
        talk.append({"role": "user", "content": f"({number}) ".ljust(size, ".")})
        if number >= 48:
            done = scripted.chat(talk, max_tokens=64, overflow="drop-oldest")
            kept = [int(found) for found in re.findall(r"\((\d+)\)", done.prompt)]
            assert kept == list(range(number + 1 - len(kept), number + 1))
            gone.append(number + 1 - len(kept))
            named = f"(user 1 to {gone[-1]}, assistant 1 to {gone[-1]}, from"
            assert f"{2 * gone[-1]} oldest messages {named}" in done.notes[0]
        talk.append({"role": "assistant", "content": "r" * 5})
    assert gone == sorted(gone)
    changes = sum(a != b for a, b in itertools.pairwise(gone))
    assert changes * at_once <= gone[-1] - gone[0] <= (changes + 1) * 2 * at_once
    fewest = next(n for n in range(60) if _fits(scripted, talk[2 * n : -1]))
    assert fewest <= gone[-1] <= fewest + (59 - fewest) // 4
    assert gone[-1] == fewest or at_once > 1


def _fits(model: Any, talk: list[dict[str, str]]) -> bool:
    try:
        model.chat(talk, max_tokens=64)
    except lm.ContextOverflowError:
        return False
    return True


def test_the_default_reserve_is_a_promise(scripted: Any) -> None:
    """Without max_tokens 256 tokens (a quarter of a small window) are kept free: refused, or cut for."""
    assert scripted.window == 1024
    assert scripted.complete("a" * 767).budget.max_tokens == 256  # 767 and BOS
    with pytest.raises(lm.ContextOverflowError, match="1 too many"):
        scripted.complete("a" * 768)
    cut = scripted.complete("a" * 2000, overflow="truncate-prompt")
    assert (cut.budget.prompt_tokens, cut.budget.max_tokens) == (768, 256)
    talk = [{"role": "user", "content": "b" * 2000 + "end"}]
    done = scripted.chat(talk, overflow="truncate-prompt")
    assert (done.budget.prompt_tokens, done.budget.max_tokens) == (768, 256)
    small = Guard(40, "error", 1024, 1)
    assert small.reserve(None) == 10


def test_truncate_cuts_the_longest_text(scripted: Any) -> None:
    """Not the last message but the longest of a user or tool is cut, and the note shows where."""
    talk = [
        {"role": "system", "content": "s" * 700},
        {"role": "user", "content": "x" * 800 + "tail of it"},
        {"role": "assistant", "content": "ok"},
        {"role": "user", "content": "short question"},
    ]
    done = scripted.chat(talk, max_tokens=50, overflow="truncate-prompt")
    assert "s" * 700 in done.prompt
    assert "short question" in done.prompt
    assert "tail of it" in done.prompt
    assert done.usage.prompt_tokens + 50 == 1024
    (note,) = [note for note in done.notes if "Cut" in note]
    assert "messages[1]" in note
    assert "begins now with 'x" in note


@pytest.mark.parametrize("unit", ["a", "word ", "日本", "<|im_end|>"])
def test_a_prompt_that_cannot_fit_is_refused_by_arithmetic(real: Any, unit: str) -> None:
    """20 million characters are refused without being tokenized or copied: raw, in messages, in parts."""
    text = unit * (20_000_000 // len(unit))
    other, part = text + ".", text[:50_000]
    part_of = {"type": "text", "text": part}
    assert real.backend.tokenizer.at_least(part * 2) > 100  # the longest token is looked for once
    for ask in (
        lambda: real.complete(text),
        lambda: real.chat([{"role": "user", "content": other}]),
        lambda: real.chat([{"role": "user", "content": [{"type": "text", "text": text}]}]),
        lambda: real.chat([{"role": "user", "content": [part_of] * 400}]),
        lambda: real.chat([{"role": "user", "content": part}, {"role": "assistant", "content": "a"}] * 400),
        lambda: real.read(text),
        lambda: real.embed(text),
        lambda: real.xray(text),
        lambda: real.chat([{"role": "user", "content": "a"}], prefill=text),
        lambda: real.score("a", [text]),
    ):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(real.backend.tokenizer.native, "tokenize", None)  # any call would be a TypeError
            tracemalloc.start()
            try:
                with pytest.raises(lm.ContextOverflowError, match="at least") as caught:
                    ask()
                assert tracemalloc.get_traced_memory()[1] < 18_000_000  # the beginning is looked at
            finally:
                tracemalloc.stop()
        assert max(caught.value.prompt_tokens, caught.value.max_tokens) > real.window


def test_the_parts_of_a_message_are_cut_as_one_text(scripted: Any) -> None:
    """truncate-prompt cuts a content in parts where it cuts the one that joins them."""
    parts = [{"type": "text", "text": letter * 600} for letter in "ab"]
    for content in (parts, "a" * 600 + "b" * 600):
        done = scripted.chat(
            [{"role": "user", "content": content}], max_tokens=64, overflow="truncate-prompt"
        )
        assert done.prompt.count("b") >= 600
        assert 0 < done.prompt.count("a" * 50) < 12
        assert done.budget.prompt_tokens == 1024 - 64


def test_a_conversation_is_refused_alike_again_and_again(loaded: Any) -> None:
    """One that is some turns too long is counted to its end each time, also where its head is known."""
    model = loaded("short", ctx=256)
    chat: list[Any] = []
    for turn in range(9):
        chat.append({"role": "user", "content": f"question {turn}"})
        chat.append({"role": "assistant", "content": "yes " * 25})
    chat.append({"role": "user", "content": "last"})
    said = []
    for overflow in ("error", "error", "truncate-prompt", "error"):
        with pytest.raises(lm.ContextOverflowError, match="It is filled by: template") as caught:
            model.chat(chat, max_tokens=20, overflow=overflow)
        said.append((caught.value.prompt_tokens, caught.value.parts))
    assert said == [said[0]] * 4
    assert said[0][0] == model.count_tokens(chat) > 256
    assert "overflow='drop-oldest'" in str(caught.value)


def test_a_stop_text_of_any_length_is_compared_as_text(real: Any) -> None:
    """A stop text that is far longer than any control token is not tokenized to see whether it is one."""
    tokenizer = real.backend.tokenizer
    assert tokenizer.special_id(max(tokenizer.special_texts, key=len)) is not None
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer.native, "tokenize", None)
        assert tokenizer.special_id("word " * 1000) is None


def test_the_end_of_a_text_that_is_far_too_long(scripted: Any) -> None:
    """truncate-prompt takes the end of ten million characters, raw and in a message, at once."""
    text = "word " * 2_000_000 + "The end."
    cut = scripted.complete(text, overflow="truncate-prompt", max_tokens=24)
    assert cut.prompt.endswith("word The end.")
    assert cut.usage.prompt_tokens == 1000
    (note,) = cut.notes
    assert note.startswith(f"Cut the first {len(text) - 999:,} characters")
    done = scripted.chat([{"role": "user", "content": text}], overflow="truncate-prompt", max_tokens=24)
    assert "word The end." in done.prompt
    assert done.usage.prompt_tokens == 1000


def test_an_interrupt_leaves_a_long_tokenizing_behind(
    scripted_file: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A text that is still being tokenized in C does not hold an interrupt up, and closing waits for it."""
    # With mmap=False the vocabulary, which is closed here, is shared with no model of another test.
    with lm.load(scripted_file.path, ctx=256, threads=1, mmap=False) as model:
        native = model.backend.tokenizer.native
        begun, go_on = threading.Event(), threading.Event()

        def slow(*_args: Any) -> int:
            begun.set()
            go_on.wait(600)
            return 1

        monkeypatch.setattr(llama_cpp, "llama_tokenize", slow)
        threading.Thread(target=lambda: begun.wait(600) and _thread.interrupt_main()).start()
        with pytest.raises(KeyboardInterrupt):
            native.tokenize("a" * 100_000, add_special=False, parse_special=False)
        threading.Timer(0.05, go_on.set).start()
        native.close()
        assert go_on.is_set()


def test_a_lower_bound_is_never_above_the_count(real: Any) -> None:
    """For texts of every kind the bound is at most the number of tokens, and above none where it counts."""
    vocabulary = real.backend.tokenizer
    chance = random.Random(5)
    for _ in range(3):
        unit = "".join(chance.choices(_ODD, k=3))
        text = unit * (70_000 // len(unit))
        tokens = vocabulary.native.tokenize(text, add_special=True, parse_special=True)
        assert vocabulary.at_least(text) <= len(tokens)
    assert vocabulary.at_least("a" * 1_000_000) > 1_000_000 // 100


def test_pieces_have_the_tokens_of_the_whole(real: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A long text is tokenized in pieces; its tokens are those of one call, wherever it is cut."""
    vocabulary = real.backend.tokenizer
    chance = random.Random(6)
    text = " ".join(chance.choices(_WORDS, k=3000))
    tokenize = vocabulary.native.tokenize
    whole = tokenize(text, add_special=True, parse_special=True)
    calls: list[str] = []

    def noted(piece: str, **how: Any) -> list[int]:
        calls.append(piece)
        return tokenize(piece, **how)  # type: ignore[no-any-return]

    monkeypatch.setattr(vocabulary.native, "tokenize", noted)
    assert vocabulary.encode(text) == whole
    for size in (1, 7, 100, 1000):
        monkeypatch.setattr("llama_magic.engine.vocabulary.PIECE", size)
        vocabulary.__dict__.pop("_segments", None)  # what was cut before special tokens is known
        assert vocabulary.encode(text) == whole
    assert len(calls) > 500


@pytest.mark.parametrize("words", [700, 3000])
def test_what_fills_the_window_is_said_of_long_conversations(real: Any, words: int) -> None:
    """What is tokenized in a moment is counted to its end: every turn and variable has its tokens."""
    filled = Filled("Read: " + "word " * words, [("doc", 6, 6 + 5 * words)])
    old = [{"role": "user", "content": "one " * 600}, {"role": "assistant", "content": "two"}]
    with pytest.raises(lm.ContextOverflowError, match="too many") as caught:
        real.chat([*old, {"role": "user", "content": filled}], max_tokens=real.window)
    counts = dict(caught.value.parts)
    assert {"template", "user 1", "assistant 1", "user 2", "{{ doc }}", "reserved answer"} == set(counts)
    assert abs(counts["{{ doc }}"] - words) <= 2
    assert sum(counts.values()) == caught.value.prompt_tokens + real.window


def test_of_a_text_too_long_to_count_the_longest_part_is_said(scripted: Any) -> None:
    """A variable where it is most of it, else the message or the text, in characters."""
    filled = Filled("Read: " + "word " * 100_000, [("doc", 6, 500_006)])
    hi = {"role": "user", "content": "hi"}
    for ask, said in (
        (lambda: scripted.chat([hi, {"role": "user", "content": filled}]), "{{ doc }}, 500,000 characters"),
        (lambda: scripted.chat([hi, {"role": "user", "content": str(filled)}]), "messages[1], 500,006 char"),
        (lambda: scripted.complete(filled), "{{ doc }}, 500,000 characters"),
        (
            lambda: scripted.chat([hi, *[{"role": "assistant", "content": "a" * 99}, hi] * 900]),
            "1,801 messages together",
        ),
        (lambda: scripted.complete([5] * 500_000), "500,000 tokens"),
    ):
        with pytest.raises(lm.ContextOverflowError, match=re.escape(f"Most of it is {said}")):
            ask()


@pytest.mark.parametrize("seed", range(12))
def test_every_cure_that_is_named_works(scripted: Any, seed: int) -> None:
    """Texts of any length, some filled in, some in parts: what the message proposes is done, and the answer
    is written.
    """
    chance = random.Random(seed)

    def text(letter: str) -> str:
        size = chance.choice([5, 60, 300, 800])
        return Filled(letter * size, [("doc", 1, size)]) if chance.random() < 0.5 else letter * size

    turns: list[dict[str, Any]] = [{"role": "system", "content": text("s")}] if chance.random() < 0.7 else []
    for _ in range(chance.randrange(4)):
        turns += [{"role": "user", "content": text("u")}, {"role": "assistant", "content": text("a")}]
    last = text("v")
    in_parts = [{"type": "text", "text": part} for part in (last[:9], last[9:])]
    turns.append({"role": "user", "content": in_parts if chance.random() < 0.3 else last})
    for asked in (turns, text("p") + "p" * 600):
        ask = scripted.complete if isinstance(asked, str) else scripted.chat
        for first in ("error", "drop-oldest", "truncate-prompt"):
            try:
                ask(asked, max_tokens=500, overflow=first)
            except lm.ContextOverflowError as error:
                cures = str(error.remedy)
                for way in re.findall(r"overflow='([a-z-]+)'", cures):
                    assert way != first
                    assert ask(asked, max_tokens=500, overflow=way).notes
                for tokens in re.findall(r"max_tokens=(\d+)", cures):
                    ask(asked, max_tokens=int(tokens), overflow=first)


def test_what_writes_nothing_is_told_no_cure_of_writing(scripted: Any) -> None:
    """`score` and `xray` take neither `overflow` nor `max_tokens`, and `decide` neither of each row."""
    rows = lm.decide(["a" * 1020], "{{ text }}", options=["b" * 40, "c"], model=scripted, progress=False)
    errors = [rows[0].error]
    for ask in (lambda: scripted.score("a" * 1000, ["b" * 40]), lambda: scripted.xray("a" * 1100)):
        with pytest.raises(lm.ContextOverflowError) as caught:
            ask()
        errors.append(caught.value)
    for error in errors:
        assert re.fullmatch(r"Shorten .* by [\d,]+ tokens, or load it with ctx=\d+ .*", str(error.remedy))
