"""llama.cpp's own server tests (tools/server/tests/unit, MIT), re-stated for our server.

Of shape, errors, security, streams and tokens; a docstring begins with the names of the tests there. Not
re-stated, for there is nothing here that they could ask: web pages and their assets (test_basic,
test_security), `/slots`, saved slots and shifted windows (a prompt that does not fit is refused), `/infill`,
`/rerank`, image parts, the router and its resumed streams (test_stream), pages of localhost that may ask
unnamed, and the field `verbose` (refused by name; `timings_per_token` and `return_progress`:
test_serving_front_ends); Anthropic's `/v1/messages` and Google's `/predict` (test_compat_anthropic,
test_compat_gcp: no such paths here), tools that the server runs (test_tools_builtin, test_server_tools,
test_mcp_servers: what runs code is the notebook), its proxy for pages (test_proxy), sleep (test_sleep: a
model is never let go of by itself), draft lengths and shifted windows (test_speculative), log lines
(test_kv_keep_only_active), `/lora-adapters` and the field `lora` (test_lora: adapters are a load option, and
with others it is another model here), metrics switched off, those of decodes, slots and drafts
(test_metrics), prompts as objects (test_embedding), `ignore_eos` told as biases (test_ignore_eos: it is no
bias here), a prefix of system messages and prompts without an end (test_template), timings and progress in
`/v1/responses` (test_compat_oai_responses: refused by name). Elsewhere in this folder: keys and CORS
(test_serving_guard), formats and tools (test_serving_chat: test_tool_call), OpenAI's package
(test_serving_clients), clients that go (test_serving_lifetime). Templates (test_template): tests/formatters.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from serving.conftest import Served, ask

from llama_magic.testing import Script

CHAT, TEXT, NATIVE = "/v1/chat/completions", "/v1/completions", "/completion"


def words(_request: Any) -> str:
    """Answer with eight tokens."""
    return " a b c d e f g h"


@pytest.mark.parametrize("limit", [1, 3, 8, 20])
def test_a_completion_is_counted_and_cut(served: Callable[..., Served], limit: int) -> None:
    """test_completion, test_completion_stream: the prompt's tokens, those written, and why it ended."""
    here = served(answers=words)
    body = here.post(NATIVE, prompt="I believe", n_predict=limit)
    assert body["tokens_evaluated"] == body["timings"]["prompt_n"] == len(here.model.tokenize("I believe"))
    assert body["tokens_predicted"] == body["timings"]["predicted_n"] == min(limit, 8)
    assert body["stop_type"] == ("limit" if limit <= 8 else "eos")
    events = here.events(NATIVE, prompt="I believe", n_predict=limit)
    assert [event["stop"] for event in events] == [False] * (len(events) - 1) + [True]
    assert "".join(event["content"] for event in events) == body["content"]
    assert events[-1]["tokens_predicted"] == min(limit, 8)
    assert events[-1]["content"] == ""


@pytest.mark.parametrize("path", [TEXT, NATIVE])
def test_streamed_and_whole_are_one_text(served: Callable[..., Served], path: str) -> None:
    """test_completion_stream_vs_non_stream."""
    here = served(answers=lambda _request: " é 🤗 媽")
    told = here.events(path, prompt="a")
    if path == TEXT:
        streamed = "".join(event["choices"][0]["text"] for event in told)
        assert streamed == here.post(path, prompt="a")["choices"][0]["text"] == " é 🤗 媽"
    else:
        streamed = "".join(event["content"] for event in told)
        assert streamed == here.post(path, prompt="a")["content"] == " é 🤗 媽"


def test_tokens_and_texts_make_one_prompt(served: Callable[..., Served]) -> None:
    """test_completion_with_tokens_input: tokens alone, and mixed with texts in one sequence."""
    here = served(answers=words)
    ids = here.model.tokenize("I believe")
    for prompt in (ids, [*ids, " that"], [ids[0], " believe"]):
        body = here.post(NATIVE, prompt=prompt, n_predict=2)
        assert isinstance(body["content"], str)
        assert body["tokens_evaluated"] >= len(ids)
    assert list(here.backend.requests[0].prompt) == ids
    here.refused(NATIVE, "prompt[1]", prompt=[ids[0], [1]])  # neither one prompt nor several


def test_several_prompts_have_an_answer_each(served: Callable[..., Served]) -> None:
    """test_completion_with_tokens_input: a list without a token is several; one of them is answered alone."""
    here = served(answers=lambda request: f" {request.text.split()[-1]} and more")
    ids = here.model.tokenize("say two")
    prompts: list[Any] = ["say one", ids, [*here.model.tokenize("say "), "three"]]
    bodies = here.post(NATIVE, prompt=prompts, n_predict=1, seed=5, n_probs=1)
    assert [(body["index"], body["content"]) for body in bodies] == [(0, " one"), (1, " two"), (2, " three")]
    assert bodies[1]["tokens_evaluated"] == len(ids)
    assert [len(body["completion_probabilities"]) for body in bodies] == [1, 1, 1]
    seeds = [request.seed for request in here.backend.requests]
    assert 5 in seeds
    assert len(set(seeds)) == 3  # the same prompt twice is drawn for twice
    texts, ended = ["", "", ""], []
    for event in here.events(NATIVE, prompt=prompts, n_predict=2):
        texts[event["index"]] += event["content"]
        ended += [event["index"]] * event["stop"]
    assert texts == [" one and", " two and", " three and"]
    assert ended == [0, 1, 2]
    assert here.post(NATIVE, prompt=["say one"], n_predict=1)["content"] == " one"
    error = here.refused(NATIVE, prompt=["a", "word " * 9000])
    assert error["type"] == "exceed_context_size_error"
    assert here.post(NATIVE, prompt=[[1], [2]], n_predict=1)[1]["tokens_evaluated"] == 1


def test_as_much_as_the_window_holds(served: Callable[..., Served]) -> None:
    """`n_predict` of -1, which clients of llama.cpp send: to the end of answer or window; 0 is refused."""
    here = served(answers=lambda _request: " word" * 500, window=64)
    body = here.post(NATIVE, prompt="a b", n_predict=-1)
    assert body["tokens_evaluated"] + body["tokens_predicted"] == 64
    assert body["stop_type"] == "limit"
    here.refused(NATIVE, "n_predict", prompt="a b", n_predict=0)


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("path", [CHAT, TEXT, NATIVE])
def test_a_prompt_over_the_window_is_refused(
    served: Callable[..., Served], path: str, streamed: bool
) -> None:
    """test_context_size_exceeded, test_ctx_shift_disabled_long_prompt: 400 before any event, both counts."""
    here = served(answers=words, window=64)
    long = "What is the best book? " * 40
    body = ask(long) if path == CHAT else {"prompt": long}
    error = here.refused(path, stream=streamed, **body)
    assert error["type"] == "exceed_context_size_error"
    assert error["n_ctx"] == 64 < error["n_prompt_tokens"]
    assert " Shorten the " in error["message"]
    assert "overflow" not in error["message"]  # of which there is no such field


def test_a_limit_that_would_fit_is_told_by_its_name(served: Callable[..., Served]) -> None:
    """Each path has its own; what is told is then taken."""
    here = served(answers=words, window=64)
    for path, name in ((CHAT, "max_tokens"), (NATIVE, "n_predict"), ("/v1/responses", "max_output_tokens")):
        text = "word " * 30
        asked: dict[str, Any] = {NATIVE: {"prompt": text}, CHAT: ask(text)}.get(path, {"input": text})
        told = here.refused(path, **{**asked, name: 60})["message"]
        fits = int(told.rpartition(f'("{name}": ')[2].partition(")")[0])
        here.post(path, **{**asked, name: fits})


@pytest.mark.parametrize(
    "messages",
    [
        "string",
        123,
        [],
        [{}],
        [{"role": 123}],
        [{"role": "system", "content": 123}],
        [{"content": "hello"}],
        [{"role": "user", "content": {}}],
        [{"role": "user", "content": "test"}, {}],
        [{"role": "user", "content": "test"}, {"role": "user", "content": {}}],
    ],
)
def test_what_is_no_conversation_is_refused(served: Callable[..., Served], messages: Any) -> None:
    """test_invalid_chat_completion_req: each 400, in the shape of all errors, naming the messages."""
    error = served().post(CHAT, 400, messages=messages)["error"]
    assert error["param"].startswith("messages")
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize("form", [{"openai": True}, {"openai": False}])
def test_biases_come_in_both_forms(served: Callable[..., Served], form: dict[str, bool]) -> None:
    """test_logit_bias: OpenAI's object and llama.cpp's pairs forbid the same tokens."""
    here = served(answers=words)
    ids = here.model.tokenize(" a b")
    given = {str(i): -100 for i in ids} if form["openai"] else [[i, -100] for i in ids]
    here.post(CHAT, **ask(logit_bias=given))
    assert dict(here.backend.requests[-1].sampling.logit_bias) == dict.fromkeys(ids, -100)


@pytest.mark.parametrize("path", [CHAT, NATIVE, "/v1/completions"])
def test_a_bias_of_false_bars_a_token(served: Callable[..., Served], path: str) -> None:
    """llama-server's form, in pairs and in an object; true is no bias, and half a token no token."""
    here = served(answers=words)
    asked = ask() if path == CHAT else {"prompt": "a"}
    for given in ([[5, False], [6, 2]], {"5": False, "6": 2}):
        here.post(path, **asked, logit_bias=given)
        assert dict(here.backend.requests[-1].sampling.logit_bias) == {5: -math.inf, 6: 2.0}
    error = here.refused(path, "logit_bias[0][1]", **asked, logit_bias=[[5, True]])
    assert error["message"] == "logit_bias[0][1]: expected a number, or false."
    for wrong in ([[5.5, 1]], [[5]], [[5, 1, 2]], {"5": True}, [[True, 1]]):
        assert here.refused(path, **asked, logit_bias=wrong)["param"].startswith("logit_bias")


def test_probabilities_are_told_of_each_token(served: Callable[..., Served]) -> None:
    """test_n_probs, test_n_probs_stream, test_logprobs_stream: id, text, bytes."""
    here = served(answers=words)
    whole = here.post(NATIVE, prompt="a", n_predict=4, n_probs=3)["completion_probabilities"]
    events = here.events(NATIVE, prompt="a", n_predict=4, n_probs=3)
    streamed = [told for event in events for told in event.get("completion_probabilities", ())]
    assert streamed == whole
    assert len(whole) == 4
    for told in whole:
        assert 1 <= len(told["top_logprobs"]) <= 3  # the scripted model tells of those that it has
        for one in (told, *told["top_logprobs"]):
            assert one["id"] >= 0
            assert one["logprob"] <= 0
            assert bytes(one["bytes"]).decode("utf-8", "replace") == one["token"]
    chat = [e["choices"][0] for e in here.events(CHAT, **ask(logprobs=True, top_logprobs=2, max_tokens=4))]
    told = [one for choice in chat if choice["logprobs"] for one in choice["logprobs"]["content"]]
    assert "".join(one["token"] for one in told) == "".join(c["delta"].get("content") or "" for c in chat)
    assert all(one["top_logprobs"] for one in told)


def test_several_choices_have_places(served: Callable[..., Served]) -> None:
    """test_chat_completions_multiple_choices: n answers, each role told once, each ended once."""
    here = served(answers=lambda _request: Script(samples=("x", "y")))
    choices = [choice for e in here.events(CHAT, **ask(n=2)) for choice in e["choices"]]
    for place, text in enumerate("xy"):
        mine = [choice for choice in choices if choice["index"] == place]
        assert [c["delta"].get("role") for c in mine].count("assistant") == 1
        assert "".join(c["delta"].get("content") or "" for c in mine) == text
        assert [c["finish_reason"] for c in mine if c["finish_reason"]] == ["stop"]


def test_a_conversation_is_counted_without_an_answer(served: Callable[..., Served]) -> None:
    """test_chat_completions_token_count: as many tokens as the usage says afterwards."""
    here = served(answers=words)
    counted = here.post("/v1/chat/completions/input_tokens", **ask("Hi there"))["input_tokens"]
    assert counted == here.post(CHAT, **ask("Hi there"))["usage"]["prompt_tokens"]


def test_texts_survive_tokens(served: Callable[..., Served]) -> None:
    """test_tokenize_detokenize, test_tokenize_with_pieces."""
    here = served()
    for text in ("What is the capital of France ?", "This is a test string with unicode 媽 and emoji 🤗"):
        tokens = here.post("/tokenize", content=text)["tokens"]
        assert here.post("/detokenize", tokens=tokens)["content"] == text
        pieces = here.post("/tokenize", content=text, with_pieces=True)["tokens"]
        assert [piece["id"] for piece in pieces] == tokens
        assert all(len(piece["piece"]) > 0 for piece in pieces)


def counts(here: Served) -> dict[str, float]:
    """Return the counts of /metrics of the first model, or of the server, by their names."""
    found, kinds = {}, {}
    for line in here.client.get("/metrics").text.splitlines():
        if line.startswith("# TYPE "):
            kinds[line.split()[2]] = line.split()[3]
        elif line.startswith("llamacpp:"):
            name, value = line.rsplit(" ", 1)
            name = name.partition("{")[0]
            assert kinds[name] == ("counter" if name.endswith("_total") else "gauge")
            found[name.removeprefix("llamacpp:")] = float(value)
    return found


def test_metrics_are_sums_of_what_answers_say(served: Callable[..., Served]) -> None:
    """test_metrics_prometheus_format, …_processed_and_cached, …_matches_requests, …_timings_are_finite."""
    here = served(answers=words)
    read = cached = written = 0
    for limit in (1, 4, 8):
        body = here.post(NATIVE, prompt="the quick brown fox", n_predict=limit)
        times = body["timings"]
        assert all(value is not None and value >= 0 for value in times.values())
        read, cached = read + times["prompt_n"], cached + times["cache_n"]
        written += times["predicted_n"]
    told = counts(here)
    assert (told["prompt_tokens_total"], told["prompt_tokens_cached_total"]) == (read, cached)
    assert told["tokens_predicted_total"] == written == 13
    assert told["requests_processing"] == told["requests_deferred"] == 0
    assert {"prompt_seconds_total", "tokens_predicted_seconds_total", "predicted_tokens_seconds"} <= set(told)


def test_vectors_of_all_forms_of_input(served: Callable[..., Served], scripted: Any) -> None:
    """test_embedding_single, _multiple, _mixed_input, _openai_library_base64: of length 1, a row an input."""
    here = served(scripted)
    ids = scripted.tokenize("ab")
    for given, rows in (
        ("ab", 1), (ids, 1), ([*ids, "c"], 1),
        (["ab", "c"], 2), (["ab", ids], 2), ([ids, ids], 2), ([ids, [*ids, "c"]], 2), (["a b" * 20], 1),
    ):  # fmt: skip
        data = here.post("/v1/embeddings", input=given)["data"]
        assert [row["index"] for row in data] == list(range(rows))
        for row in data:
            assert sum(value * value for value in row["embedding"]) == pytest.approx(1, abs=1e-3)
    body = here.post("/v1/embeddings", input=["ab", ids])
    assert body["data"][0]["embedding"] == body["data"][1]["embedding"]
    assert body["usage"]["prompt_tokens"] == body["usage"]["total_tokens"] == 2 * len(ids)


def test_a_response_keeps_its_names(served: Callable[..., Served]) -> None:
    """test_responses_with_openai_library, …_stream_…: one id each, one text."""
    here = served(answers=words)
    asked: dict[str, Any] = {
        "input": [{"role": "system", "content": "Book"}, {"role": "user", "content": "What is the best book"}]
    }
    whole = here.post("/v1/responses", **asked)
    assert whole["id"].startswith("resp_")
    assert whole["output"][0]["id"].startswith("msg_")
    events = here.events("/v1/responses", **asked)
    assert len({event["response"]["id"] for event in events if "response" in event}) == 1
    named = {event["item_id"] for event in events if "item_id" in event}
    named |= {event["item"]["id"] for event in events if "item" in event}
    assert [name[:4] for name in named] == ["msg_"]
    text = "".join(event["delta"] for event in events if event["type"] == "response.output_text.delta")
    last = events[-1]["response"]["output"][0]["content"][0]["text"]
    assert text == last == whole["output"][0]["content"][0]["text"] == words(None)


def test_guesses_change_no_text_and_no_window(served: Callable[..., Served], loaded: Any) -> None:
    """test_with_and_without_draft, test_multi_requests_parallel, test_slot_ctx_not_exceeded.

    Copied text at temperature 0 is mostly guessed; two who ask at once are told what plain decoding writes.
    """
    here = served(loaded("short", ctx=256))
    text = "one two three four five six seven eight nine ten, " * 3
    plain = here.model.complete(text, temperature=0, max_tokens=16, speculate="off")
    with ThreadPoolExecutor(2) as pool:
        asked = [pool.submit(here.post, NATIVE, prompt=text, temperature=0, n_predict=16) for _ in range(2)]
        assert [one.result()["content"] for one in asked] == [plain.text] * 2
    full = here.post(NATIVE, prompt=text * 7, temperature=0, n_predict=-1, ignore_eos=True)
    assert full["tokens_evaluated"] + full["tokens_predicted"] == 256


def test_clients_in_turns_find_what_was_read(served: Callable[..., Served], loaded: Any) -> None:
    """test_clear_and_restore: what another client's prompt pushed out of the cells comes back by itself."""
    here = served(loaded("short", ctx=256))
    long = "There lived a brave knight who travelled across mountains and rivers to find a golden sword. "
    first, other, again = (
        here.post(NATIVE, prompt=text, temperature=0, n_predict=1)["timings"]
        for text in (long * 8, "The quick brown fox " * 40, long * 8)
    )
    assert other["cache_n"] == 0
    assert again["cache_n"] >= first["prompt_n"] - 1 > 100
