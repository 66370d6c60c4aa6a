"""Answers: where they stop, structured ones, embeddings, receipts."""

from __future__ import annotations

import importlib.metadata
import json
import struct
from collections.abc import Callable
from typing import Any

import pytest
from scripted_gguf import BYTES, EOS, chain

import llama_magic as lm


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("stops", "text", "stop"),
    [
        (["r", "wo"], "Hello, ", "wo"),
        ("ello, w", "H", "ello, w"),
        (["xyz"], "Hello, world!", None),
        (["d!", "ld!"], "Hello, wor", "ld!"),
        (["</s>"], "Hello, world!", "</s>"),
    ],
)
def test_stop_strings(scripted_model: Any, stream: bool, stops: Any, text: str, stop: str | None) -> None:
    """A stop string ends the answer and is not in it, over tokens, streamed or not; a control token
    can be one.
    """
    model = scripted_model(chain("q", "Hello", ",", " wor", "ld", "!", EOS))
    made = model.complete("q", stop=stops, stream=stream, max_tokens=20)
    if stream:
        assert "".join(chunk.delta for chunk in made) == text
        made = made.completion
    assert (made.text, made.finish_reason) == (text, "stop")
    assert made.stop in (stop, None) if stop == EOS else made.stop == stop


def test_control_token_as_stop_string(scripted_model: Any) -> None:
    """A stop string that is a control token's text ends the answer by its id."""
    model = scripted_model(chain("q", "a", "<|stop|>", "b"), controls=["<|stop|>"])
    assert model.complete("q", stop="<|stop|>", max_tokens=9).text == "a"
    assert model.complete("q", max_tokens=9).text == "ab"


@pytest.mark.parametrize("seed", [None, 1])
@pytest.mark.parametrize("limit", [1, 2, 3, 5, 8])
def test_max_tokens_is_hard(scripted_model: Any, limit: int, seed: int | None) -> None:
    """Runs of unfinished UTF-8 do not let an answer grow past its limit, nor past the window's edge."""
    model = scripted_model(chain("a", 0xE2, "b", 0xE3, "c", 0xE4, "d", 0xF0) | {0xF0: 0xF0}, default=0xF0)
    for prompt in ("a", "q"):
        done = model.complete(prompt, max_tokens=limit, seed=seed)
        assert (len(done.token_ids), done.finish_reason) == (limit, "length")
    edge = model.complete("q" * 500, max_tokens=11, seed=seed)
    assert edge.usage.total_tokens == 512
    assert edge.text == "\ufffd" * 11


def test_bytes_of_a_character_are_one_chunk(scripted_model: Any) -> None:
    """Byte tokens of 🦙 and of a ZWJ sequence come out whole, as text that never breaks a character."""
    text = "🦙👩‍👩‍👧"
    model = scripted_model(chain("q", *"🦙".encode(), EOS))
    assert model.detokenize([BYTES + b for b in text.encode()]) == text
    assert [chunk.delta for chunk in model.complete("q", stream=True) if chunk.delta] == ["🦙"]


def test_unseeded_calls_differ_and_record_their_seed(loaded: Callable[..., Any]) -> None:
    """Without a seed each call draws one; the recorded seed gives the same answer twice when it is given."""
    model = loaded("short")
    made = [model.complete("Once upon a time", max_tokens=8, temperature=1.5) for _ in range(3)]
    assert len({r.seed for r in made}) == len({r.token_ids for r in made}) == 3
    assert not made[0].seeded
    again = [
        model.complete("Once upon a time", max_tokens=8, temperature=1.5, seed=made[0].seed) for _ in "ab"
    ]
    assert again[0].token_ids == again[1].token_ids
    assert again[0].seeded
    assert again[0].receipt["token_ids"] == again[1].receipt["token_ids"]


def test_chats_that_take_turns_read_only_what_is_new(loaded: Callable[..., Any]) -> None:
    """Two unseeded chats in turns: from turn 2 on at least 95 % of the common prefix comes from the cache."""
    model = loaded("short")
    chats = [[{"role": "user", "content": f"Topic {i}. " + "Tell me about rivers. " * 40}] for i in (1, 2)]
    seen: list[tuple[int, ...]] = [(), ()]
    for turn in range(3):
        for i, messages in enumerate(chats):
            done = model.chat(messages, max_tokens=6)
            common = 0
            while common < len(seen[i]) and seen[i][common] == done.prompt_token_ids[common]:
                common += 1
            if turn:
                assert common > 200
                assert done.usage.cached_tokens >= 0.95 * common
            seen[i] = done.prompt_token_ids + done.token_ids
            chats[i] = [*messages, {"role": "assistant", "content": done.text}]
            chats[i].append({"role": "user", "content": f"And {turn}?"})


def test_seeded_receipts_are_equal(scripted: Any, answers: dict[str, str]) -> None:
    """Two seeded runs of one call have equal receipts, as JSON."""
    question = next(iter(answers))
    first, again = (scripted.complete(question, seed=4, max_tokens=12).receipt for _ in "ab")
    assert json.dumps(first, sort_keys=True) == json.dumps(again, sort_keys=True)


def test_a_receipt_names_the_file_and_the_engine(scripted_model: Any) -> None:
    """Files with equal headers but other weights have other fingerprints; loaded again, an equal receipt."""
    one = scripted_model(chain("a", "b", EOS))
    receipt = one.complete("a", seed=1, max_tokens=4).receipt
    assert receipt["file"]["name"] == "scripted-0.gguf"
    assert receipt["file"]["bytes"] == one.path.stat().st_size
    assert receipt["file"]["quantisation"] == one.info.quantisation
    assert receipt["engine"] | {"window": 512, "kv_type": "f16", "threads": 1} == receipt["engine"]
    assert receipt["engine"]["llama_cpp_python"] == importlib.metadata.version("llama-cpp-python")
    assert str(one.path.parent) not in json.dumps(receipt)
    tuned = one.path.with_name("tuned.gguf")
    tuned.write_bytes(one.path.read_bytes()[:-4] + struct.pack("<f", 1e-9))  # the last weight was 0
    with lm.load(tuned, ctx=512, threads=1) as other:
        theirs = other.complete("a", seed=1, max_tokens=4).made_with
        assert other.info.digest == one.info.digest
    assert theirs["engine"] == receipt["engine"]
    assert theirs["file"]["fingerprint"] != receipt["file"]["fingerprint"]
    path = one.path
    one.close()
    with lm.load(path, ctx=512, threads=1, name=receipt["model"]) as again:
        assert again.complete("a", seed=1, max_tokens=4).receipt == receipt
