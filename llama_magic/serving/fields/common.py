"""What requests have in common: how they are checked, limits, how to draw, when to stop."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, WithJsonSchema, create_model
from pydantic_core import PydanticCustomError

from llama_magic.request.stages import MAX_SEED, PARAMETERS, STAGES, Parameter, stage_name
from llama_magic.serving.fields.idle import IDLE, SAME, Same

MAX_TEXTS = 2048  # messages, prompts or texts of one request
MAX_TOOLS = 128
MAX_SAMPLES = 128
MAX_STOPS = 64
MAX_BIASED = 4096
Token = Annotated[int, Field(ge=0, le=2**31 - 1)]
_MOST = 2**31 - 1
Count = Annotated[int, Field(ge=1, le=_MOST)]


def _not_none(given: int) -> int:
    if given == 0:
        raise PydanticCustomError("limit", "expected 1 or more, or -1")
    return given


# Of tokens to write; -1 as clients of llama.cpp and LM Studio say that there is no limit.
Limit = Annotated[
    int,
    Field(ge=-1, le=_MOST),
    AfterValidator(_not_none),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 1, "maximum": _MOST}, {"const": -1}]}),
]


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
    instead: ClassVar[Mapping[str, str]] = {}  # what to write for names that other endpoints have
    same: ClassVar[Mapping[str, Same]] = {}  # other names of its fields
    limit: ClassVar[str] = "max_tokens"  # what it calls how much is written at most


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
_IDLE: dict[str, Any] = {
    name: (row.type | None, Field(None, description=f"{row.value or 'taken'}: {row.why}"))
    for name, row in IDLE.items()
}
_SAME: dict[str, Any] = {
    name: (Any, Field(None, description=f"what {' or '.join(row.of)} is")) for name, row in SAME.items()
}
_Numbers: Any = create_model("Sampling", __base__=Fields, **_NUMBERS, **_IDLE, **_SAME)
_STAGE = {
    **dict(zip("dkypsmtxi", ("dry", "top_k", "typical_p", "top_p", "top_n_sigma", "min_p", "temperature",
                             "xtc", "infill"), strict=True)),
    "e": "penalties",
}  # fmt: skip


def _seed(given: int | None) -> int | None:
    return None if given in (-1, MAX_SEED + 1) else given  # as clients of llama.cpp say it


def _order(given: list[str] | str | None) -> list[str] | None:
    """Return an order of stages; as a text it is llama-server's: names with `;` between, or letters."""
    if not isinstance(given, str):
        return given
    letters = stage_name(given) not in STAGES and set(given) <= _STAGE.keys()
    return [_STAGE[one] for one in given] if letters else given.split(";")


Order = Annotated[list[str], Field(max_length=32)] | Annotated[str, Field(max_length=200)]


# What a client takes the window for: it is set when the model is loaded.
Window = Annotated[Count | None, Field(description="at most the window that the model was loaded with")]


class SamplingFields(_Numbers):  # type: ignore[misc]  # made of the stages, when imported
    """How tokens are drawn and when an answer ends: OpenAI's fields, and those of llama.cpp's samplers."""

    same: ClassVar[Mapping[str, Same]] = SAME
    seed: Annotated[Annotated[int, Field(ge=-1, le=MAX_SEED + 1)] | None, AfterValidator(_seed)] = Field(
        None, description="the same bytes each time, whatever else runs; without one, or -1, a seed is drawn"
    )
    stop: str | Annotated[list[str], Field(max_length=MAX_STOPS)] | None = None
    min_tokens: Annotated[int, Field(ge=0, le=2**20)] | None = Field(
        None, description="tokens before which the answer cannot end by itself"
    )
    ignore_eos: bool | None = None
    logit_bias: Bias | None = Field(None, description="token id to what is added to its logit; false bars it")
    samplers: Annotated[Order | None, AfterValidator(_order)] = Field(
        None, description=f"the order of the stages: {', '.join(STAGES)}"
    )
    dry_sequence_breakers: Annotated[list[str], Field(max_length=64)] | None = None
    cache_prompt: bool | None = Field(None, description="false: reuse nothing of the KV cache")
    num_ctx: Window = None
    truncation_length: Window = None
    user: str | None = Field(None, description="stands in the row of this request")


# How fast it goes, in llama-server's words: in the body, of a stream in each event.
Timed = Annotated[bool | None, Field(description="tell llama-server's timings, in a stream with each piece")]


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
