"""`prompt_logprobs`, and `echo` with `logprobs`, of `/v1/completions`: what is told, when, and for whom."""

from __future__ import annotations

import http.client
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest
from serving.conftest import Served
from settled import joined, until

TEXT = "/v1/completions"
PROMPT, TAIL = "The capital of France is", " Paris, of course 🙂"


def tail_of(told: list[Any], ids: list[int]) -> float:
    return sum(one[str(token)]["logprob"] for token, one in zip(ids, told[-len(ids) :], strict=True))


def test_a_prompt_is_told_as_vllm_tells_it(served: Callable[..., Served], either: Any) -> None:
    """Through OpenAI's client: an object by id a token, null for the first; the sum is that of `score`, the
    ranks and alternatives are those of `read`."""
    here = served(either)
    tail = either.backend.tokenizer.tokenize(TAIL)
    ids = [*either.tokenize(PROMPT), *tail]
    extra = {"prompt_logprobs": 2, "logprob_start_len": len(ids) - len(tail)}
    client = here.openai()
    made = client.completions.create(model=either.name, prompt=[ids], max_tokens=1, extra_body=extra)
    told: Any = made.choices[0].model_extra["prompt_logprobs"]  # type: ignore[index]
    assert told[: -len(tail)] == [None] * (len(ids) - len(tail))
    assert tail_of(told, tail) == pytest.approx(either.score(PROMPT, [TAIL])[0], abs=1e-9)
    body = here.post(TEXT, prompt=ids, max_tokens=0, prompt_logprobs=2)
    assert body["choices"][0]["text"] == ""
    assert body["usage"]["prompt_tokens"] == len(ids)
    whole = body["choices"][0]["prompt_logprobs"]
    assert whole[0] is None
    for token, one in zip(either.read(either.detokenize(ids)).tokens[1:], whole[1:], strict=True):
        own = one[str(token.id)]
        assert (next(iter(one)), own["decoded_token"]) == (str(token.id), token.text)
        assert own["logprob"] == pytest.approx(token.logprob, abs=0.05)
        assert abs(own["rank"] - token.rank) <= max(1, token.rank // 20)
        others = [entry for key, entry in one.items() if key != str(token.id)]
        assert [entry["rank"] for entry in others] == ([1, 2] if own["rank"] > 2 else [3 - own["rank"]])


def test_several_prompts_are_told_each_by_itself(served: Callable[..., Served], short: Any) -> None:
    """Whatever they have in common and however they are put together: each is what it is alone."""
    here = served(short)
    begin = short.tokenize(PROMPT)
    prompts = [[*begin, *short.tokenize(text)] for text in (" a", " Paris", " a city", " Paris")] + [begin]
    asked = {"max_tokens": 0, "prompt_logprobs": 1, "logprob_start_len": len(begin)}
    choices = here.post(TEXT, prompt=prompts, n=2, **asked)["choices"]
    assert [one["index"] for one in choices] == list(range(10))
    for place, prompt in enumerate(prompts):
        [alone] = here.post(TEXT, prompt=[prompt], **asked)["choices"]
        assert choices[2 * place]["prompt_logprobs"] == alone["prompt_logprobs"]
        assert choices[2 * place + 1]["prompt_logprobs"] == alone["prompt_logprobs"]


@pytest.mark.parametrize("ends", [False, True])
def test_an_echo_is_scored_as_evaluation_harnesses_do(
    served: Callable[..., Served], short: Any, ends: bool
) -> None:
    """lm-evaluation-harness sums what stands between the context and one token written; also where the model
    ends at once, the last column is not the prompt's."""
    here = served(short)
    context, tail = short.tokenize(PROMPT), short.tokenize(TAIL)
    end = dict.fromkeys(short.backend.tokenizer.eog_ids, 100.0)
    body = here.post(
        TEXT, prompt=[[*context, *tail]], temperature=0, max_tokens=1, logprobs=1, seed=1234, echo=True,
        logit_bias={str(token): bias for token, bias in end.items()} if ends else {},
    )  # fmt: skip
    [choice] = body["choices"]
    assert choice["text"].startswith(PROMPT + TAIL)
    columns = choice["logprobs"]
    assert (columns["token_logprobs"][0], columns["top_logprobs"][0]) == (None, None)
    kept = columns["token_logprobs"][len(context) : -1]
    assert sum(kept) == pytest.approx(short.score(PROMPT, [TAIL])[0], abs=1e-9)
    greedy = [
        value == max(top.values())
        for value, top in zip(kept, columns["top_logprobs"][len(context) : -1], strict=True)
    ]
    ranks = [token.rank for token in short.read(PROMPT + TAIL).tokens[len(context) :]]
    assert greedy == [rank == 1 for rank in ranks]
    assert columns["text_offset"][: len(context) + 1] == [0, 3, 11, 14, 21, 24]
    assert (columns["tokens"][-1] in ("<|im_end|>", "<|endoftext|>")) is ends


def test_what_cannot_be_told_is_refused_by_name(served: Callable[..., Served], scripted: Any) -> None:
    """Streamed, of a model elsewhere, more than an answer holds, nothing at all, a prompt over the window."""
    here = served(scripted)
    for body, param in (
        ({"prompt_logprobs": 1, "stream": True}, "prompt_logprobs"),
        ({"echo": True, "logprobs": 1, "stream": True}, "echo"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"prompt_logprobs": 21}, "prompt_logprobs"),
        ({"prompt": ["a b"] * 50, "n": 128, "prompt_logprobs": 20, "max_tokens": 0}, "prompt"),
        ({"prompt": "", "prompt_logprobs": 0, "max_tokens": 0}, "prompt"),
        ({"prompt": [[10**6]], "prompt_logprobs": 0, "max_tokens": 0}, "prompt"),
    ):
        here.refused(TEXT, param, **{"prompt": "a b", **body})
    over = here.refused(TEXT, prompt=[[1] * (scripted.window + 1)], prompt_logprobs=0, max_tokens=0)
    assert (over["type"], over["n_ctx"]) == ("exceed_context_size_error", scripted.window)
    here.post(
        TEXT,
        prompt=[[1] * scripted.window],
        prompt_logprobs=0,
        logprob_start_len=scripted.window - 2,
        max_tokens=0,
    )
    words = served(answers=[" x"]).refused(TEXT, "prompt_logprobs", prompt="a", prompt_logprobs=1)["message"]
    assert "elsewhere" in words


class Held:
    """The engine's place for such work is taken on a thread of its own, until `release`."""

    def __init__(self, model: Any) -> None:
        self._free, taken = threading.Event(), threading.Event()

        def hold() -> None:
            with model.backend.local.side_job("hold a test"):
                taken.set()
                self._free.wait(120)

        self._thread = threading.Thread(target=hold, daemon=True)
        self._thread.start()
        assert taken.wait(120)

    def release(self) -> None:
        self._free.set()
        self._thread.join(120)


def test_who_goes_is_read_for_no_longer(served: Callable[..., Served], scripted: Any) -> None:
    """A closed connection ends the reading, though its turn had not come to an end."""
    here = served(scripted)
    held = Held(scripted)
    try:
        client = http.client.HTTPConnection(here.server.host, here.server.port)
        body = {"prompt": "a b c", "max_tokens": 0, "prompt_logprobs": 0}
        client.request("POST", TEXT, json.dumps(body))
        until(lambda: any(reading.begun for reading in here.server._state.answers))
        client.close()
        until(lambda: [row.ended for row in here.server.log] == ["disconnected"])
    finally:
        held.release()
    assert here.post(TEXT, prompt="a b c", max_tokens=0, prompt_logprobs=0)["usage"]["prompt_tokens"] == 6


def test_one_who_asks_much_lets_others_through(served: Callable[..., Served], scripted: Any) -> None:
    """A request of several windows of tokens is read a window at a time, and a short one in between."""
    here = served(scripted)
    state = here.server._state
    held = Held(scripted)
    long = [7] * (scripted.window - 20)
    asked: dict[str, Any] = {"max_tokens": 0, "prompt_logprobs": 0, "logprob_start_len": len(long) - 2}
    try:
        bodies = [
            {"prompt": [[place, *long[1:]] for place in range(3)], **asked},
            {"prompt": [[7, 8]], **asked},
        ]
        bodies[1]["logprob_start_len"] = 1
        threads = []
        for count, body in enumerate(bodies, 1):
            threads.append(threading.Thread(target=here.post, args=(TEXT,), kwargs=body, daemon=True))
            threads[-1].start()
            until(lambda number=count: len(state.answers) == number)
    finally:
        held.release()
    joined(*threads)
    much, little = here.server.log
    assert (much.ended, little.ended) == ("length", "length")
    assert little.done < much.done
