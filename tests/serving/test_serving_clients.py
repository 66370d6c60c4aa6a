"""The `openai` package against our server: sync, async, streaming helpers, `.parse`, responses, errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import openai
import pytest
from openai.types.responses import Response, ResponseStreamEvent
from pydantic import BaseModel, TypeAdapter
from serving.conftest import Served, ask

TOOL = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
}
CALL = '<tool_call>\n{"name": "look", "arguments": {"at": "the sky"}}\n</tool_call>'
MESSAGES: Any = ask("Tell me.")["messages"]


class City(BaseModel):
    name: str
    people: int


def test_a_scripted_conversation(served: Callable[..., Served]) -> None:
    """Models, a chat, its next turn, a stream with usage, samples, log-probabilities, a raw completion."""
    here = served(answers=lambda r: "Second." if "First." in r.text else "First.")
    with here.openai() as client:
        (model,) = client.models.list().data
        first = client.chat.completions.create(model=model.id, messages=MESSAGES)
        said = first.choices[0].message
        turn = [*MESSAGES, said.model_dump(exclude_none=True), {"role": "user", "content": "And?"}]
        second = client.chat.completions.create(model=model.id, messages=turn, n=2, logprobs=True, seed=1)
        assert [c.message.content for c in second.choices] == ["Second.", "Second."]
        assert second.choices[0].logprobs.content[0].token == "Second."
        stream = client.chat.completions.create(
            model=model.id, messages=MESSAGES, stream=True, stream_options={"include_usage": True}
        )
        chunks = list(stream)
        assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices) == "First."
        assert chunks[-1].usage.completion_tokens == 1
        text = client.completions.create(model=model.id, prompt="x", max_tokens=4)
        assert text.choices[0].text == "First."
        with pytest.raises(openai.BadRequestError) as refused:
            client.chat.completions.create(model=model.id, messages=MESSAGES, temperature=-1)
        assert refused.value.param == "temperature"
        with pytest.raises(openai.NotFoundError):
            client.chat.completions.create(model="gpt-17", messages=MESSAGES)


def test_streaming_helpers_and_parse(served: Callable[..., Served]) -> None:
    """`.stream` gathers what `.create` gives; `.parse` gives an instance, and an error for a cut answer."""
    here = served(answers=lambda _r: '{"name": "Lyon", "people": 520000}')
    with here.openai() as client:
        parsed = client.chat.completions.parse(model="scripted", messages=MESSAGES, response_format=City)
        assert parsed.choices[0].message.parsed == City(name="Lyon", people=520000)
        with client.chat.completions.stream(
            model="scripted", messages=MESSAGES, response_format=City
        ) as stream:
            kinds = [event.type for event in stream]
            final = stream.get_final_completion()
        assert final.choices[0].message.parsed == City(name="Lyon", people=520000)
        assert {"content.delta", "content.done"} <= set(kinds)
        with pytest.raises(openai.LengthFinishReasonError):
            client.chat.completions.parse(
                model="scripted", messages=MESSAGES, response_format=City, max_tokens=25
            )


def test_tools_by_the_package(served: Callable[..., Served]) -> None:
    """Its pydantic tools are called and parsed, whole and by its streaming helper."""

    class Look(BaseModel):
        """Look."""

        at: str

    here = served(answers=lambda _r: CALL.replace("look", "Look"))
    tools = [openai.pydantic_function_tool(Look)]
    with here.openai() as client:
        made = client.chat.completions.parse(
            model="scripted", messages=MESSAGES, tools=tools, tool_choice="required"
        )
        assert made.choices[0].message.tool_calls[0].function.parsed_arguments == Look(at="the sky")
        with client.chat.completions.stream(model="scripted", messages=MESSAGES, tools=tools) as stream:
            done = [event for event in stream if event.type == "tool_calls.function.arguments.done"]
            final = stream.get_final_completion()
        assert done[0].parsed_arguments == Look(at="the sky")
        assert final.choices[0].finish_reason == "tool_calls"


def test_many_tasks_at_once(served: Callable[..., Served]) -> None:
    """The async client, 20 at once, streamed and not: each has its own answer."""
    here = served(answers=lambda r: f"<{r.messages[-1]['content']}>")

    async def work() -> list[str]:
        url = f"{here.server.url}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:

            async def one(number: int) -> str:
                messages: Any = ask(f"q{number}")["messages"]
                made = await client.chat.completions.create(
                    model="scripted", messages=messages, stream=bool(number % 2)
                )
                if number % 2:
                    return "".join([c.choices[0].delta.content or "" async for c in made])
                return str(made.choices[0].message.content)

            return await asyncio.gather(*(one(number) for number in range(20)))

    assert asyncio.run(work()) == [f"<q{number}>" for number in range(20)]


def test_async_streaming_helpers_and_parse(served: Callable[..., Served]) -> None:
    """The async client's `.stream` and `.parse`, of chats and of responses, give the instance."""
    here = served(answers=lambda _r: '{"name": "Lyon", "people": 520000}')
    lyon = City(name="Lyon", people=520000)

    async def work() -> None:
        url = f"{here.server.url}/v1"
        async with openai.AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:
            chats, newer = client.chat.completions, client.responses
            made = await chats.parse(model="scripted", messages=MESSAGES, response_format=City)
            assert made.choices[0].message.parsed == lyon
            async with chats.stream(model="scripted", messages=MESSAGES, response_format=City) as stream:
                done = [event async for event in stream if event.type == "content.done"]
                final = await stream.get_final_completion()
            assert (done[0].parsed, final.choices[0].message.parsed) == (lyon, lyon)
            answer = await newer.parse(model="scripted", input="JSON", text_format=City)
            assert answer.output_parsed == lyon
            async with newer.stream(model="scripted", input="JSON", text_format=City) as told:
                kinds = [event.type async for event in told]
                whole = await told.get_final_response()
            assert whole.output_parsed == lyon
            assert {"response.output_text.delta", "response.completed"} <= set(kinds)

    asyncio.run(work())


def test_responses(served: Callable[..., Served]) -> None:
    """Text, instructions, a call and its output, a schema; what would have to be kept is refused."""
    answers = {"sky": CALL, "json": '{"name": "Lyon", "people": 3}'}

    def answer(request: Any) -> str:
        if "<tool_response>" in request.text:
            return "Blue."
        return answers.get(str(request.messages[-1]["content"]), "<think>Hm.</think>Hello.")

    here = served(answers=answer)
    with here.openai() as client:
        plain = client.responses.create(
            model="scripted",
            input="Hi",
            instructions="Be brief.",
            metadata={"a": "b"},
            include=["reasoning.encrypted_content"],
            store=False,
        )
        assert plain.output[0].content[0].text == "Hm."  # in the clear, and so it goes back
        back: Any = [item.model_dump(exclude_none=True) for item in plain.output]
        again = client.responses.create(model="scripted", input=[*back, {"role": "user", "content": "Hi"}])
        assert again.output_text == "Hello."
        assert (plain.output_text, plain.status, plain.metadata) == ("Hello.", "completed", {"a": "b"})
        assert [item.type for item in plain.output] == ["reasoning", "message"]
        assert here.backend.requests[0].messages[0]["content"] == "Be brief."
        tools: Any = [TOOL]
        called = client.responses.create(model="scripted", input="sky", tools=tools, tool_choice="required")
        (call,) = called.output
        assert [row.ended for row in here.server.log] == ["stop", "stop", "tool_calls"]
        assert (call.name, json.loads(call.arguments)) == ("look", {"at": "the sky"})
        result: Any = {"type": "function_call_output", "call_id": call.call_id, "output": "blue"}
        turns: Any = [{"role": "user", "content": "sky"}, call.model_dump(exclude_none=True), result]
        assert client.responses.create(model="scripted", input=turns, tools=tools).output_text == "Blue."
        parsed = client.responses.parse(model="scripted", input="json", text_format=City)
        assert parsed.output_parsed == City(name="Lyon", people=3)
        cut = client.responses.create(model="scripted", input="Hi", max_output_tokens=1)
        assert (cut.status, cut.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    for more, param in (
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"store": True}, "store"),
        ({"tools": [{"type": "web_search"}]}, "tools[0].type"),
        ({"include": ["everything"]}, "include[0]"),
        ({"input": []}, "input"),
    ):
        here.refused("/v1/responses", param, **{"input": "Hi", **more})


@pytest.mark.parametrize(("text", "kinds"), [
    ("Hello there.", ["message"]),
    ("<think>Hm hm.</think>Hello.", ["reasoning", "message"]),
    (f"Let me see. {CALL}", ["message", "function_call"]),
    ("", ["message"]),
])  # fmt: skip
def test_responses_streamed(served: Callable[..., Served], text: str, kinds: list[str]) -> None:
    """Each event is OpenAI's own type, numbered; what was begun is ended; all of it is in the last one."""
    here = served(answers=lambda _r: text)
    asked = {"input": "Hi", "tools": [TOOL]}
    kind: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
    events = [kind.validate_python(e, strict=True) for e in here.events("/v1/responses", **asked)]
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [e.type for e in events[:2]] == ["response.created", "response.in_progress"]
    final = events[-1].response
    assert [item.type for item in final.output] == kinds
    whole = Response.model_validate(here.post("/v1/responses", **asked), strict=True)
    assert [item.type for item in whole.output] == kinds
    assert final.output_text == whole.output_text
    assert "".join(e.delta for e in events if e.type == "response.output_text.delta") == final.output_text
    opened = [e.item.id for e in events if e.type == "response.output_item.added"]
    closed = [e.item.id for e in events if e.type == "response.output_item.done"]
    assert opened == closed == [item.id for item in final.output]


def test_embeddings_by_the_package(served: Callable[..., Served], scripted: Any) -> None:
    """Its default asks for base64, and gets the model's vectors."""
    here = served(scripted)
    with here.openai() as client:
        made = client.embeddings.create(model=scripted.name, input=["ab", "c"])
    assert [list(map(float, row)) for row in scripted.embed(["ab", "c"])] == [
        pytest.approx(row.embedding) for row in made.data
    ]
