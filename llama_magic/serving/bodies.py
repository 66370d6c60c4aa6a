"""What comes back, as pydantic models: for `/openapi.json`, and for tests that check every body."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, RootModel

_Reason = Literal["stop", "length", "tool_calls"]


class Body(BaseModel):
    """A body, or a part of one: no other field than these."""

    model_config = ConfigDict(extra="forbid", strict=True, protected_namespaces=())


class ErrorDetails(BaseModel):
    """What went wrong. A prompt over the window tells its numbers."""

    model_config = ConfigDict(extra="forbid", strict=True)
    code: int
    message: str
    type: str
    param: str | None
    n_prompt_tokens: int | None = None
    n_ctx: int | None = None


class Error(Body):
    """An error, in OpenAI's shape."""

    error: ErrorDetails


class TokenLogprob(Body):
    """A token with its log-probability."""

    token: str
    bytes: list[int]
    logprob: float


class TopLogprob(TokenLogprob):
    """A token with its log-probability, and the alternatives."""

    top_logprobs: list[TokenLogprob]


class ContentLogprobs(Body):
    """Those of a content."""

    content: list[TopLogprob]
    refusal: None


class CalledFunction(Body):
    """A function that is called; `arguments` are JSON as text."""

    name: str
    arguments: str


class CalledTool(Body):
    """A tool call."""

    id: str
    type: Literal["function"]
    function: CalledFunction


class CalledText(Body):
    """A custom tool that is called, and the text that it is given."""

    name: str
    input: str


class CalledCustomTool(Body):
    """A call of a custom tool."""

    id: str
    type: Literal["custom"]
    custom: CalledText


class AssistantMessage(Body):
    """What the model said."""

    role: Literal["assistant"]
    content: str | None
    refusal: None
    tool_calls: list[CalledTool | CalledCustomTool] | None = None
    reasoning_content: str | None = None


class ChatChoice(Body):
    """One of `n` answers."""

    index: int
    message: AssistantMessage
    logprobs: ContentLogprobs | None
    finish_reason: _Reason


class PromptDetails(Body):
    """Of the prompt's tokens, those that were reused."""

    cached_tokens: int


class Usage(Body):
    """Tokens."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptDetails


class Timings(Body):
    """How fast it goes, in llama-server's words, where that was asked for."""

    cache_n: int
    prompt_n: int
    prompt_ms: float
    prompt_per_token_ms: float
    prompt_per_second: float
    predicted_n: int
    predicted_ms: float
    predicted_per_token_ms: float
    predicted_per_second: float


class Progress(Body):
    """How much of a prompt is read, in llama-server's words, where that was asked for."""

    total: int
    cache: int
    processed: int
    time_ms: float


class ChatCompletionBody(Body):
    """An answer to a conversation."""

    id: str
    object: Literal["chat.completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChatChoice]
    usage: Usage
    timings: Timings | None = None


class ToolDelta(CalledTool):
    """A tool call in a stream: whole, with its place."""

    index: int


class CustomToolDelta(CalledCustomTool):
    """A call of a custom tool in a stream: whole, with its place."""

    index: int


class Delta(Body):
    """What is new of an answer."""

    role: Literal["assistant"] | None = None
    content: str | None = None
    reasoning_content: str | None = None
    tool_calls: list[ToolDelta | CustomToolDelta] | None = None


class ChunkChoice(Body):
    """What is new of one of `n` answers."""

    index: int
    delta: Delta
    logprobs: ContentLogprobs | None
    finish_reason: _Reason | None


class ChatChunkBody(Body):
    """An event of a streamed conversation."""

    id: str
    object: Literal["chat.completion.chunk"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[ChunkChoice]
    usage: Usage | None = None
    timings: Timings | None = None
    prompt_progress: Progress | None = None


class ColumnLogprobs(Body):
    """Log-probabilities in columns."""

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class PromptLogprob(Body):
    """A token that stands in a prompt, or might have; `rank` 1 is the likeliest."""

    logprob: float
    rank: int
    decoded_token: str


class TextChoice(Body):
    """One of the answers to a text; in a stream what is new of it."""

    index: int
    text: str
    logprobs: ColumnLogprobs | None
    finish_reason: Literal["stop", "length"] | None
    prompt_logprobs: list[dict[str, PromptLogprob] | None] | None = None


class CompletionBody(Body):
    """Answers to texts; in a stream an event."""

    id: str
    object: Literal["text_completion"]
    created: int
    model: str
    system_fingerprint: str
    choices: list[TextChoice]
    usage: Usage | None = None
    timings: Timings | None = None


class NativeBody(BaseModel):
    """llama-server's form of an answer."""

    index: int
    content: str
    tokens: list[int]
    stop: bool
    id_slot: int
    tokens_predicted: int
    tokens_evaluated: int
    stop_type: Literal["eos", "word", "limit", "none"] | None = None
    stopping_word: str | None = None
    completion_probabilities: list[dict[str, Any]] | None = None


class NativeBodies(RootModel[NativeBody | list[NativeBody]]):
    """The answer to one prompt, or a list of those to several."""


class EmbeddingRow(Body):
    """A vector: numbers, or their bytes (little-endian float32) in base64."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingUsage(Body):
    """Tokens that were read."""

    prompt_tokens: int
    total_tokens: int


class EmbeddingBody(Body):
    """A vector a text."""

    object: Literal["list"]
    data: list[EmbeddingRow]
    model: str
    usage: EmbeddingUsage


class ResponseBody(BaseModel):
    """A response."""

    id: str
    object: Literal["response"]
    created_at: int
    status: Literal["in_progress", "completed", "incomplete"]
    model: str
    output: list[dict[str, Any]]
    usage: dict[str, Any] | None


class TokenPiece(Body):
    """A token and its text, or its bytes."""

    id: int
    piece: str | list[int]


class TokensBody(Body):
    """The tokens of a text."""

    tokens: list[int] | list[TokenPiece]


class ContentBody(Body):
    """The text of tokens."""

    content: str


class InputTokens(Body):
    """How many tokens a conversation is as a prompt."""

    object: Literal["response.input_tokens"]
    input_tokens: int


class PromptBody(Body):
    """The prompt of a conversation."""

    prompt: str


class CountBody(Body):
    """How many tokens a text has."""

    count: int


class TextBody(Body):
    """The text of tokens."""

    text: str


class ModelRow(Body):
    """A model."""

    id: str
    object: Literal["model"]
    created: int
    owned_by: str
    meta: dict[str, int]


class ModelsBody(Body):
    """The models."""

    object: Literal["list"]
    data: list[ModelRow]


class HealthBody(Body):
    """All is well."""

    status: Literal["ok"]


class PropsBody(Body):
    """Window, template and special tokens."""

    default_generation_settings: dict[str, Any]
    total_slots: int = Field(ge=1)
    model_alias: str
    model_path: str
    chat_template: str
    chat_format: str
    bos_token: str
    eos_token: str
    build_info: str
    modalities: dict[str, bool]


class ResponseEvent(BaseModel):
    """An event of a streamed response, of any of OpenAI's kinds; all of them are numbered."""

    model_config = ConfigDict(extra="allow", strict=True)
    type: str
    sequence_number: int


BODIES: dict[str, type[BaseModel]] = {
    "/v1/chat/completions": ChatCompletionBody,
    "/v1/completions": CompletionBody,
    "/v1/responses": ResponseBody,
    "/v1/embeddings": EmbeddingBody,
    "/completion": NativeBodies,
    "/tokenize": TokensBody,
    "/detokenize": ContentBody,
    "/apply-template": PromptBody,
    "/v1/chat/completions/input_tokens": InputTokens,
    "/extras/tokenize": TokensBody,
    "/extras/tokenize/count": CountBody,
    "/extras/detokenize": TextBody,
}
EVENTS: dict[str, type[BaseModel]] = {
    "/v1/chat/completions": ChatChunkBody,
    "/v1/completions": CompletionBody,
    "/v1/responses": ResponseEvent,
    "/completion": NativeBody,
}
DONE = frozenset({"/v1/chat/completions", "/v1/completions"})  # whose last event is no JSON: `[DONE]`
PAGES: dict[str, type[BaseModel]] = {"/v1/models": ModelsBody, "/props": PropsBody, "/health": HealthBody}
