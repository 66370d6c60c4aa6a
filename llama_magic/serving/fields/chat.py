"""`/v1/chat/completions`, and what shares its messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from llama_magic.serving.fields.common import (
    MAX_SAMPLES,
    MAX_TEXTS,
    MAX_TOOLS,
    Fields,
    Limit,
    SamplingFields,
    StreamOptions,
    StructuredOutputs,
    Timed,
)
from llama_magic.serving.fields.tools import Choice, Tools


class TextPart(Fields):
    """A part of a content. Images and sound are not taken."""

    type: Literal["text", "input_text", "output_text"]
    text: str
    annotations: list[Any] | None = None
    logprobs: list[Any] | None = None
    cache_control: dict[str, Any] | None = Field(None, description="what can be reused is found by itself")


class RefusalPart(Fields):
    """A refusal among the parts of an assistant's content."""

    type: Literal["refusal"]
    refusal: str


Part = Annotated[TextPart | RefusalPart, Field(discriminator="type")]


class Called(Fields):
    """The function of a tool call: `arguments` are JSON as text."""

    name: str
    arguments: str
    parsed_arguments: Any = Field(None, description="what openai's .parse() made of them")


class ToolCall(Fields):
    """A tool call of an earlier answer."""

    id: str
    type: Literal["function"] = "function"
    function: Called
    index: int | None = Field(None, description="as it came in a stream")


class CalledCustom(Fields):
    """The custom tool of a call: `input` is its text."""

    name: str
    input: str


class CustomToolCall(Fields):
    """A call of a custom tool in an earlier answer."""

    id: str
    type: Literal["custom"]
    custom: CalledCustom


class Message(Fields):
    """One message of a conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | Annotated[list[Part], Field(max_length=MAX_TEXTS)] | None = None
    name: str | None = None
    tool_calls: Annotated[list[ToolCall | CustomToolCall], Field(max_length=MAX_TOOLS)] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = Field(None, description="what others call reasoning_content")
    parsed: Any = Field(None, description="what openai's .parse() made of the content")
    refusal: str | None = None
    annotations: Annotated[list[Any], Field(max_length=0)] | None = None
    audio: None = None
    function_call: None = None
    reasoning_details: Annotated[list[Any], Field(max_length=0)] | None = None
    provider_specific_fields: None = None
    thinking_blocks: None = None


Messages = Annotated[list[Message], Field(min_length=1, max_length=MAX_TEXTS)]


class JsonSchema(Fields):
    """A schema that the answer is held to. With `strict`, one that cannot be held to it is refused."""

    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] | bool | None = Field(None, alias="schema")
    strict: bool | None = None


class TextFormat(Fields):
    """The answer is a text."""

    type: Literal["text"]


class ObjectFormat(Fields):
    """The answer is a JSON object; with `schema`, as llama-server has it, one of that schema."""

    type: Literal["json_object"]
    schema_: dict[str, Any] | None = Field(None, alias="schema")


class SchemaFormat(Fields):
    """The answer is JSON of a schema."""

    type: Literal["json_schema"]
    json_schema: JsonSchema


ResponseFormat = Annotated[TextFormat | ObjectFormat | SchemaFormat, Field(discriminator="type")]


def _bound(given: int | None) -> int | None:
    return None if given == -1 else given


Bound = Annotated[Limit | None, AfterValidator(_bound)]


class ChatCompletion(SamplingFields):
    """A conversation to answer."""

    instead: ClassVar[Mapping[str, str]] = {
        "n_probs": "Write logprobs: true, and top_logprobs.",
        "n_cmpl": "Write n.",
        "reasoning": "Write reasoning_effort, or chat_template_kwargs.",
        "prompt": "Write messages, or ask /v1/completions.",
        "input": "Write messages, or ask /v1/responses.",
    }
    model: str | None = None
    messages: Messages
    max_tokens: Bound = Field(None, description="-1: as without one")
    max_completion_tokens: Bound = None
    n: Annotated[int, Field(ge=1, le=MAX_SAMPLES)] | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    timings_per_token: Timed = None
    return_progress: bool | None = Field(None, description="how much of the prompt is read, in a stream")
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    response_format: ResponseFormat | None = None
    json_schema: dict[str, Any] | None = Field(None, description="llama-server's form of a schema")
    grammar: str | None = Field(None, description="GBNF")
    regex: str | None = Field(None, description="an expression that the whole answer matches")
    structured_outputs: StructuredOutputs | None = Field(None, description="vLLM's form of these")
    tools: Tools | None = None
    tool_choice: Choice | None = None
    parallel_tool_calls: bool | None = None
    chat_template_kwargs: dict[str, Any] | None = Field(None, description="variables of the template")
    reasoning_effort: str | None = Field(None, description="taken where the template reads it")
    add_generation_prompt: bool | None = Field(
        None, description="false where the last message is gone on from"
    )
    add_special_tokens: Literal[False] | None = Field(None, description="the template writes them")
    echo: Literal[False] | None = None
    continue_final_message: bool | None = None
    modalities: Annotated[list[Literal["text"]], Field(min_length=1, max_length=1)] | None = None
    service_tier: Literal["auto", "default", "flex", "priority"] | None = Field(
        None, description="there is one"
    )
    store: Literal[False] | None = None
    metadata: Annotated[dict[str, str], Field(max_length=16)] | None = Field(
        None, description="stands beside answers that are stored: none are"
    )
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    verbosity: Literal["medium"] | None = None
    audio: None = None
    prediction: None = None
    web_search_options: None = None
    functions: None = None
    function_call: None = None


class ApplyTemplate(Fields):
    """A conversation to render."""

    model: str | None = None
    messages: Messages
    add_generation_prompt: Literal[True] | None = None
    tools: Tools | None = None
    chat_template_kwargs: dict[str, Any] | None = None
