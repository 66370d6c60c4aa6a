"""`score` and `decide` over servers: what is asked, how often, how many at a time, and what goes wrong."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import fake_servers
import numpy as np
import pytest
from fake_servers import Fake
from settled import until

import llama_magic as lm
from llama_magic.errors import ServerAnswerError

TELLS = ("vllm", "llama-server")
Start = Callable[..., Fake]
Connect = Callable[..., lm.Model]


def logprobs(fake: Fake, texts: list[str]) -> list[float]:
    return [-float(sum(fake.ids(one))) for one in texts]


@pytest.mark.parametrize("kind", TELLS)
def test_options_are_decided_where_the_server_tells(kind: str, start: Start, connect: Connect) -> None:
    """Their tokens' log-probabilities are added up, after the prompt that the server makes of the row; parts
    of a character too, of which llama-server tells nothing by themselves."""
    fake = start(kind)
    options = ["one two", "three", "?", "one"]
    odds = lm.decide(["a", "b"], "Which? {{ text }}", options=options, model=connect(fake), progress=False)
    for row in odds:
        assert [row.logprobs[one] for one in options] == pytest.approx(logprobs(fake, options))
        assert sum(row.probabilities.values()) == pytest.approx(1)


@pytest.mark.parametrize("kind", TELLS)
def test_nothing_is_asked_twice(kind: str, start: Start, connect: Connect) -> None:
    """A text twice, and one that another begins with, are told by that one: of vLLM one question for all,
    of llama-server one for each token after each beginning."""
    fake = start(kind)
    model = connect(fake)
    texts = ["one two", "one", "one two", "three"]
    assert model.score("a b", texts) == pytest.approx(logprobs(fake, texts))
    asked = [body["prompt"] for body in fake.asked]
    prompt, one, two, three = (fake.ids(text) for text in ("a b", "one", " two", "three"))
    if kind == "vllm":
        assert asked == [[[*prompt, *one, *two], [*prompt, *three]]]
    else:
        assert asked == [prompt, [*prompt, *one], prompt]
        assert all(body["cache_prompt"] for body in fake.asked)


@pytest.mark.parametrize("kind", TELLS)
def test_rows_are_asked_together(kind: str, start: Start, connect: Connect) -> None:
    """As many at once as the server takes, each row with its own options, which come in the rows' order."""
    fake = start(kind)
    model = connect(fake)
    rows = [{"text": f"t{i}", "named": [f"x{i}", f"y{i}"]} for i in range(8)]
    fake.together = threading.Barrier(4)  # which lets nobody through but four at a time
    seen: list[Any] = []
    odds = lm.decide(
        rows,
        "Which? {{ text }}",
        options=lambda row: row["named"],
        model=model,
        progress=lambda s: seen.append(s.done),
    )
    assert [decision.inputs["text"] for decision in odds] == [row["text"] for row in rows]
    for row, decision in zip(rows, odds, strict=True):
        assert [decision.logprobs[one] for one in row["named"]] == pytest.approx(logprobs(fake, row["named"]))
    assert sorted(seen) == seen


def test_a_row_is_shown_when_it_is_known(start: Start, connect: Connect) -> None:
    """Though fewer were begun than go at a time: an interrupt loses none that was answered before those."""
    model = connect(start("vllm"))
    seen: list[int] = []
    known: list[int] = []

    def options(row: Any) -> list[str]:
        until(lambda: not model.backend.errands)  # all that was asked so far is answered
        known.append(len(seen) and seen[-1])
        return ["one", f"two {row['n']}"]

    rows = [{"n": n} for n in range(5)]
    lm.decide(rows, "{{ n }}?", options=options, model=model, progress=lambda s: seen.append(s.done))
    assert max(known) >= 3


def test_a_busy_server_is_asked_again(start: Start, connect: Connect) -> None:
    """As it says; what it refuses costs that row alone."""
    fake = start("vllm", retry_after="0")
    model = connect(fake)
    fake.faults.statuses = [503, 503]
    assert model.score("a", ["one"]) == pytest.approx(logprobs(fake, ["one"]))
    fake.faults.statuses = [400]
    odds = lm.decide(["a", "b", "c"], options=["one", "two"], model=model, progress=False)
    assert [isinstance(decision.error, lm.BackendError) for decision in odds].count(True) == 1


def test_a_row_has_its_time(start: Start, connect: Connect) -> None:
    """A server that never answers is left when the time is up: nothing of it is under way then."""
    fake = start("vllm")
    model = connect(fake)
    fake.together = threading.Barrier(9)  # more than will ever ask
    with pytest.raises(lm.OutOfTimeError):
        model.score("a", ["one"], timeout=0.1)
    [decision] = lm.decide(["a"], options=["one", "two"], model=model, timeout=0.1, progress=False)
    assert isinstance(decision.error, lm.OutOfTimeError)
    fake.together.abort()
    fake.together = None
    assert model.score("a", ["one"]) == pytest.approx(logprobs(fake, ["one"]))
    model.close()
    with pytest.raises(lm.ModelClosedError):
        model.score("a", ["one"])


@pytest.mark.parametrize("kind", TELLS)
@pytest.mark.parametrize("lie", [float("nan"), 1.5, float("inf"), "much"])
def test_what_is_no_log_probability_is_not_believed(
    kind: str, lie: object, start: Start, connect: Connect, monkeypatch: pytest.MonkeyPatch
) -> None:
    """NaN and what is above 0 are an error that says what was told, of each row by itself."""
    fake = start(kind)
    model = connect(fake)
    monkeypatch.setattr(fake_servers, "_likely", lambda _fake, _token: {"logprob": lie, "rank": 2})
    with pytest.raises(ServerAnswerError, match=r"log-probabilit.*(nan|1\.5|inf|much)"):
        model.score("a", ["one"])
    odds = lm.decide(["a", "b"], options=["one", "two"], model=model, progress=False)
    assert [type(decision.error) for decision in odds] == [ServerAnswerError] * 2


@pytest.mark.parametrize("kind", ["openai", "ollama"])
def test_what_tells_no_odds_is_refused_before_a_row_is_asked(
    kind: str, start: Start, connect: Connect
) -> None:
    """By name, and with what would do."""
    fake = start(kind)
    model = connect(fake)
    asked = len(fake.asked)
    with pytest.raises(lm.BackendError, match="does not say how likely") as caught:
        lm.decide(["a"], options=["one", "two"], model=model, progress=False)
    assert "vLLM" in str(caught.value)
    assert len(fake.asked) == asked


def test_a_text_is_read_through_where_the_server_tells(start: Start, connect: Connect) -> None:
    """vLLM's prompt_logprobs are the surprise; a kind that tells none says so, and what would."""
    fake = start("vllm")
    found = connect(fake).read("one two three")
    ids = fake.ids("one two three")
    assert [token.logprob for token in found.tokens] == [None, -float(ids[1]), -float(ids[2])]
    assert found.tokens[1].rank == 2
    assert found.tokens[1].expected[0] == (" the", pytest.approx(np.exp(-0.25)))
    with pytest.raises(lm.BackendError, match="needs an engine"):
        connect(start("llama-server")).read("one two three")
