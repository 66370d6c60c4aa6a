"""What one call asks for, checked: limits, stops, samples, sampling."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

from llama_magic import formatters
from llama_magic.errors import InputTypeError, OptionError
from llama_magic.model import bias
from llama_magic.model import prompt as prompting
from llama_magic.model.growing import GrowingDigest
from llama_magic.model.guard import Overflow, check_overflow
from llama_magic.model.keyed import as_json, as_text, told_apart
from llama_magic.model.options import SPECULATE, Speculate
from llama_magic.model.other_names import check_names
from llama_magic.request.sampling import Sampling, check_seed, default_sampling
from llama_magic.request.stages import PARAMETERS
from llama_magic.words.given import flag, quoted, seconds_of, whole_number

if TYPE_CHECKING:
    from llama_magic.request.request import Request
    from llama_magic.request.tokenizer import Tokenizer
    from llama_magic.structured import Constraint


@dataclass(frozen=True)
class Call:
    """The options of one call, checked. What they mean stands at `Model.complete`."""

    max_tokens: int | None = None
    seed: int | None = None
    stop: tuple[str, ...] = ()
    n: int = 1
    logprobs: int | None = None
    overflow: Overflow = "error"
    reuse: bool = True
    min_tokens: int = 0
    ignore_eos: bool = False
    pressure: bool = False
    timeout: float | None = None
    tag: str | None = None
    prefill: str | None = None
    drop_thinking: bool = False
    speculate: Speculate = "auto"
    sampling: Sampling = field(default_factory=default_sampling)

    @classmethod
    def read(cls, defaults: Sampling, options: Mapping[str, Any], tokenizer: Tokenizer) -> Call:
        """Check `options`; what is not an option of a call is a sampling parameter, or an error."""
        given = dict(options)
        check_names(given, {field.name for field in fields(cls)} | PARAMETERS.keys())
        stop = given.pop("stop", None)
        if not isinstance(stop, (str, list, tuple, type(None))):
            raise InputTypeError(f"stop is {quoted(stop)}; expected a text or a list of texts.")
        stop = (stop,) if isinstance(stop, str) else tuple(stop or ())
        for text in stop:
            if not isinstance(text, str) or not text:
                raise OptionError(f"A stop string is {quoted(text)}; expected a text that is not empty.")
        least = _count("min_tokens", given.pop("min_tokens", 0), least=0) or 0
        most = _count("max_tokens", given.pop("max_tokens", None), least=1)
        # A special token cannot be drawn before: so the marks of a chat may be sent to a server.
        texts = [text for text in stop if least and tokenizer.special_id(text) is None]
        if least and (texts or (most is not None and least > most)):
            against = "stop texts, which may end the answer before" if texts else f"max_tokens={most}"
            raise OptionError(f"min_tokens={least} stands beside {against}.", remedy="Leave one of them out.")
        seed = given.pop("seed", None)
        if "logit_bias" in given:
            given["logit_bias"] = bias.by_id(given["logit_bias"], tokenizer)
        sampling = defaults if (asked := given.pop("sampling", None)) is None else asked
        if not isinstance(sampling, Sampling):
            raise InputTypeError(f"sampling is a {type(sampling).__name__}; expected a Sampling.")
        return cls(
            max_tokens=most,
            seed=None if seed is None else check_seed(seed),
            stop=stop,
            n=_count("n", given.pop("n", 1), least=1) or 1,
            logprobs=_alternatives(given.pop("logprobs", None)),
            overflow=check_overflow(given.pop("overflow", "error")),
            reuse=flag("reuse", given.pop("reuse", True)),
            min_tokens=least,
            ignore_eos=flag("ignore_eos", given.pop("ignore_eos", False)),
            pressure=flag("pressure", given.pop("pressure", False)),
            timeout=seconds_of(given.pop("timeout", None)),
            tag=_text("tag", given.pop("tag", None)),
            drop_thinking=flag("drop_thinking", given.pop("drop_thinking", False)),
            speculate=_speculate(given.pop("speculate", "auto")),
            prefill=_beginning(given.pop("prefill", None)),
            sampling=sampling.replace(**given),
        )

    def begun_by(self, message: Any) -> Call:
        """Return the call whose answer begins with the text of an assistant's message."""
        (plain,) = formatters.normalise_messages([message])
        return replace(self, prefill=str(plain["content"]))


@dataclass(frozen=True)
class Beside:
    """What a call asks for beside its `Call`, as the methods of a model take it."""

    retries: int = 0
    thinking: bool = False
    tools: Sequence[Any] | None = None  # in the form of OpenAI's API
    tool_choice: str | Mapping[str, Any] = "auto"
    parallel_tool_calls: bool | None = None
    tools_as_text: bool = False
    either: bool = False  # with tools and a constraint: an answer calls, or it is a text of the constraint
    template_variables: Mapping[str, Any] = field(default_factory=dict)


# What a receipt says of a call where it is not the default: any kind of call takes the first of these.
OF_A_CALL = (
    "stop",
    "n",
    "overflow",
    "reuse",
    "min_tokens",
    "ignore_eos",
    "logprobs",
    "pressure",
    "timeout",
    "speculate",
)
_IN_RECEIPT = (*OF_A_CALL, "prefill", "drop_thinking")
KEYED = ("tools", "template_variables")  # a template may write their keys in the order in which they stand


def for_receipt(
    call: Call,
    constraint: Constraint | None,
    beside: Beside,
    prompt: prompting.Prompt,
    given: str | Sequence[Any],
) -> dict[str, Any]:
    """Return for the receipt what was asked beside seed and sampling, where it is not the default.

    `given` is the text or the messages: they stand there where not all of it was sent.
    """
    asked = {**_given(call, _IN_RECEIPT), **_given(beside, [field.name for field in fields(beside)])}
    if call.n > 1 and call.seed is not None:
        asked["seed"] = call.seed  # of all samples together; each has one of its own, made from it
    if prompt.continues:
        asked["prefill"] = prompt.messages[-1]["content"]
    if prompt.shortened:
        asked |= (
            {"prompt": given}
            if isinstance(given, str)
            else {"messages": formatters.normalise_messages(given)}
        )
    if constraint is not None:
        asked["constraint"] = {"kind": constraint.kind, **constraint.asked}
        if "schema" in constraint.asked:
            asked["constraint"]["schema"] = as_text(constraint.asked["schema"])
    asked |= {name: as_text(asked[name]) for name in KEYED if name in asked}
    return {"asked": as_json(asked)} if asked else {}


_DIGEST_BYTES = 16


def digest(
    mode: str,
    request: Request,
    prompt: str,
    constraint: Constraint | None,
    thinking: str,
    model: str,
    made_with: Mapping[str, Any],
    growing: GrowingDigest,
) -> str:
    """Return what equal requests to the same file have in common, whatever computes it, in hexadecimal.

    `prompt` are its tokens in JSON, "" where they are yet to be written. `thinking` is what was chosen of it,
    in words. A seed that was drawn is no part. `growing` knows of the request before, of the same model.
    """
    engine = made_with.get("engine", {})
    file = made_with.get("file", {}).get("fingerprint") or [model, dict(made_with)]
    matters = {key: engine[key] for key in engine if key == "lora" or key.startswith(("rope_", "yarn_"))}
    asked = [
        request.max_tokens,
        request.sampling.to_dict(),
        request.seed if request.exact else None,
        request.n,
        request.stops,
        len(request.begun),
        sorted(request.stop_texts.items()),
        request.logprobs,
        request.ignore_eos,
        request.measure_outside,
        constraint and told_apart(constraint.asked),
        thinking,
    ]
    if request.min_tokens:
        asked.append(request.min_tokens)
    if request.tools:
        asked += [told_apart(request.tools), request.tool_choice, request.parallel_tool_calls]
        asked += [list(request.allowed_tools)] if request.allowed_tools else []
    # The tokens of a long chat come as text: to write thousands of them would cost each turn more.
    before, after = (json.dumps(as_json(some), sort_keys=True) for some in ([mode, file, matters], asked))
    ids = prompt or json.dumps(list(request.prompt))
    return growing.digest(f"{before[:-1]}, {ids[:-1]}", f"{ids[-1]}, {after[1:]}")


def hashing() -> Any:
    """Return what digests of requests are made with."""
    return hashlib.blake2b(digest_size=_DIGEST_BYTES)


def _given(options: object, names: Iterable[str]) -> dict[str, Any]:
    """Return the options of these names that are not the default."""
    defaults = type(options)()
    return {name: value for name in names if (value := getattr(options, name)) != getattr(defaults, name)}


def _count(name: str, value: object, *, least: int) -> int | None:
    if value is None:
        return None
    number = whole_number(name, value)
    most = _MOST.get(name, 10**12)
    if not least <= number <= most:
        limit = f"{least} or more" if number < least and name not in _MOST else f"{least} to {most}"
        raise OptionError(f"{name} is {quoted(number)}; expected {limit}.")
    return number


def _alternatives(value: object) -> int | None:
    if isinstance(value, bool):  # as OpenAI's API has it
        raise OptionError(
            f"logprobs is {value}; expected how many alternatives of each token are kept.",
            remedy="Write logprobs=5, and leave top_logprobs out; 0 keeps the answer's own alone.",
        )
    return _count("logprobs", value, least=0)


def _speculate(value: object) -> Speculate:
    for known in SPECULATE:
        if isinstance(value, str) and value == known:
            return known
    raise OptionError(f"speculate is {quoted(value)}; expected {' or '.join(map(repr, SPECULATE))}.")


def _text(name: str, value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise InputTypeError(f"{name} is {quoted(value)}; expected a text.")
    return value or None


def _beginning(value: object) -> str | None:
    text = _text("prefill", value)
    # Templates strip their messages, or write blanks themselves.
    if text is not None and (not text or text.isspace()):
        raise OptionError(
            f"prefill is {quoted(text)}; expected a text that is more than blanks.", remedy="Leave it out."
        )
    return text


# More samples than this are asked for in several calls; more alternatives a token cost more than decoding.
_MOST = {"n": 1000, "logprobs": 1000}
