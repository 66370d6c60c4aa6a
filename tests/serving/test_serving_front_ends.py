"""What front ends send beside OpenAI's fields: honoured, taken where nothing changes, or refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from serving.conftest import Served, ask

from llama_magic.serving.fields.elsewhere import HOSTED
from llama_magic.serving.fields.idle import IDLE, SAME

CHAT, TEXT, NATIVE, NEWER = "/v1/chat/completions", "/v1/completions", "/completion", "/v1/responses"
PENALTIES = {"repeat_last_n": 64, "repeat_penalty": 1, "presence_penalty": 0, "frequency_penalty": 0}
DRY = {"dry_multiplier": 0, "dry_base": 1.75, "dry_allowed_length": 2, "dry_penalty_last_n": -1}
FUNCTION = {"name": "f", "arguments": "{}", "parsed_arguments": None}
REPLAYED = [
    {"role": "user", "content": [{"type": "text", "text": "Hi", "cache_control": {"type": "ephemeral"}}]},
    {"role": "assistant", "content": "a", "reasoning": "t", "parsed": {"a": 1}, "reasoning_details": [],
     "tool_calls": [{"index": 0, "id": "c", "type": "function", "function": FUNCTION}]},
    {"role": "tool", "tool_call_id": "c", "content": []},  # a tool that says nothing, as Zed has it
]  # fmt: skip
# One thing by the names of all servers that it knows.
TAVERN = {
    "prompt": "Hi", "n_predict": 20, "max_new_tokens": 20, "max_tokens": 20, "num_predict": 20, "n": 1,
    "model": "", "temperature": 0.7, "top_p": 0.5, "typical_p": 1, "typical": 1, "min_p": 0, "top_k": 40,
    "nsigma": 0, "top_n_sigma": 0, "min_keep": 0, "adaptive_target": -0.01, "adaptive_decay": 0.9, "tfs": 1,
    "top_a": 0, "skew": 0, "repeat_penalty": 1.2, "rep_pen": 1.2, "repetition_penalty": 1.2,
    "repeat_last_n": 9, "rep_pen_range": 9, "repetition_penalty_range": 9, "rep_pen_slope": 1,
    "smoothing_factor": 0, "smoothing_curve": 1, **DRY,
    "samplers": ["penalties", "dry", "top_n_sigma", "typ_p", "top_p", "min_p", "temperature", "adaptive_p"],
    "mirostat": 0, "mirostat_mode": 0, "mirostat_tau": 5, "mirostat_eta": 0.1, "xtc_threshold": 0.1,
    "xtc_probability": 0, "stop": ["\nUser:"], "stopping_strings": ["\nUser:"], "ignore_eos": False,
    "ban_eos_token": False, "min_tokens": 0, "add_bos_token": True, "skip_special_tokens": True,
    "include_reasoning": True, "custom_token_bans": "", "banned_strings": [], "guidance_scale": 1,
    "negative_prompt": "", "grammar": "", "grammar_string": "", "logit_bias": [], "cache_prompt": True,
    "max_tokens_second": 0, "num_ctx": 512, "truncation_length": 512, "api_type": "llamacpp",
    "api_server": "http://127.0.0.1:8080", "legacy_api": False, "sampler_seed": -1, "seed": -1,
}  # fmt: skip
SENT: dict[str, tuple[str, dict[str, Any]]] = {
    "SillyTavern": (NATIVE, TAVERN),
    "llama-server's page": (CHAT, ask(
        reasoning_format="auto", backend_sampling=False, timings_per_token=True, return_progress=True,
        temperature=0.8, top_k=40, typ_p=1, xtc_probability=0, xtc_threshold=0.1, dynatemp_range=0,
        dynatemp_exponent=1, max_tokens=-1, cache_prompt=True, samplers="edkypmxt", **PENALTIES, **DRY,
    )),
    "llama.cpp's clients": (NATIVE, {
        "prompt": "a", "n_predict": 4, "id_slot": -1, "n_keep": 0, "seed": 4294967295, "tfs_z": 1, "lora": [],
        "samplers": "top_k;min_p;temperature", "t_max_predict_ms": 0, "mirostat": 0, "penalize_nl": False,
    }),
    "vLLM's clients": (CHAT, ask(
        skip_special_tokens=True, spaces_between_special_tokens=True, include_stop_str_in_output=False,
        stop_token_ids=[], repetition_penalty=1.0, length_penalty=1, use_beam_search=False, priority=0,
        add_special_tokens=False, echo=False, include_reasoning=True, top_logprobs=0, logprobs=False,
    )),
    "OpenAI's, of 2026": (CHAT, ask(
        prompt_cache_retention="24h", service_tier="flex", store=False, max_completion_tokens=-1,
    )),
    "Codex": (NEWER, {
        "input": "Hi", "reasoning": {"effort": None, "summary": "auto"}, "store": False,
        "include": ["reasoning.encrypted_content", "web_search_call.action.sources"],
        "client_metadata": {"x-codex-installation-id": "1"},
    }),
    "what an answer was, sent back": (CHAT, {"messages": REPLAYED}),
}  # fmt: skip


@pytest.mark.parametrize("who", SENT)
def test_what_front_ends_send_is_answered(who: str, served: Callable[..., Served]) -> None:
    """Each with fields that no other sends; the answer is the model's, whole."""
    path, body = SENT[who]
    here = served(answers=lambda _request: "One two three.")
    told = here.post(path, **body)
    text = {
        CHAT: lambda: told["choices"][0]["message"]["content"],
        NATIVE: lambda: told["content"],
        NEWER: lambda: told["output"][0]["content"][0]["text"],
    }[path]()
    assert text == "One two three."


def test_a_field_that_would_change_the_answer_is_refused(served: Callable[..., Served]) -> None:
    """With the value that is taken, and what to write in its place."""
    here = served()
    other = {"reasoning_format": "none", "lora": [{"id": 0}], "stop_token_ids": [2], "negative_prompt": "x"}
    switches = {"true": False, "false": True}
    for name, row in IDLE.items():
        if row.value:
            error = here.refused(CHAT, name, **ask(**{name: other.get(name, switches.get(row.value, 7))}))
            assert error["message"] == f"{name} is taken as {row.value} alone. {row.why}"


def test_another_name_says_the_same_or_is_refused(served: Callable[..., Served]) -> None:
    """One that says another thing is named, or what to write for it; what is off asks for nothing."""
    here = served()
    here.post(NATIVE, **TAVERN)
    request = here.backend.requests[-1]
    assert (request.max_tokens, request.sampling.repeat_penalty, request.stops) == (20, 1.2, ("\nUser:",))
    off = {name: row.off for name, row in SAME.items() if row.off is not None}
    here.post(CHAT, **ask(**off))
    for path, body in ((CHAT, ask()), (NEWER, {"input": "a"}), (NATIVE, {"prompt": "a"})):
        for name in SAME:
            assert "is not taken here. Write " in here.refused(path, name, **body, **{name: 7})["message"]
    for name in ("rep_pen", "max_tokens", "stopping_strings", "ban_eos_token"):
        words = here.refused(NATIVE, name, **{**TAVERN, name: 0})["message"]
        assert words.startswith(f"{name} and ")
        assert words.endswith(" alone.")


def test_a_client_may_not_take_the_window_for_larger(served: Callable[..., Served]) -> None:
    """Its own count of it is taken up to what the window holds, which it is told otherwise."""
    here = served(window=64)
    for name in ("num_ctx", "truncation_length"):
        here.post(CHAT, **ask(**{name: 64}))
        assert "holds 64 tokens" in here.refused(CHAT, name, **ask(**{name: 65}))["message"]


def test_tools_that_others_run_are_refused_with_what_to_do(served: Callable[..., Served]) -> None:
    """By the type that is not taken, and how the client that sends it unasked is told not to."""
    here = served()
    for kind, words in HOSTED.items():
        error = here.refused(NEWER, "tools[0].type", input="a", tools=[{"type": kind}])
        assert error["message"].endswith(f"is '{kind}'; expected 'function', 'custom'. {words}")


def test_an_order_of_samplers_may_be_a_text(served: Callable[..., Served]) -> None:
    """As llama-server takes it: names with a semicolon between them, or a letter each."""
    here = served()
    orders = {
        "top_k;typ_p;temp": ("top_k", "typical_p", "temperature"),
        "edkypmxt": ("penalties", "dry", "top_k", "typical_p", "top_p", "min_p", "xtc", "temperature"),
        "temp": ("temperature",),
    }
    for written, order in orders.items():
        here.post(CHAT, **ask(samplers=written))
        assert here.backend.requests[-1].sampling.samplers == order
    here.refused(CHAT, "samplers", **ask(samplers="top_k;nope"))


@pytest.mark.parametrize("path", [CHAT, TEXT, NATIVE])
def test_timings_are_told_where_they_are_asked_for(path: str, served: Callable[..., Served]) -> None:
    """Tokens of the prompt and those written, in the body and in the last event; nowhere without asking."""
    here = served(answers=lambda _request: "One two three.")
    given = ask() if path == CHAT else {"prompt": "Hi"}
    told = here.post(path, timings_per_token=True, **given)
    prompt = told["timings"]["prompt_n"]
    assert prompt == len(here.backend.requests[-1].prompt) > 0
    assert told["timings"]["predicted_n"] == 3
    events = [event for event in here.events(path, timings_per_token=True, **given) if "timings" in event]
    assert (events[-1]["timings"]["prompt_n"], events[-1]["timings"]["predicted_n"]) == (prompt, 3)
    assert len(events) > 1
    if path != NATIVE:  # that has them at its end in any case
        told = [here.post(path, **given), *here.events(path, **given)]
        assert not any("timings" in one for one in told)


@pytest.mark.parametrize("path", [CHAT, NATIVE])
def test_how_much_is_read_is_told_where_it_is_asked_for(path: str, served: Callable[..., Served]) -> None:
    """At last all of the prompt, before the first of the text, which is whole; nowhere without asking."""
    here = served(answers=lambda _request: "One two three.")
    given = ask() if path == CHAT else {"prompt": "Hi"}
    events = here.events(path, return_progress=True, **given)
    told = [event["prompt_progress"] for event in events if event.get("prompt_progress")]
    total = len(here.backend.requests[-1].prompt)
    assert [(one["total"], one["processed"], one["cache"]) for one in told][-1] == (total, total, 0)
    pieces = [e["content"] if path == NATIVE else e["choices"][0]["delta"].get("content") for e in events]
    assert "".join(filter(None, pieces)) == "One two three."
    assert not any(event.get("prompt_progress") for event in here.events(path, **given))


def test_no_limit_is_the_window(served: Callable[..., Served]) -> None:
    """-1 of a text is what the window holds, not the 16 of one that names none; 0 is refused."""
    here = served(window=64)
    here.post(TEXT, prompt="a b c", max_tokens=-1)
    request = here.backend.requests[-1]
    assert request.max_tokens == 64 - len(request.prompt)
    for path, limit in ((TEXT, "max_tokens"), (NATIVE, "n_predict")):
        assert "expected 1 or more, or -1" in here.refused(path, limit, prompt="a", **{limit: 0})["message"]


def test_thinking_that_is_told_by_its_other_name_is_thinking(served: Callable[..., Served]) -> None:
    """A thought that comes back as `reasoning` stands where `reasoning_content` does; no effort is none."""
    here = served()
    turns = [{"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    written = []
    for name in ("reasoning", "reasoning_content"):
        turns[1] = {"role": "assistant", "content": "b", name: "hm"}
        here.post(CHAT, messages=[*turns, {"role": "user", "content": "c"}])
        written.append(here.backend.requests[-1].text)
    assert written[0] == written[1]
    here.post(CHAT, **ask(reasoning_effort="none"))
    assert here.backend.requests[-1].text.endswith("<think>\n\n</think>\n\n")


def test_a_name_of_another_endpoint_is_answered_with_that_of_this_one(served: Callable[..., Served]) -> None:
    """Each endpoint has its own words for one thing."""
    here = served()
    for path, name, value, words in (
        (CHAT, "prompt", "a", "/v1/completions"),
        (TEXT, "messages", [], "/v1/chat/completions"),
        (NATIVE, "max_tokens", 3, "n_predict"),
        (NEWER, "max_tokens", 3, "max_output_tokens"),
        ("/v1/embeddings", "prompt", "a", "input"),
        ("/tokenize", "prompt", "a", "content"),
    ):
        needed = {CHAT: ask(), TEXT: {"prompt": "a"}, NATIVE: {"prompt": "a"}, "/tokenize": {"content": "a"}}
        body = {**needed.get(path, {"input": "a"}), name: value}
        assert words in here.refused(path, name, **body)["message"]
    elsewhere = {"/api/tags": "/v1", "/v1/messages": "/v1/chat/completions", "/openai/deployments/a": "/v1"}
    for path, words in elsewhere.items():
        assert words in here.client.get(path).json()["error"]["message"]
