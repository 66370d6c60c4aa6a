"""`/v1/responses`: what can be honoured without keeping responses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from llama_magic.serving.fields.chat import Part, TextPart
from llama_magic.serving.fields.common import MAX_TEXTS, Count, Fields, SamplingFields
from llama_magic.serving.fields.tools import FlatChoice, FlatTools


class InputMessage(Fields):
    """A message, given or of an earlier response."""

    type: Literal["message"] = "message"
    role: Literal["system", "developer", "user", "assistant"]
    content: str | Annotated[list[Part], Field(min_length=1, max_length=MAX_TEXTS)]
    id: str | None = None
    status: str | None = None
    phase: str | None = None


class FunctionCall(Fields):
    """A tool call of an earlier response."""

    type: Literal["function_call"]
    call_id: str
    name: str
    arguments: str
    id: str | None = None
    status: str | None = None


class FunctionOutput(Fields):
    """What a tool gave back."""

    type: Literal["function_call_output"]
    call_id: str
    output: str | Annotated[list[TextPart], Field(max_length=MAX_TEXTS)]
    id: str | None = None
    status: str | None = None


class CustomCall(Fields):
    """A call of a custom tool in an earlier response."""

    type: Literal["custom_tool_call"]
    call_id: str
    name: str
    input: str
    id: str | None = None
    status: str | None = None


class CustomOutput(FunctionOutput):
    """What a custom tool gave back."""

    type: Literal["custom_tool_call_output"]  # type: ignore[assignment]  # another word for it


class ReasoningItem(Fields):
    """A reasoning of an earlier response; a template leaves it out, or takes it as the answer's thinking."""

    type: Literal["reasoning"]
    id: str | None = None
    summary: list[Any] | None = None
    content: list[Any] | None = None
    encrypted_content: None = None
    status: str | None = None


Item = InputMessage | FunctionCall | FunctionOutput | CustomCall | CustomOutput | ReasoningItem


class PlainText(Fields):
    """The answer is a text."""

    type: Literal["text"]


class PlainObject(Fields):
    """The answer is a JSON object."""

    type: Literal["json_object"]


class FlatSchema(Fields):
    """The answer is JSON of a schema, in the flat form of this endpoint."""

    type: Literal["json_schema"]
    name: str | None = None
    description: str | None = None
    schema_: dict[str, Any] = Field(alias="schema")
    strict: bool | None = None


class TextConfig(Fields):
    """What the text of an answer is to be."""

    format: Annotated[PlainText | PlainObject | FlatSchema, Field(discriminator="type")] | None = None
    verbosity: Literal["medium"] | None = None


class Reasoning(Fields):
    """How much a model thinks; taken where the template reads `reasoning_effort`."""

    effort: str | None = None
    summary: Literal["auto"] | None = Field(None, description="there is none: thinking is told as it is")


# The second is sent with every request by clients that keep nothing on the server; the others are of tools
# and images, which there are none of.
Included = Literal[
    "message.output_text.logprobs",
    "reasoning.encrypted_content",
    "code_interpreter_call.outputs",
    "computer_call_output.output.image_url",
    "file_search_call.results",
    "message.input_image.image_url",
    "web_search_call.action.sources",
    "web_search_call.results",
]


class EventOptions(Fields):
    """What a stream holds besides."""

    include_obfuscation: Literal[False] | None = None


class Response(SamplingFields):
    """A conversation to answer; nothing of it is kept."""

    limit: ClassVar[str] = "max_output_tokens"
    instead: ClassVar[Mapping[str, str]] = {
        "messages": "Write input.",
        "prompt": "Nothing is kept: write instructions and input.",
        **dict.fromkeys(("max_tokens", "max_completion_tokens", "n_predict"), "Write max_output_tokens."),
        "response_format": 'Write text={"format": …}.',
        "reasoning_effort": 'Write reasoning={"effort": …}.',
    }
    model: str | None = None
    input: str | Annotated[list[Item], Field(min_length=1, max_length=MAX_TEXTS)]
    instructions: str | None = None
    max_output_tokens: Count | None = None
    top_logprobs: Annotated[int, Field(ge=0, le=20)] | None = None
    include: Annotated[list[Included], Field(max_length=8)] | None = Field(
        None, description="reasoning comes in the clear, and is taken back so: none of it is encrypted"
    )
    stream: bool | None = None
    stream_options: EventOptions | None = None
    tools: FlatTools | None = None
    tool_choice: FlatChoice | None = None
    parallel_tool_calls: bool | None = None
    text: TextConfig | None = None
    reasoning: Reasoning | None = None
    truncation: Literal["auto", "disabled"] | None = None
    metadata: Annotated[dict[str, str], Field(max_length=16)] | None = None
    client_metadata: Annotated[dict[str, str], Field(max_length=64)] | None = Field(
        None, description="Codex's word of itself: it says nothing of the answer"
    )
    store: Literal[False] | None = None
    background: Literal[False] | None = None
    previous_response_id: None = None
    conversation: None = None
    prompt: None = None
    max_tool_calls: None = None
    service_tier: Literal["auto", "default", "flex", "priority"] | None = Field(
        None, description="there is one"
    )
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
