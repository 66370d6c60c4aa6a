"""What requests have in common: how they are checked, limits, how to draw, when to stop."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, create_model
from pydantic_core import PydanticCustomError

from llama_magic.request.stages import MAX_SEED, PARAMETERS, STAGES, Parameter

MAX_TEXTS = 2048  # messages, prompts or texts of one request
MAX_TOOLS = 128
MAX_SAMPLES = 128
MAX_STOPS = 64
MAX_BIASED = 4096
Token = Annotated[int, Field(ge=0, le=2**31 - 1)]
Count = Annotated[int, Field(ge=1, le=2**31 - 1)]


def _number_or_false(given: float | bool) -> float | bool:
    if given is True:
        raise PydanticCustomError("bias", "expected a number, or false")
    return given


# As llama-server takes it: an object or pairs of ids and numbers; false in place of a number bars the token.
_Added = Annotated[
    float | bool,
    AfterValidator(_number_or_false),
    WithJsonSchema({"anyOf": [{"type": "number"}, {"const": False}]}),
]
Pair = tuple[Token, _Added]
Bias = (
    Annotated[dict[str, _Added], Field(max_length=MAX_BIASED)]
    | Annotated[list[Pair], Field(max_length=MAX_BIASED)]
)


class Fields(BaseModel):
    """A request, or a part of one. Unknown fields are refused, values are not converted."""

    model_config = ConfigDict(extra="forbid", strict=True, protected_namespaces=(), allow_inf_nan=False)


def _of(parameter: Parameter) -> Any:
    """Return the type and the default of the field that sets a sampling parameter."""
    if parameter.choices:
        return Literal[parameter.choices]
    number = {"int": int, "float": float}.get(parameter.type)
    if number is None:
        return None
    return Annotated[number, Field(ge=parameter.low, le=parameter.high)]


_NUMBERS: dict[str, Any] = {
    name: (kind | None, Field(None, description=parameter.help))
    for name, parameter in PARAMETERS.items()
    if (kind := _of(parameter)) is not None
}
_Numbers: Any = create_model("Sampling", __base__=Fields, **_NUMBERS)


def _seed(given: int | None) -> int | None:
    return None if given == -1 else given  # as clients of llama.cpp say it


class SamplingFields(_Numbers):  # type: ignore[misc]  # made of the stages, when imported
    """How tokens are drawn and when an answer ends: OpenAI's fields, and those of llama.cpp's samplers."""

    seed: Annotated[Annotated[int, Field(ge=-1, le=MAX_SEED)] | None, AfterValidator(_seed)] = Field(
        None, description="the same bytes each time, whatever else runs; without one, or -1, a seed is drawn"
    )
    stop: str | Annotated[list[str], Field(max_length=MAX_STOPS)] | None = None
    min_tokens: Annotated[int, Field(ge=0, le=2**20)] | None = Field(
        None, description="tokens before which the answer cannot end by itself"
    )
    ignore_eos: bool | None = None
    logit_bias: Bias | None = Field(None, description="token id to what is added to its logit; false bars it")
    samplers: Annotated[list[str], Field(max_length=32)] | None = Field(
        None, description=f"the order of the stages: {', '.join(STAGES)}"
    )
    dry_sequence_breakers: Annotated[list[str], Field(max_length=64)] | None = None
    cache_prompt: bool | None = Field(None, description="false: reuse nothing of the KV cache")
    user: str | None = Field(None, description="stands in the row of this request")


class StreamOptions(Fields):
    """What a stream holds besides."""

    include_usage: bool | None = None
    include_obfuscation: Literal[False] | None = None


class StructuredOutputs(Fields):
    """vLLM's way to say what an answer is held to: one of these."""

    schema_: dict[str, Any] | str | None = Field(None, alias="json", description="a schema")
    regex: str | None = None
    choice: list[str] | None = None
    grammar: str | None = Field(None, description="GBNF")
    json_object: bool | None = None
