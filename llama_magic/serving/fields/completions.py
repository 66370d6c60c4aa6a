"""`/v1/completions`, llama-server's `/completion`, and `/v1/embeddings`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from llama_magic.serving.fields.common import (
    MAX_SAMPLES,
    MAX_TEXTS,
    Count,
    Fields,
    Limit,
    SamplingFields,
    StreamOptions,
    StructuredOutputs,
    Timed,
    Token,
)
from llama_magic.serving.fields.idle import SAME, Same

Mixed = Annotated[list[Token | str], Field(min_length=1, max_length=2**20)]
Several = Annotated[list[str | Mixed], Field(min_length=1, max_length=MAX_TEXTS)]
Prompts = Annotated[
    str | Mixed | Several,
    Field(description="a text, or tokens and texts that are one; a list without a token is several"),
]


class Completion(SamplingFields):
    """Texts to continue, or their tokens."""

    instead: ClassVar[Mapping[str, str]] = {
        "messages": "Write prompt, or ask /v1/chat/completions.",
        "n_probs": "Write logprobs: how many.",
        "n_cmpl": "Write n.",
    }
    model: str | None = None
    prompt: Prompts
    max_tokens: Annotated[int, Field(ge=-1, le=2**31 - 1)] | None = Field(
        None,
        description="16 without one, as OpenAI's API has it; -1: what the window holds; 0: the "
        "log-probabilities of the prompt alone",
    )
    n: Annotated[int, Field(ge=1, le=MAX_SAMPLES)] | None = None
    best_of: Annotated[int, Field(ge=1, le=MAX_SAMPLES)] | None = Field(
        None, description="what n is, or null"
    )
    echo: bool | None = None
    suffix: None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    timings_per_token: Timed = None
    logprobs: Annotated[int, Field(ge=0, le=20)] | None = Field(
        None, description="with echo those of the prompt are told, too"
    )
    prompt_logprobs: Annotated[int, Field(ge=0, le=20)] | None = Field(
        None, description="how many alternatives to tell of each token of the prompt, as vLLM does"
    )
    logprob_start_len: Annotated[int, Field(ge=0, le=2**31 - 1)] | None = Field(
        None, description="the token of the prompt from which on its log-probabilities are told"
    )
    grammar: str | None = None
    regex: str | None = Field(None, description="an expression that the whole answer matches")
    structured_outputs: StructuredOutputs | None = Field(None, description="vLLM's form of these")
    json_schema: dict[str, Any] | None = None


class NativeCompletion(SamplingFields):
    """llama-server's own form: an answer to each prompt, tokens told."""

    instead: ClassVar[Mapping[str, str]] = {
        "messages": "Write prompt, or ask /v1/chat/completions.",
        **dict.fromkeys(("max_tokens", "max_new_tokens"), "Write n_predict, or ask /v1/completions."),
        **dict.fromkeys(("n", "n_cmpl"), "Write prompt as a list: each has an answer."),
    }
    limit: ClassVar[str] = "n_predict"
    same: ClassVar[Mapping[str, Same]] = {
        **SAME,
        "max_tokens": Same(("n_predict",)),
        "logprobs": Same(("n_probs",)),
    }
    max_tokens: Any = Field(None, description="what n_predict is")
    logprobs: Any = Field(None, description="what n_probs is")
    n: Literal[1] | None = None
    model: str | None = None
    prompt: Prompts
    n_predict: Limit | None = Field(None, description="-1: what the window holds")
    stream: bool | None = None
    timings_per_token: Timed = None
    return_progress: bool | None = Field(None, description="how much of the prompt is read, in a stream")
    n_probs: Annotated[int, Field(ge=0, le=1000)] | None = None
    return_tokens: bool | None = None
    post_sampling_probs: Literal[False] | None = None
    preserved_tokens: Annotated[list[str], Field(max_length=4096)] | None = None
    grammar: str | None = None
    regex: str | None = Field(None, description="an expression that the whole answer matches")
    json_schema: dict[str, Any] | None = None


class Embedding(Fields):
    """Texts to embed, or their tokens."""

    instead: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("content", "prompt", "text", "texts"), "Write input."
    )
    model: str | None = None
    input: Prompts
    encoding_format: Literal["float", "base64"] | None = None
    dimensions: Count | None = Field(None, description="what the model has, or null")
    user: str | None = None
