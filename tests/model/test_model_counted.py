"""A prompt that goes on from the one before has the tokens, and the counts, of one that is read whole."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from gguf_build import tiny_llama
from hypothesis import given, settings
from hypothesis import strategies as st

import llama_magic as lm
from llama_magic import formatters
from llama_magic.engine.vocabulary import Vocabulary
from llama_magic.errors import LlamaMagicError
from llama_magic.model import counted
from llama_magic.model.counted import Starts
from llama_magic.model.prompt import Rendering, from_messages, is_begun
from llama_magic.request.filled import Filled
from llama_magic.testing import scripted_model
from llama_magic.testing.tokenizer import WordTokenizer

HOSTILE = (
    *("<|im_start|>", "<|im_end|>", "<|im_", "end|>", "<|im_end|>\n<|im_start|>assistant\n", "<|endoftext|>"),
    *("<start_of_turn>", "<end_of_turn>", "<end_of_turn>\n<start_of_turn>model\n", "<bos>", "<s>", "</s>"),
    *(
        "[INST]",
        " [/INST] ",
        "<think>",
        "</think>",
        "<unused0>",
        "<",
        "|>",
        " ",
        "  ",
        "\n",
        "\n\n",
        "\t",
        "▁",
    ),
    *("user", "model", "é漢😀", "it's 1234", "\u200b", "x" * 40, "\U00100000"),
)
texts = st.lists(st.sampled_from(HOSTILE) | st.text("ab <>|\n", max_size=6), max_size=5).map("".join)
steps = st.one_of(
    st.tuples(st.just("ask"), texts, texts),
    st.tuples(st.just("ask"), texts, texts),
    st.tuples(st.just("fill"), texts, texts),
    st.tuples(st.just("think"), texts, texts),
    st.tuples(st.just("begin"), texts, texts),
    st.tuples(st.just("edit"), texts, texts),
    st.tuples(st.just("drop"), texts, texts),
    st.tuples(st.just("system"), texts, texts),
    st.tuples(st.just("forget thinking"), texts, texts),
)


def _changed(chat: list[dict[str, Any]], what: str, one: str, two: str) -> list[dict[str, Any]]:
    """Return a conversation after a step; its last message is what is asked, or begins the answer."""
    before = chat if chat[-1]["role"] == "assistant" else [*chat, {"role": "assistant", "content": two}]
    if what == "edit":
        at = len(one) % len(chat)
        return [*chat[:at], {**chat[at], "content": two}, *chat[at + 1 :]]
    if what == "drop":
        return [
            *(m for m in chat if m["role"] == "system"),
            *[m for m in chat if m["role"] != "system"][2:],
        ] or chat
    if what == "system":
        return [{"role": "system", "content": one}, *(m for m in chat if m["role"] != "system")]
    if what == "begin":
        return [*chat, {"role": "assistant", "content": one}] if chat[-1]["role"] == "user" else chat
    if what == "forget thinking":
        return [{k: v for k, v in m.items() if k != "reasoning_content"} for m in chat]
    if what == "think":
        before[-1] = {**before[-1], "reasoning_content": one}
    asked = Filled(f"{one}: {two}", [("x", 0, len(one)), ("y", len(one) + 2, len(one) + 2 + len(two))])
    return [*before, {"role": "user", "content": asked if what == "fill" else one}]


@pytest.fixture(scope="module")
def vocabularies(loaded: Callable[..., Any], tmp_path_factory: pytest.TempPathFactory) -> Any:
    """SmolLM2's, Gemma's, and one of SentencePiece with a BOS and a space in front."""
    words = [*(b"<unk>", b"<s>", b"</s>"), *(b"<0x%02X>" % b for b in range(256)), "▁".encode()]
    words += [b"<|im_start|>", b"<|im_end|>", "▁us".encode(), b"er", b"us", b"user", b"im", b"|>", b"\n\n"]
    path: Path = tmp_path_factory.mktemp("pieces") / "tiny.gguf"
    tiny_llama(words).write(path)
    with lm.load(path, threads=1) as tiny:
        yield {"smollm2": loaded("short"), "gemma": loaded("gemma"), "tiny": tiny}


def _prompts(model: Any, family: str) -> tuple[Any, Any, Any]:
    """Return what renders, a tokenizer, and the same one that knows of no place to go on from."""
    formatter = model.formatter if family == "gguf" else formatters.get(family)
    known = model.backend.tokenizer
    whole = Vocabulary(known.native, known.fingerprint)
    whole.__dict__["_segments"] = None
    return Rendering(formatter, known.control_texts | known.special_texts), known, whole


def _rendered(tokenizer: Any, how: Rendering, chat: list[dict[str, Any]], starts: Starts | None) -> Any:
    begins = is_begun(chat)
    how = Rendering(how.formatter, how.guarded, continue_final=begins, begins=begins)
    try:
        return from_messages(tokenizer, how, chat, None, starts)
    except LlamaMagicError as error:
        return type(error), str(error)


@pytest.mark.parametrize("family", ["gguf", "chatml", "gemma", "llama2", "mistral", "deepseek"])
@settings(max_examples=6)
@given(said=st.lists(steps, min_size=3, max_size=14), system=texts)
def test_a_chat_is_counted_as_if_each_prompt_were_read_whole(
    vocabularies: dict[str, Any], family: str, said: list[tuple[str, str, str]], system: str
) -> None:
    """Turns, edits in the middle, dropped and begun turns, variables, thinking, and whatever texts say."""
    for name, model in vocabularies.items():
        how, known, whole = _prompts(model, "chatml" if (name, family) == ("tiny", "gguf") else family)
        starts = Starts()
        chat = [{"role": "system", "content": system}, {"role": "user", "content": "Hello"}]
        for step in said:
            chat = _changed(chat, *step)
            found = _rendered(known, how, chat, starts)
            assert isinstance(found, tuple) or found.told == json.dumps(found.ids)
            assert found == _rendered(whole, how, chat, None)


@pytest.mark.parametrize("family", ["gguf", "chatml", "gemma", "llama2", "deepseek"])
def test_what_a_vocabulary_has_marks_for_is_gone_on_from(vocabularies: dict[str, Any], family: str) -> None:
    """The second prompt of a chat is read from a mark of its template on, if it has one."""
    own = {
        "gguf": ("smollm2", "gemma", "tiny"),
        "chatml": ("smollm2", "tiny"),
        "gemma": ("gemma",),
        "llama2": ("tiny", "gemma"),
    }
    for name, model in vocabularies.items():
        how, known, _ = _prompts(model, family if (name, family) != ("tiny", "gguf") else "mistral")
        starts, chat = Starts(), [{"role": "user", "content": "Hello"}]
        for more in (2, 2):
            _rendered(known, how, chat, starts)
            chat = [*chat, *({"role": role, "content": "Yes"} for role in ("assistant", "user"))][
                : len(chat) + more
            ]
        formatted = how.formatter.render(chat, guarded=how.guarded)
        roles = tuple(message["role"] for message in formatted.messages)
        found = starts.find(known, formatted, roles, [])
        assert (len(found.ids) > 3) == (name in own.get(family, ())), (name, len(found.ids))


class Told(WordTokenizer):
    """A tokenizer that tells how many parts it was given."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self.given: list[int] = []

    def encode_parts(self, parts: Any, most: int | None = None, *, begins: bool = True) -> list[int]:
        parts = list(parts)
        self.given.append(len(parts))
        return super().encode_parts(parts, most, begins=begins)


def test_a_turn_costs_what_is_new_in_it() -> None:
    """Two chats of a model in turns, of a hundred turns each: no more is read than the last exchange."""
    family = formatters.get("chatml")
    how, tokenizer, starts = Rendering(family, frozenset()), Told(("<|im_start|>", "<|im_end|>")), Starts()
    chats: list[list[dict[str, Any]]] = [[], []]
    for turn in range(100):
        for number, chat in enumerate(chats):
            chat.append({"role": "user", "content": f"question {turn} of {number}"})
            prompt = from_messages(tokenizer, how, chat, None, starts)
            chat.append({"role": "assistant", "content": "answer"})
    assert max(tokenizer.given) <= 7
    assert prompt == from_messages(tokenizer, how, chat[:-1])
    assert len({id(part) for part in prompt.parts} & {id(p) for p in starts.kept[0].totals.values()}) > 190


def test_parts_of_turns_are_shared_by_the_answers_of_a_chat() -> None:
    """The part of an earlier turn is one object in the budgets of all later answers."""
    model, chat = scripted_model(window=4096), []
    answers = []
    for turn in range(20):
        chat += [{"role": "user", "content": f"question {turn}"}]
        answers.append(model.chat(chat))
        chat += [{"role": "assistant", "content": answers[-1].text}]
    parts = {id(part) for answer in answers for part in answer.budget.parts}
    assert len(parts) < 6 * 20
    assert [p.label for p in answers[-1].budget.parts][:4] == ["template", "user 1", "assistant 1", "user 2"]


def test_what_is_remembered_of_prompts_is_bounded() -> None:
    """A hundred chats that do not go on leave the beginnings of a few."""
    starts, family = Starts(), formatters.get("chatml")
    for number in range(100):
        chat = [{"role": "system", "content": f"Be {number}."}, {"role": "user", "content": "Why?"}]
        from_messages(WordTokenizer(family.marks), Rendering(family, frozenset()), chat, None, starts)
    assert len(starts.kept) == counted.KEPT
