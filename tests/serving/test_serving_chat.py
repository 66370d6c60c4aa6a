"""`/v1/chat/completions`, by raw bodies: shapes, streams, samples, log-probabilities, schemas, tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from serving.conftest import Served, ask

from llama_magic.testing import Script

CHAT = "/v1/chat/completions"
TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look.",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
    },
}
CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "the sky"}}\n</tool_call>'


def strictly(kind: Any, body: Any) -> Any:
    """Return a body as OpenAI's own type, which takes no other types of values."""
    return kind.model_validate(body, strict=True)


def test_an_answer_is_whole_and_counted(served: Callable[..., Served]) -> None:
    """Content, why it ended, tokens, and the kernel's own history of it."""
    here = served(answers={"Hi": "Hello there."})
    body = here.post(CHAT, **ask(model="scripted", user="me"))
    made = strictly(ChatCompletion, body)
    assert (made.choices[0].message.content, made.choices[0].finish_reason) == ("Hello there.", "stop")
    prompt = here.model.count_tokens(ask()["messages"])
    assert (made.usage.prompt_tokens, made.usage.completion_tokens) == (prompt, 2)
    assert made.usage.total_tokens == prompt + 2
    (row,) = here.server.log
    assert (row.client, row.user, row.path, row.model) == ("127.0.0.1", "me", CHAT, "scripted")
    assert (row.prompt_tokens, row.written, row.ended) == (prompt, 2, "stop")
    assert here.model.stats.requests == 1


def test_a_stream_is_the_same_answer_in_pieces(served: Callable[..., Served]) -> None:
    """Role first, then the text, then why it ended; usage only where it is asked for, with no choice."""
    here = served(answers=lambda _request: "One two three.")
    chunks = [strictly(ChatCompletionChunk, e) for e in here.events(CHAT, **ask())]
    assert len({(c.id, c.created, c.model, c.system_fingerprint) for c in chunks}) == 1
    assert (chunks[0].choices[0].delta.role, chunks[0].choices[0].delta.content) == ("assistant", None)
    assert all(c.choices[0].delta.role is None for c in chunks[1:])
    assert "".join(c.choices[0].delta.content or "" for c in chunks) == "One two three."
    assert [c.choices[0].finish_reason for c in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].choices[0].finish_reason == "stop"
    with_usage = here.events(CHAT, stream_options={"include_usage": True}, **ask())
    assert with_usage[-1]["choices"] == []
    assert with_usage[-1]["usage"]["completion_tokens"] == 3
    assert all(event["usage"] is None for event in with_usage[:-1])


def test_limits_and_stops_end_an_answer(served: Callable[..., Served]) -> None:
    """max_tokens, its newer name, and stop texts, one or several."""
    here = served(answers=lambda _request: "a b c d e")
    for more, text, reason in (
        ({"max_tokens": 2}, "a b", "length"),
        ({"max_completion_tokens": 3}, "a b c", "length"),
        ({"stop": " c"}, "a b", "stop"),
        ({"stop": ["x", " d"]}, "a b c", "stop"),
    ):
        choice = here.post(CHAT, **ask(**more))["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == (text, reason)


def test_samples_are_choices(served: Callable[..., Served]) -> None:
    """n answers of one prompt, whole and streamed; the prompt counts once."""
    here = served(answers=lambda _request: Script(samples=("one", "two two", "three")))
    body = here.post(CHAT, **ask(n=3))
    assert [c["message"]["content"] for c in body["choices"]] == ["one", "two two", "three"]
    assert [c["index"] for c in body["choices"]] == [0, 1, 2]
    assert body["usage"]["completion_tokens"] == 4
    texts = ["", "", ""]
    for event in here.events(CHAT, **ask(n=3)):
        for choice in event["choices"]:
            texts[choice["index"]] += choice["delta"].get("content") or ""
    assert texts == ["one", "two two", "three"]


def test_log_probabilities_come_with_their_text(served: Callable[..., Served]) -> None:
    """Tokens, bytes and alternatives: of the answer only, not of its thinking; streamed as whole."""
    here = served(answers=lambda _request: "<think>hm hm</think>Grün é.")
    body = here.post(CHAT, **ask(logprobs=True, top_logprobs=1))
    message = body["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("Grün é.", "hm hm")
    told = body["choices"][0]["logprobs"]["content"]
    assert "".join(entry["token"] for entry in told) == "Grün é."
    assert bytes(byte for entry in told for byte in entry["bytes"]).decode() == "Grün é."
    assert all(len(entry["top_logprobs"]) == 1 for entry in told)
    pieces = [
        entry
        for event in here.events(CHAT, **ask(logprobs=True, top_logprobs=1))
        for choice in event["choices"]
        for entry in (choice["logprobs"] or {"content": []})["content"]
    ]
    assert pieces == told
    assert here.post(CHAT, **ask())["choices"][0]["logprobs"] is None
    here.refused(CHAT, "top_logprobs", **ask(top_logprobs=2))


def test_an_answer_is_held_to_a_schema(served: Callable[..., Served]) -> None:
    """json_object, json_schema and llama-server's own forms go to the masks; what is no schema is refused."""
    person = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    text = '{"name": "Ada"}'
    here = served(answers=lambda _request: text)
    for more in (
        {"response_format": {"type": "json_object"}},
        {"response_format": {"type": "json_object", "schema": person}},
        {"response_format": {"type": "json_schema", "json_schema": {"name": "p", "schema": person}}},
        {"response_format": {"type": "json_schema", "json_schema": {"schema": person, "strict": True}}},
        {"json_schema": person},
        {"grammar": 'root ::= "{\\"name\\": \\"" [A-Za-z]+ "\\"}"'},
        {"regex": r'\{"name": "[A-Za-z]+"\}'},
    ):
        choice = here.post(CHAT, **ask(**more))["choices"][0]
        assert (choice["message"]["content"], choice["finish_reason"]) == (text, "stop")
        assert here.backend.requests[-1].constraint is not None
    assert "".join(
        e["choices"][0]["delta"].get("content") or "" for e in here.events(CHAT, **ask(json_schema=person))
    ) == text  # fmt: skip
    cut = here.post(CHAT, **ask(json_schema=person, max_tokens=13))["choices"][0]
    assert (cut["message"]["content"], cut["finish_reason"]) == (text[:13], "length")
    schema = "response_format.json_schema.schema"
    for more, param in (
        ({"response_format": {"type": "sound"}}, "response_format.type"),
        ({"response_format": {"type": "json_object", "schema": 123}}, "response_format.schema"),
        (
            {"response_format": {"type": "json_object", "schema": {"type": "hiccup"}}},
            "response_format.schema",
        ),
        ({"response_format": {"type": "json_schema", "json_schema": {"name": "p"}}}, schema),
        ({"response_format": {"type": "json_schema", "json_schema": {"schema": {"type": 1}}}}, schema),
        ({"grammar": "root ::= this is (not valid GBNF"}, "grammar"),
        ({"grammar": 'root ::= "a"', "json_schema": {}}, "grammar"),
        ({"regex": "a", "response_format": {"type": "json_object"}}, "regex"),
        ({"regex": "a("}, "regex"),
    ):
        here.refused(CHAT, param, **ask(**more))


def test_what_cannot_be_enforced_is_refused_where_strict(served: Callable[..., Served]) -> None:
    """With strict a keyword that only a check after the answer sees is named; without it the rest holds."""
    odd = {"type": "array", "items": {"type": "string"}, "uniqueItems": True}
    here = served(answers=lambda _request: '["a"]')
    wanted = {"type": "json_schema", "json_schema": {"schema": odd, "strict": True}}
    error = here.refused(CHAT, "response_format.json_schema.schema", **ask(response_format=wanted))
    assert "uniqueItems" in error["message"]
    wanted["json_schema"]["strict"] = False  # type: ignore[index]
    assert here.post(CHAT, **ask(response_format=wanted))["choices"][0]["message"]["content"] == '["a"]'


@pytest.mark.parametrize("choice", ["auto", "required", {"type": "function", "function": {"name": "look"}}])
def test_tools_are_called(served: Callable[..., Served], choice: Any) -> None:
    """A call comes as OpenAI has it, whole and streamed; the masks know the choice; results go back."""
    here = served(answers=lambda r: "It is blue." if "<tool_response>" in r.text else CALL)
    asked = ask("What colour?", tools=[TOOL], tool_choice=choice)
    body = strictly(ChatCompletion, here.post(CHAT, **asked))
    (call,) = body.choices[0].message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("look", {"at": "the sky"})
    assert (body.choices[0].finish_reason, body.choices[0].message.content) == ("tool_calls", None)
    name = choice if isinstance(choice, str) else "look"
    assert (here.backend.requests[-1].tool_choice, here.backend.requests[-1].constraint.kind) == (
        name,
        "tools",
    )
    chunks = [strictly(ChatCompletionChunk, event) for event in here.events(CHAT, **asked)]
    (streamed,) = [c for chunk in chunks for c in chunk.choices[0].delta.tool_calls or ()]
    assert (streamed.index, streamed.function) == (0, type(streamed.function)(**call.function.model_dump()))
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    said = body.choices[0].message.model_dump(exclude_none=True)
    result = {"role": "tool", "tool_call_id": call.id, "content": "blue"}
    again = here.post(
        CHAT, **{**asked, "messages": [*asked["messages"], said, result], "tool_choice": "auto"}
    )
    assert again["choices"][0]["message"]["content"] == "It is blue."


def test_tools_are_kept_from_being_called(served: Callable[..., Served]) -> None:
    """With "none" the mark of a call is forbidden; text and a call together are both told."""
    here = served(answers=lambda _request: f"Let me see.\n{CALL}")
    body = here.post(CHAT, **ask(tools=[TOOL]))
    assert body["choices"][0]["message"]["content"].strip() == "Let me see."
    assert body["choices"][0]["message"]["tool_calls"]
    refused = here.client.post(CHAT, json=ask(tools=[TOOL], tool_choice="none"))
    assert refused.status_code == 500  # the script cannot go on: the mask forbids what it says
    assert "forbids" in refused.text


def test_tools_that_cannot_be_are_refused(served: Callable[..., Served]) -> None:
    """A choice without tools, of none of them, a schema that cannot be held, beside another schema."""
    here = served()
    bad = {"type": "function", "function": {"name": "x", "parameters": {"type": "object", "required": 3}}}
    for more, param in (
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "lok"}}}, "tool_choice"),
        ({"tools": [{"type": "retrieval"}]}, "tools[0].type"),
        ({"tools": [bad], "tool_choice": "required"}, None),
        ({"tools": [TOOL, TOOL]}, "tools"),
        ({"tools": [{"type": "function", "function": {"name": "f g"}}]}, "tools"),
    ):
        error = here.refused(CHAT, param, **ask(**more))
        assert error["type"] == "invalid_request_error"


def test_a_template_without_tools_has_them_as_text(served: Callable[..., Served]) -> None:
    """Gemma's format knows no tools: they are written into the turn, and forced all the same."""
    here = served(answers=lambda _request: CALL, formatter="gemma")
    body = here.post(CHAT, **ask(tools=[TOOL], tool_choice="required"))
    assert body["choices"][0]["message"]["tool_calls"][0]["function"]["name"] == "look"
    assert '"description": "Look."' in here.backend.requests[-1].text


def test_sampling_reaches_the_model(served: Callable[..., Served]) -> None:
    """Each field of OpenAI's and llama.cpp's samplers is that of the call; null is as left out."""
    here = served()
    given = {
        "temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.1, "presence_penalty": 1,
        "frequency_penalty": -1, "repeat_penalty": 1.1, "typical_p": 0.9, "mirostat": 2,
        "dry_multiplier": 0.5, "xtc_probability": 0.1,
    }  # fmt: skip
    here.post(CHAT, **ask(**given, seed=7, logit_bias={"5": -1.5}, cache_prompt=False, min_tokens=1))
    request = here.backend.requests[-1]
    assert {name: getattr(request.sampling, name) for name in given} == given
    assert (request.seed, request.exact, request.reuse, request.min_tokens) == (7, True, False, 1)
    assert request.sampling.logit_bias == ((5, -1.5),)
    here.post(CHAT, **ask(temperature=None, seed=None, stop=None, tools=None, n=None))
    assert here.backend.requests[-1].sampling == here.model.sampling
    here.post(CHAT, **ask(samplers=["top_k", "typ_p", "temperature"]))
    assert here.backend.requests[-1].sampling.samplers == ("top_k", "typical_p", "temperature")


def test_template_variables_are_those_that_the_template_reads(served: Callable[..., Served]) -> None:
    """A switch that the family has reaches it; one that it does not read is refused by name."""
    here = served()
    here.post(CHAT, **ask(chat_template_kwargs={"enable_thinking": False}))
    assert here.backend.requests[-1].text.endswith("<think>\n\n</think>\n\n")
    here.refused(CHAT, "chat_template_kwargs.colour", **ask(chat_template_kwargs={"colour": 1}))
    here.refused(CHAT, "reasoning_effort", **ask(reasoning_effort="low"))


def test_an_answer_can_be_begun(served: Callable[..., Served]) -> None:
    """A last assistant's message is gone on from, as llama-server does; said outright it is the same."""
    here = served(answers=lambda _request: "lo there")
    begun = [*ask()["messages"], {"role": "assistant", "content": "Hel"}]
    on, off = {"continue_final_message": True}, {"add_generation_prompt": False}
    for more in ({}, on, off, {**on, **off}):  # the last as vLLM demands it
        body = here.post(CHAT, messages=begun, **more)
        assert here.backend.requests[-1].text.endswith("<|im_start|>assistant\nHel")
        assert body["choices"][0]["message"]["content"] == "lo there"
    both = {"continue_final_message": True, "add_generation_prompt": True}
    here.refused(CHAT, "continue_final_message", messages=begun, **both)
    here.refused(CHAT, "add_generation_prompt", **ask(**off))
    here.refused(CHAT, "add_generation_prompt", messages=begun, **off, continue_final_message=False)


def test_parts_and_roles_are_read(served: Callable[..., Served]) -> None:
    """Text parts are joined; what a client sends back of an answer is taken; images are refused by place."""
    here = served(answers=lambda _request: "ok")
    messages = [
        {"role": "developer", "content": "Be short."},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "c", "refusal": None, "annotations": [], "audio": None},
        {"role": "user", "content": "d", "name": "me"},
    ]
    here.post(CHAT, messages=messages)
    assert "ab<|im_end|>" in here.backend.requests[-1].text
    for kind in ("image_url", "input_image", "input_audio", "file", "video_url", None):
        part = {"type": kind, "image_url": {"url": "data:image/png;base64,AAAA"}} if kind else {"text": "a"}
        messages = [{"role": "user", "content": [{"type": "text", "text": "Look:"}, part]}]
        said = here.refused(CHAT, "messages[0].content[1].type", messages=messages)["message"]
        assert ("Only text is read here" in said) == (kind is not None)
        assert kind or said.endswith("type: Field required.")
    here.refused(CHAT, "messages[0].content", messages=[{"role": "user"}])


def test_a_refusal_names_the_field_that_its_words_speak_of(served: Callable[..., Served]) -> None:
    """A field of a part is not the part's type; what the engine refuses is of a field too, if only of one."""
    here = served()
    part = {"type": "text", "text": "Hi", "colour": 1}
    message = {"role": "user", "content": [part]}
    here.refused(CHAT, "messages[0].content[0].colour", messages=[message])
    here.refused("/v1/responses", "input[0].content[0].colour", input=[message])
    here.refused(CHAT, "stop", **ask(stop=""))
    here.refused(CHAT, "logit_bias", **ask(logit_bias={"99999999": 1}))
    here.refused(CHAT, "min_tokens", **ask(min_tokens=5, max_tokens=2))
    long = here.post(CHAT, 400, **ask("word " * 9000))["error"]
    assert long["param"] is None  # the window has its own words
    here.post(CHAT, **ask(metadata={"of": "nothing that is kept"}))
