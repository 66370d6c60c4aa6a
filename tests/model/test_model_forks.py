"""Other ways on from a token of an answer: what was likely there, and the branch."""

from __future__ import annotations

import math
import pickle
from collections.abc import Callable
from typing import Any

import pytest
from scripted_gguf import EOS, chain
from stand_ins import TALKERS

import llama_magic as lm
from llama_magic.testing import Script
from llama_magic.testing import scripted_model as script

HI = [{"role": "user", "content": "Invent a person."}]
PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "maximum": 99}},
    "required": ["name", "age"],
    "additionalProperties": False,
}


def test_alternatives_are_those_of_the_logits(real: Any) -> None:
    """The k likeliest of the softmax of the raw logits, in order; at steps that are kept and read again."""
    answer = real.complete("The best thing about the sea is", max_tokens=12, seed=7, logprobs=6)
    for step in (0, 5, -1):
        found = answer.alternatives(step, k=6)
        told = answer.logprobs[step]
        assert [one.token_id for one in found] == [other.token_id for other in told.top]
        assert [one.probability for one in found] == pytest.approx(
            [math.exp(other.logprob) for other in told.top], abs=1e-5
        )
        assert [one.drawn for one in found] == [one.token_id == answer.token_ids[step] for one in found]
        assert found[0].text == real.detokenize([found[0].token_id])
    branch = answer.fork(6, "", max_tokens=2)
    again = branch.alternatives(3, k=2)  # given to the branch: read again, in other batches
    assert [one.token_id for one in again] == [one.token_id for one in answer.alternatives(3, k=2)]
    assert len(answer.alternatives(0)) == 5


def test_alternatives_under_a_constraint(either: Any) -> None:
    """Only what the mask allows, with the model's own probability; a forced token has no other."""
    answer = either.complete("Is it red? ", choices=["yes it is", "no"], max_tokens=9, seed=1)
    found = answer.alternatives(0, k=20)
    assert all("yes it is".startswith(one.text) or "no".startswith(one.text) for one in found)
    assert sum(one.probability for one in found) < 1
    plain = either.complete("Is it red? ", max_tokens=1, seed=1, logprobs=1000).logprobs[0].top
    raw = {token: math.exp(value) for token, _, value in plain}
    for one in found[:2]:
        assert one.token_id not in raw or one.probability == pytest.approx(raw[one.token_id], abs=1e-4)
    person = either.structured("Invent a person.", PERSON, seed=1, max_tokens=60)
    forced = next(i for i in range(len(person.token_ids)) if len(person.alternatives(i, k=9)) == 1)
    assert person.alternatives(forced)[0].drawn


@pytest.mark.parametrize("name", TALKERS)
@pytest.mark.parametrize("ask", ["complete", "chat"])
def test_a_seeded_branch_is_a_fresh_answer_that_begins_so(
    loaded: Callable[..., Any], ask: str, name: str
) -> None:
    """Token for token, for a picked token, a typed text, and a branch of the branch."""
    model = loaded(name)
    if ask == "chat":
        answer = model.chat(HI, max_tokens=16, seed=3)

        def fresh(begun: str, **options: Any) -> Any:
            return model.chat(HI, prefill=begun, **options)
    else:
        answer = model.complete("Once upon a time there was", max_tokens=16, seed=3)

        def fresh(begun: str, **options: Any) -> Any:
            return model.complete(answer.prompt + begun, **options)

    for step, choice in ((4, answer.alternatives(4)[1]), (1, " very old"), (9, "")):
        branch = answer.fork(step, choice, max_tokens=10)
        begun = model.detokenize(branch.token_ids[: branch.begun])
        equal = fresh(begun, max_tokens=10, seed=3)
        assert branch.token_ids[branch.begun :] == equal.token_ids[equal.begun :]
        assert branch.token_ids[:step] == answer.token_ids[:step]
        assert branch.seed == 3
        assert branch.text.startswith(begun)
        assert branch.prompt == equal.prompt
    second = branch.fork(branch.begun + 2, " and", max_tokens=6, seed=5)
    begun = model.detokenize(second.token_ids[: second.begun])
    equal = fresh(begun, max_tokens=6, seed=5)
    assert second.token_ids[second.begun :] == equal.token_ids[equal.begun :]
    assert answer.branches[-1] is branch
    assert branch.branches == (second,)


def test_a_seeded_branch_is_what_its_tokens_go_on_with(either: Any) -> None:
    """In each kind of lane: the prompt's tokens and those before the fork, as a prompt, are answered so."""
    answer = either.complete("Once upon a time there was", max_tokens=16, seed=3, ignore_eos=True)
    for step, choice in ((4, answer.alternatives(4)[1]), (1, " very old"), (9, "")):
        branch = answer.fork(step, choice, max_tokens=10)
        begun = [*answer.prompt_token_ids, *branch.token_ids[: branch.begun]]
        equal = either.complete(begun, max_tokens=10, seed=3, ignore_eos=True)
        assert branch.token_ids[branch.begun :] == equal.token_ids


def test_a_branch_reuses_what_was_read(either: Any) -> None:
    """Without a seed it reads the new token only; the answer's own cells are kept for it."""
    answer = either.complete("Once upon a time " * 20, max_tokens=30, temperature=0, ignore_eos=True)
    branch = answer.fork(25, either.tokenize("a")[-1], max_tokens=3)
    assert branch.usage.prompt_tokens == answer.usage.prompt_tokens + 26
    assert branch.usage.prompt_tokens - branch.usage.cached_tokens <= 2


def test_what_a_branch_takes_over(scripted: Any, answers: dict[str, str]) -> None:
    """Stop texts, limit and sampling as they were, a seed only with a seed; each can be changed."""
    question = min(answers)
    answer = scripted.complete(question, seed=5, max_tokens=30, stop=">.", temperature=0.3, tag="t")
    branch = answer.fork(2, "")
    assert (branch.text, branch.stop, branch.finish_reason) == (answer.text, ">.", "stop")
    assert (branch.sampling, branch.seed, branch.seeded, branch.tag) == (answer.sampling, 5, True, "t")
    assert branch.budget.max_tokens == 30
    changed = answer.fork(2, "", stop="never", seed=6, temperature=0, max_tokens=2, tag="u", n=2)
    assert [one.text for one in changed] == [answers[question][: len(changed[0].text)]] * 2
    assert [one.usage.completion_tokens for one in changed] == [2, 2]
    assert (changed[0].sampling.temperature, changed[0].sampling.top_k) == (0, answer.sampling.top_k)
    assert changed[0].receipt["asked"] == {"stop": ["never"], "n": 2, "seed": 6}
    assert len(answer.branches) == 3
    drawn = scripted.complete(question, max_tokens=4)
    assert not drawn.fork(1, "").seeded


def test_a_branch_of_each_sample(scripted: Any, answers: dict[str, str]) -> None:
    """A sample's branch goes on from that sample, with its seed."""
    samples = scripted.complete(min(answers), n=3, seed=5, max_tokens=9)
    branch = samples[2].fork(1, "")
    assert branch.seed == samples[2].seed
    assert samples[2].branches == (branch,)
    assert samples[0].branches == ()


def test_a_branch_streams(scripted: Any, answers: dict[str, str]) -> None:
    """Its first chunk brings what was given; it stands in `branches` when it has ended, interrupted too."""
    question = min(answers)
    answer = scripted.complete(question, seed=5, max_tokens=30)
    stream = answer.fork(2, "", stream=True)
    chunks = list(stream)
    assert "".join(chunk.delta for chunk in chunks) == answers[question] == stream.completion.text
    assert answer.branches == (stream.completion,)
    cut = answer.fork(1, "", stream=True, ignore_eos=True, max_tokens=1000)
    next(cut)
    cut.cancel()
    assert answer.branches[-1].finish_reason == "interrupted"


@pytest.mark.parametrize("name", TALKERS)
def test_a_structured_answer_is_forked(loaded: Callable[..., Any], name: str) -> None:
    """The mask goes on from there; what it forbids is refused; the instance is whole."""
    model = loaded(name)
    answer = model.structured("Invent a person.", PERSON, seed=1, max_tokens=60)
    pieces = answer.pieces()
    place = next(i for i in range(len(pieces)) if "".join(pieces[:i]).endswith('"name": "'))
    for choice in (answer.alternatives(place)[1], "Zo"):
        branch = answer.fork(place, choice)
        assert branch.text.startswith("".join(branch.pieces()[: branch.begun]))
        assert 0 <= branch.parsed["age"] <= 99
        assert branch.mode == "structured"
    with pytest.raises(lm.StructuredOutputError, match="No answer begins with"):
        answer.fork(0, "[")
    choice = model.chat(HI, choices=["yes it is", "yes it was", "no"], seed=1, max_tokens=9)
    assert choice.fork(0, "yes it w").text == "yes it was"


def test_a_stop_text_may_begin_before_the_fork(scripted: Any, answers: dict[str, str]) -> None:
    """One that reaches from what is kept into what is new ends the branch, and the text is without it."""
    question = min(answers)  # <0> is <0>, <0>.
    answer = scripted.complete(question, seed=5, max_tokens=30, stop="zzz")
    branch = answer.fork(1, "", stop="0> is")
    assert (branch.text, branch.stop) == ("<", "0> is")


def test_a_thinking_part_is_forked(scripted_model: Any) -> None:
    """A fork inside of it goes on thinking, one after it answers."""
    template = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}<|end|>{% endfor %}<|assistant|>"
    template += "{# <think> </think> #}"
    thought = chain("<|assistant|>", "<think>", "hm ", "so ", "</think>", "green", EOS)
    model = scripted_model(thought, controls=["<|user|>", "<|assistant|>", "<|end|>"],
                           user_defined=["<think>", "</think>"], template=template)  # fmt: skip
    answer = model.chat(HI, seed=1, max_tokens=20)
    assert (answer.thinking, answer.text) == ("hm so", "green")
    inside = answer.fork(2, "")
    assert (inside.thinking, inside.text) == ("hm so", "green")
    after = answer.fork(4, "")
    assert (after.thinking, after.text, after.begun) == ("hm so", "green", 4)
    assert after.messages[-1] == answer.messages[-1]
    chunks = list(answer.fork(2, "", stream=True))
    assert chunks[0].thinking.startswith("hm")


def test_a_begun_answer_is_forked(scripted: Any, answers: dict[str, str]) -> None:
    """What it was begun with can be kept or replaced; the conversation holds the branch once."""
    question = min(answers)
    ask = [{"role": "user", "content": "say"}]
    answer = scripted.chat(ask, prefill=question, seed=1)
    kept = answer.fork(2, "")
    assert (kept.text, kept.prompt) == (answer.text, answer.prompt + "<0>")
    assert kept.messages == answer.messages
    other = sorted(answers)[1]
    assert answer.fork(0, other).text == other + answers[other]
    added = scripted.chat([*ask, {"role": "assistant", "content": question}], seed=1)
    branch = added.fork(1, "")
    assert branch.text == added.text
    assert branch.messages == added.messages
    assert sum(part.tokens for part in branch.budget.parts) == branch.usage.prompt_tokens


def test_the_window_is_guarded(scripted: Any, answers: dict[str, str]) -> None:
    """What is left of it is the limit, and that is said; where nothing is left, it is refused."""
    question = min(answers)
    answer = scripted.complete(question, seed=1, max_tokens=1000, ignore_eos=True)
    branch = answer.fork(900, "")
    left = scripted.window - answer.usage.prompt_tokens - 900
    assert branch.budget.max_tokens == left
    assert f"The window leaves {left} tokens for the rest of the answer." in branch.notes
    with pytest.raises(lm.ContextOverflowError, match="the window 1,024"):
        answer.fork(1000, "x" * 200)


def test_forks_that_cannot_be(scripted: Any, answers: dict[str, str]) -> None:
    """Steps and tokens that are none, options of the prompt, ends, other processes, closed models."""
    answer = scripted.complete(min(answers), seed=1, max_tokens=9)
    count = len(answer.token_ids)
    assert answer.fork(count, "x", max_tokens=1).token_ids[:count] == answer.token_ids
    for step in (count + 1, -count - 1):
        with pytest.raises(lm.OptionError, match="There is no step"):
            answer.fork(step, "x")
    with pytest.raises(lm.OptionError, match=f"has {count} tokens"):
        answer.alternatives(count)
    for step, choice in (("0", "x"), (0, 1.5), (0, True), (True, "x")):
        with pytest.raises(lm.InputTypeError):
            answer.fork(step, choice)
    with pytest.raises(lm.InputTypeError, match="k is"):
        answer.alternatives(0, k="5")
    with pytest.raises(lm.OptionError, match="k is 0"):
        answer.alternatives(0, k=0)
    with pytest.raises(lm.OptionError, match="There is no token"):
        answer.fork(0, 10**6)
    with pytest.raises(lm.OptionError, match="ends the answer"):
        answer.fork(1, scripted.backend.tokenizer.eos_id)
    with pytest.raises(lm.OptionError, match="begins with nothing"):
        answer.fork(0, "")
    for option in ("prefill", "overflow", "drop_thinking"):
        with pytest.raises(lm.OptionError, match=f"{option} is about the prompt"):
            answer.fork(0, "x", **{option: "y"})
    copy = pickle.loads(pickle.dumps(answer))
    with pytest.raises(lm.OptionError, match="not written in this process"):
        copy.fork(0, "x")
    with pytest.raises(lm.OptionError, match="is not known here"):
        copy.alternatives(0)
    assert copy.pieces() is None
    scripted.close()
    with pytest.raises(lm.ModelClosedError):
        answer.fork(1, "x")


def test_a_source_without_logits() -> None:
    """Alternatives are those that were told, and a branch is a request that begins so."""
    model = script(["red green blue", " white", Script(" black")])
    answer = model.complete("Say", max_tokens=9, logprobs=2)
    (only,) = answer.alternatives(1)
    assert (only.text, only.drawn, only.probability) == (" green", True, pytest.approx(0.9))
    branch = answer.fork(2, " grey")
    assert branch.text == "red green grey white"
    assert "".join(branch.pieces()) == branch.text
    assert model.backend.requests[-1].begun == branch.token_ids[: branch.begun]
    plain = model.complete("Say", max_tokens=9)
    with pytest.raises(lm.OptionError, match="logprobs=K"):
        plain.alternatives(0)
