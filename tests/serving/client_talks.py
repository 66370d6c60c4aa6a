"""One conversation with our server by each of several client libraries: `python client_talks.py NAME URL`.

Run by `soak_clients.py` with the Python of a folder that has them. The server is scripted: it greets, calls
`look` where tools are offered, says "Blue." once that has answered, and writes a city where JSON is asked
for.
"""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from pydantic import BaseModel


class City(BaseModel):
    """A city."""

    name: str
    people: int


LYON = City(name="Lyon", people=3)
SCHEMA = {
    "type": "object",
    "properties": {"at": {"type": "string", "description": "where to look"}},
    "required": ["at"],
}
TOOL = {"type": "function", "function": {"name": "look", "description": "Look.", "parameters": SCHEMA}}


def by_langchain(url: str) -> None:
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    chat: Any = ChatOpenAI(
        model="scripted", base_url=f"{url}/v1", api_key="none", temperature=0, max_retries=0
    )
    assert chat.invoke("Hi").content == "Hello there."
    assert "".join(chunk.content for chunk in chat.stream("Hi")) == "Hello there."
    assert asyncio.run(chat.ainvoke("Hi")).usage_metadata["output_tokens"] == 2
    asked = [HumanMessage("What is at the sky?")]
    called = chat.bind_tools([TOOL]).invoke(asked)
    assert [(c["name"], c["args"]) for c in called.tool_calls] == [("look", {"at": "sky"})]
    result = ToolMessage("blue", tool_call_id=called.tool_calls[0]["id"])
    assert chat.bind_tools([TOOL]).invoke([*asked, called, result]).content == "Blue."
    forced = chat.bind_tools([TOOL], tool_choice="look").invoke(asked)
    assert forced.tool_calls[0]["name"] == "look"
    for method in ("json_schema", "function_calling"):
        assert chat.with_structured_output(City, method=method).invoke("JSON of a city") == LYON
    newer: Any = ChatOpenAI(
        model="scripted", base_url=f"{url}/v1", api_key="none", use_responses_api=True, max_retries=0
    )
    assert newer.invoke("Hi").text == "Hello there."
    vectors = OpenAIEmbeddings(
        model="tiny", base_url=f"{url}/v1", api_key="none", check_embedding_ctx_length=False
    )
    assert len(vectors.embed_documents(["ab", "c"])) == 2


def by_litellm(url: str) -> None:
    import litellm

    how: Any = {"model": "openai/scripted", "api_base": f"{url}/v1", "api_key": "none", "num_retries": 0}
    hi = [{"role": "user", "content": "Hi"}]
    made: Any = litellm.completion(messages=hi, **how)
    assert made.choices[0].message.content == "Hello there."
    stream: Any = litellm.completion(messages=hi, stream=True, stream_options={"include_usage": True}, **how)
    assert "".join(c.choices[0].delta.content or "" for c in stream if c.choices) == "Hello there."
    asked: list[Any] = [{"role": "user", "content": "What is at the sky?"}]
    called: Any = litellm.completion(messages=asked, tools=[TOOL], tool_choice="auto", **how)
    (call,) = called.choices[0].message.tool_calls
    assert (call.function.name, call.function.arguments) == ("look", '{"at": "sky"}')
    asked += [called.choices[0].message, {"role": "tool", "tool_call_id": call.id, "content": "blue"}]
    done: Any = litellm.completion(messages=asked, tools=[TOOL], **how)
    assert done.choices[0].message.content == "Blue."
    city = [{"role": "user", "content": "JSON of a city"}]
    parsed: Any = litellm.completion(messages=city, response_format=City, **how)
    assert City.model_validate_json(parsed.choices[0].message.content) == LYON
    later: Any = asyncio.run(litellm.acompletion(messages=hi, **how))
    assert later.usage.completion_tokens == 2
    text: Any = litellm.text_completion(
        model="text-completion-openai/scripted",
        prompt="x",
        api_base=f"{url}/v1",
        api_key="none",
        max_tokens=4,
    )
    assert text.choices[0].text == "Hello there."


def by_llm(url: str) -> None:
    from llm.default_plugins.openai_models import Chat

    model: Any = Chat(
        "scripted",
        key="none",
        model_name="scripted",
        api_base=f"{url}/v1",
        supports_schema=True,
        supports_tools=True,
    )
    model.key = "none"
    assert model.prompt("Hi", stream=False).text() == "Hello there."
    assert "".join(model.prompt("Hi", stream=True)) == "Hello there."
    talk = model.conversation()
    talk.prompt("Hi").text()
    assert talk.prompt("And?").text() == "Hello there."
    assert City.model_validate_json(model.prompt("JSON of a city", schema=City).text()) == LYON
    seen: list[str] = []

    def look(at: str) -> str:
        """Look."""
        seen.append(at)
        return "blue"

    assert model.chain("What is at the sky?", tools=[look]).text().endswith("Blue.")
    assert seen == ["sky"]


def by_inspect(url: str) -> None:
    from inspect_ai.model import ChatMessageUser, GenerateConfig, ResponseSchema, execute_tools, get_model
    from inspect_ai.tool import ToolFunction, tool
    from inspect_ai.util import json_schema

    @tool
    def look() -> Any:
        async def execute(at: str) -> str:
            """Look.

            Args:
                at: Where to look.
            """
            return f"{at} is blue"

        return execute

    async def talk() -> None:
        model = get_model("openai-api/ours/scripted", base_url=f"{url}/v1", api_key="none", memoize=False)
        assert (await model.generate("Hi")).completion == "Hello there."
        seeded = await model.generate("Hi", config=GenerateConfig(seed=7, temperature=0, max_tokens=20))
        assert seeded.completion == "Hello there."
        messages: list[Any] = [ChatMessageUser(content="What is at the sky?")]
        for choice in ("auto", ToolFunction(name="look")):
            asked = await model.generate(messages, tools=[look()], tool_choice=choice)
            (call,) = asked.message.tool_calls or ()
            assert (call.function, call.arguments) == ("look", {"at": "sky"})
        messages.append(asked.message)
        results = await execute_tools(messages, [look()])
        messages += results.messages
        assert (await model.generate(messages, tools=[look()])).completion == "Blue."
        schema = ResponseSchema(name="city", json_schema=json_schema(City))
        made = await model.generate("JSON of a city", config=GenerateConfig(response_schema=schema))
        assert City.model_validate_json(made.completion) == LYON

    asyncio.run(talk())


def by_openai(url: str) -> None:
    import openai

    with openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0) as client:
        asked: Any = [{"role": "user", "content": "JSON of a city"}]
        made = client.chat.completions.parse(model="scripted", messages=asked, response_format=City)
        assert made.choices[0].message.parsed == LYON
        assert client.responses.parse(model="scripted", input="JSON", text_format=City).output_parsed == LYON


TALKS = {
    "openai": by_openai,
    "langchain-openai": by_langchain,
    "litellm": by_litellm,
    "llm": by_llm,
    "inspect-ai": by_inspect,
}

if __name__ == "__main__":
    TALKS[sys.argv[1]](sys.argv[2])
