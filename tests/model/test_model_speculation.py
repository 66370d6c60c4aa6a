"""Tokens guessed ahead: the answers are those of plain decoding, and everything around them stays right."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from scripted_gguf import EOS, build, chain

import llama_magic as lm
from llama_magic.errors import OptionError

LETTERS = [chr(0x4E00 + i) for i in range(30)]
TEXT = "".join(LETTERS)


@pytest.fixture(scope="module")
def copier(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A model that says 30 letters in order and ends."""
    path = tmp_path_factory.mktemp("copier") / "copier.gguf"
    with lm.load(build(path, chain(*LETTERS, EOS)).path, ctx=256, threads=1) as model:
        yield model


def _copy(model: Any, **options: Any) -> Any:
    # Seven letters are the answer's beginning: six are what a guess needs before guesses have paid.
    options = {"max_tokens": 60, "temperature": 0, "reuse": False, **options}
    return model.complete(TEXT + TEXT[:7], **options)


def test_a_copy_is_guessed_and_is_what_plain_decoding_gives(copier: Any) -> None:
    """Guesses are counted to the last one, in usage, receipt, figures and the model's stats; off is off."""
    copier.stats.reset()
    plain = _copy(copier, speculate="off")
    answer = _copy(copier)
    assert answer.text == plain.text == TEXT[7:]
    assert answer.token_ids == plain.token_ids
    assert (plain.usage.drafted_tokens, plain.usage.accepted_tokens) == (0, 0)
    # 3 guesses are what may be lost at first, then 7 and 11 (rows come by fours); 10 tokens are left then.
    drafted, accepted = 3 + 7 + 11, 3 + 7 + 10
    assert (answer.usage.drafted_tokens, answer.usage.accepted_tokens) == (drafted, accepted)
    assert answer.receipt["usage"]["drafted_tokens"] == drafted
    assert answer.receipt["usage"]["accepted_tokens"] == accepted
    assert "drafted_tokens" not in plain.receipt["usage"]
    assert plain.receipt["asked"]["speculate"] == "off"
    assert "speculate" not in answer.receipt.get("asked", {})
    assert f"({accepted} of {drafted} guesses accepted)" in str(answer._repr_mimebundle_()["text/plain"])
    assert (copier.stats.drafted_tokens, copier.stats.accepted_tokens) == (drafted, accepted)
    assert answer.request == plain.request  # it is no part of what equal requests have in common


def test_chunks_say_what_was_guessed(copier: Any) -> None:
    """While it is written, too: the guesses of all chunks are those of the answer."""
    stream = copier.complete(TEXT + TEXT[:7], max_tokens=60, temperature=0, reuse=False, stream=True)
    chunks = list(stream)
    usage = stream.completion.usage
    assert sum(chunk.guessed for chunk in chunks) == usage.accepted_tokens == 20
    struck = [text for chunk in chunks for text in chunk.struck]
    assert usage.accepted_tokens + len(struck) == usage.drafted_tokens
    parts = stream.completion.drafts.parts
    assert "".join(struck) == "".join(text for text, kind in parts if kind == "struck")


def test_a_wrong_choice_is_refused(copier: Any) -> None:
    """It names what is known."""
    with pytest.raises(OptionError, match="speculate is 'yes'; expected 'auto' or 'off'"):
        _copy(copier, speculate="yes")


@pytest.mark.parametrize("length", range(1, 25))
def test_an_answer_ends_where_its_tokens_end(copier: Any, length: int) -> None:
    """At any place of a stretch of guesses, and at the edge of the window; cells are those of the answer."""
    answer = _copy(copier, max_tokens=length)
    assert answer.text == TEXT[7 : 7 + length]
    assert answer.finish_reason == ("stop" if length > 23 else "length")
    assert copier.kv.used == 38 + min(length, 24) - 1
    window = copier.complete("x" * (256 - 38 - length) + TEXT + TEXT[:7], max_tokens=length, temperature=0)
    assert window.text == answer.text
    assert window.budget.free == 0


@pytest.mark.parametrize("at", range(8, 30, 3))
def test_a_stop_text_ends_inside_of_a_guess(copier: Any, at: int) -> None:
    """Nothing of it is shown, and the next answer finds no cell of what was guessed behind it."""
    stop = TEXT[at : at + 2]
    answer = _copy(copier, stop=stop)
    assert (answer.text, answer.stop, answer.finish_reason) == (TEXT[7:at], stop, "stop")
    assert copier.kv.used <= 38 + len(answer.token_ids)
    assert copier.complete(TEXT + TEXT[: at + 2], max_tokens=60, temperature=0).text == TEXT[at + 2 :]


def test_every_step_can_be_looked_at(copier: Any) -> None:
    """Log-probabilities and the sampler's road of a guessed token are those of a drawn one."""
    plain, answer = (_copy(copier, logprobs=2, speculate=how) for how in ("off", "auto"))
    assert answer.usage.accepted_tokens
    assert answer.logprobs == plain.logprobs
    for step in (0, 5, 22, 23):
        assert answer.xray(step).stages == plain.xray(step).stages


def test_a_branch_goes_on_from_a_guessed_token(copier: Any) -> None:
    """Fork and reuse take over cells that were written as guesses."""
    answer = _copy(copier, reuse=True)
    branch = answer.fork(15, LETTERS[0])
    assert branch.text == TEXT[7:22] + TEXT
    again = copier.complete(TEXT + TEXT[:20], max_tokens=60, temperature=0)
    assert again.text == TEXT[20:]
    assert again.usage.cached_tokens >= 38


def test_a_stream_that_is_closed_leaves_the_model_ready(copier: Any) -> None:
    """In the middle of guesses; what was told is the beginning of the answer."""
    for count in range(1, 20, 4):
        told = ""
        with _copy(copier, stream=True) as stream:
            for chunk in stream:
                told += chunk.delta
                if len(told) >= count:
                    break
        assert TEXT[7:].startswith(told)
        assert _copy(copier).text == TEXT[7:]


def test_a_constraint_is_kept_on_the_way(copier: Any) -> None:
    """Masks go from guess to guess; where the constraint wants something else, the guesses end."""
    free = _copy(copier, regex="[\u4e00-\u4e20]*", speculate="auto")
    assert free.text == TEXT[7:]
    assert free.usage.accepted_tokens
    bound = _copy(copier, regex=f"{TEXT[7:15]}[{TEXT[:3]}]{{2}}{TEXT[2:]}")
    plain = _copy(copier, regex=f"{TEXT[7:15]}[{TEXT[:3]}]{{2}}{TEXT[2:]}", speculate="off")
    assert bound.token_ids == plain.token_ids
    assert bound.text.startswith(TEXT[7:15])


@pytest.fixture(scope="module")
def certain(loaded: Any) -> Any:
    """A real model with two threads and a long cache, where a row alone would split its keys over them."""
    return loaded("smollm2", threads=2)


@pytest.mark.parametrize("options", [{"temperature": 0}, {"seed": 5}])
def test_guesses_change_no_token_where_rows_are_alike(certain: Any, options: Any) -> None:
    """Greedy and seeded, behind what was read, reused, or written as guesses; else there are none."""
    text = "One, two, three, four, five, six, seven, eight, nine, ten. "
    drafted = 0
    for prompt in (text * 14 + "One, two,", text * 14 + "One, two, three, four. One, two,"):
        answers = [
            certain.complete(prompt, max_tokens=16, speculate=how, **options) for how in ("off", "auto")
        ]
        assert answers[0].token_ids == answers[1].token_ids
        assert answers[0].usage.drafted_tokens == 0
        drafted += answers[1].usage.drafted_tokens
        if "seed" in options:
            receipts = [{k: v for k, v in one.receipt.items() if k != "asked"} for one in answers]
            assert receipts[0] == receipts[1]
    if certain.backend.call(lambda core: core.alike()):
        assert drafted >= 10
    else:
        assert drafted == 0
        assert "the last bits of a row depend" in answers[1].drafts.reason


def test_where_rows_differ_only_free_draws_are_guessed(copier: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer without a seed, at a temperature. The others say why not, when asked."""
    monkeypatch.setattr(copier.backend.call(lambda core: core), "alike", lambda: False)
    assert _copy(copier, temperature=0.1).usage.drafted_tokens
    for options in ({}, {"temperature": 1, "top_k": 1}):
        answer = _copy(copier, **options)
        assert (answer.text, answer.usage.drafted_tokens) == (TEXT[7:], 0)
        assert "the last bits of a row depend on what is decoded beside it" in answer.drafts.reason
        assert f"nothing was guessed ahead: {answer.drafts.reason}" in str(answer.drafts)
    assert _copy(copier, temperature=0.1).drafts.reason == ""


@pytest.mark.parametrize("temperature", [0.7, 2.0, 4.0])
def test_draws_are_those_of_plain_decoding(
    copier: Any, temperature: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A draw takes one random number, guessed or not: with the same drawn seed the tokens are the same."""
    drafted = 0
    for seed in range(8):
        monkeypatch.setattr("secrets.randbelow", lambda _limit, seed=seed: seed)
        answers = [_copy(copier, temperature=temperature, speculate=how) for how in ("off", "auto")]
        assert answers[0].token_ids == answers[1].token_ids
        assert answers[0].seed == answers[1].seed == seed
        drafted += answers[1].usage.drafted_tokens
    assert drafted


@pytest.mark.parametrize("options", [{"temperature": 0}, {"seed": 3}])
def test_samples_are_guessed_side_by_side(copier: Any, options: Any) -> None:
    """Up to four of them, each with its share of the rows, and none of more: there a guess wins nothing."""
    for n, guessed in ((2, True), (4, True), (6, False)):
        answers = _copy(copier, n=n, reuse=True, max_tokens=24, **options)
        assert [answer.text for answer in answers] == [TEXT[7:]] * n
        drafted = [answer.usage.drafted_tokens for answer in answers]
        # The last of six begins a step later, so it ends alone.
        assert all(drafted) if guessed else not any(drafted[:-1])
        assert copier.complete(TEXT[3], max_tokens=3, **options).text == TEXT[4:7]  # none of it is left


def test_a_served_request_is_guessed(copier: Any) -> None:
    """By itself, with a seed and without; the model's figures count it."""
    served = lm.serve(copier, port=0)
    try:
        copier.stats.reset()
        for extra in ({"temperature": 0}, {"seed": 8}):
            body = {"model": copier.name, "prompt": TEXT + TEXT[:7], "max_tokens": 60, **extra}
            told = httpx.post(f"{served.url}/v1/completions", json=body, timeout=600).json()
            assert told["choices"][0]["text"] == TEXT[7:]
    finally:
        served.stop()
    assert (copier.stats.drafted_tokens, copier.stats.accepted_tokens) == (2 * 21, 2 * 20)


@pytest.mark.parametrize("name", ["smollm2"])
def test_a_real_text_is_copied_as_by_plain_decoding(loaded: Any, name: str) -> None:
    """Greedy, one thread: there a row has the same bits in a batch of several."""
    model = loaded(name)
    text = "One, two, three, four, five, six, seven, eight, nine, ten. "
    answers = [
        model.complete(text * 2 + "One, two,", max_tokens=32, temperature=0, reuse=False, speculate=how)
        for how in ("off", "auto")
    ]
    assert answers[0].token_ids == answers[1].token_ids
    assert answers[1].usage.accepted_tokens >= 10


def test_guesses_are_marked_in_the_text(copier: Any) -> None:
    """Accepted ones are part of the answer, struck ones stand where something else came; text says it all."""
    answer = _copy(copier, max_tokens=60)
    found = answer.drafts
    assert (found.drafted, found.accepted) == (21, 20)
    assert found.text == answer.text
    drawn = [text for text, kind in found.parts if kind == "drawn"]
    assert drawn == [TEXT[7], TEXT[11], TEXT[19]]
    (struck,) = [text for text, kind in found.parts if kind == "struck"]
    assert struck == TEXT[:1]
    assert found.parts[-1] == (struck, "struck")
    assert f"{TEXT[7]}{{+{TEXT[8:11]}+}}{TEXT[11]}" in str(found)
    assert f"[-{struck}-]" in str(found)
    html = found._repr_mimebundle_()["text/html"]
    assert f"<ins>{TEXT[8:11]}</ins>" in html
    plain = _copy(copier, speculate="off").drafts
    assert plain.parts == ((TEXT[7:], "drawn"),)
    assert "nothing was guessed ahead" in str(plain)


def test_guesses_are_known_when_the_model_is_closed(scripted_file: Any) -> None:
    """An answer that was stopped by it as well."""
    with lm.load(scripted_file.path, ctx=512, threads=1) as model:
        stream = model.complete("一", stream=True, max_tokens=400, ignore_eos=True)
        next(stream)
        model.close()
    list(stream)
    answer = stream.completion
    assert answer.drafts.drafted == answer.usage.drafted_tokens
    assert answer.text in answer.drafts.text
