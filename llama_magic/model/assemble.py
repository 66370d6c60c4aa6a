"""From a call that is checked and rendered to the request, and to what puts its events together."""

from __future__ import annotations

import functools
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from llama_magic.errors import OptionError
from llama_magic.microscope.advice import advise
from llama_magic.model.answer import Again, Assembler, Terms
from llama_magic.model.asked import Beside, Call, digest, for_receipt
from llama_magic.model.begun import begin, held
from llama_magic.model.growing import GrowingDigest
from llama_magic.model.guard import check_budget
from llama_magic.model.options import idle
from llama_magic.model.thinking import Thinking, after_thinking, note_of, reads_marks
from llama_magic.model.tools.offer import Offer
from llama_magic.request.request import Request
from llama_magic.request.sampling import Sampling, default_sampling
from llama_magic.request.stages import PARAMETERS
from llama_magic.request.tokenizer import no_such_token
from llama_magic.structured.atleast import at_least
from llama_magic.words.given import quoted

if TYPE_CHECKING:
    from llama_magic.formatters import Formatter
    from llama_magic.model.file import LoadedFile
    from llama_magic.model.prompt import Prompt
    from llama_magic.request.backend import Backend
    from llama_magic.structured import Constraint


@dataclass(frozen=True)
class Ask:
    """One call: `given` is the text or the messages, `prompt` what fits of it, `limit` the longest answer.

    `begun` are tokens that the answer begins with, in place of any that `prompt` ends with.
    """

    mode: str
    given: str | Sequence[Any]
    prompt: Prompt
    limit: int
    call: Call
    options: Mapping[str, Any]
    constraint: Constraint | None = None
    formatter: Formatter | None = None
    beside: Beside = field(default_factory=Beside)
    thinking: Thinking | None = None
    offer: Offer = field(default_factory=Offer)
    steps: tuple[dict[str, Any], ...] = ()
    begun: tuple[int, ...] = ()
    keep: bool = True
    again: Again | None = None


def assemble(
    name: str,
    file: LoadedFile,
    backend: Backend,
    ask: Ask,
    visible_ids: frozenset[int],
    growing: GrowingDigest,
) -> Assembler:
    """Prepare the request of a call to the model `name`. Raises `OptionError` for what cannot be honoured."""
    call, constraint, formatter, offer = ask.call, ask.constraint, ask.formatter, ask.offer
    tokenizer, capabilities = backend.tokenizer, backend.capabilities
    prompt, limit = begin(ask.prompt, ask.limit, ask.begun, file.window, tokenizer, visible_ids)
    calls = bool(offer.tools) and offer.choice != "none"
    alone = None if calls else constraint  # what the answer is held to, whatever it is
    if alone is not None and capabilities.masks:
        check_budget(alone, limit, len(prompt.begun))
    for token, _ in call.sampling.logit_bias:
        if not 0 <= token < tokenizer.n_tokens:
            raise no_such_token(tokenizer, f"logit_bias names token {quoted(token)}")
    own = formatter.stop if formatter and not call.ignore_eos else ()
    stops = tuple(dict.fromkeys((*call.stop, *own)))
    ids = {text: tokenizer.special_id(text) for text in stops}
    note, mask = "", None
    if alone is not None:
        note = note_of(ask.thinking, formatter, prompt.head)
        mask = after_thinking(alone, formatter, prompt.head, tokenizer, ask.thinking)
    elif formatter is not None and capabilities.masks:
        mask = offer.constraint(formatter, prompt.head, tokenizer, constraint)
    if capabilities.masks:
        ends = [*(token for token in ids.values() if token is not None), *tokenizer.eog_ids]
        mask = at_least(held(mask, prompt, tokenizer), call.min_tokens, ends, tokenizer.n_tokens)
    request = Request(
        prompt=prompt.ids,
        max_tokens=limit,
        sampling=call.sampling,
        seed=_drawn(call.sampling) if call.seed is None else call.seed,
        exact=call.seed is not None,
        certain=call.sampling.certain,
        n=call.n,
        stops=stops,
        stop_texts={token: text for text, token in ids.items() if token is not None},
        visible_ids=visible_ids,
        logprobs=call.logprobs,
        reuse=call.reuse,
        keep=ask.keep,
        ignore_eos=call.ignore_eos,
        measure_outside=call.pressure and alone is not None,
        constraint=mask,
        speculate=call.speculate == "auto",
        begun=prompt.begun,
        text=prompt.text,
        messages=prompt.sent,
        tools=tuple(offer.descriptions),
        tool_choice=offer.choice,
        allowed_tools=tuple(sorted(offer.allowed or ())),
        parallel_tool_calls=offer.parallel,
        min_tokens=call.min_tokens,
    )
    if lack := capabilities.lacks(request):
        raise OptionError(f"{name} cannot honour {lack}.", remedy="Leave it out, or load the model here.")
    request.digest = digest(ask.mode, request, prompt.told, constraint, note, name, file.made_with, growing)
    terms = Terms(
        mode=ask.mode,
        model=name,
        prompt=prompt,
        max_tokens=limit,
        window=file.window,
        load_s=file.load_s,
        timeout=call.timeout,
        formatter=formatter,
        constraint=alone,
        thinking=note,
        reads=reads_marks(alone, formatter, prompt.head, ask.thinking),
        made_with={**file.made_with, **for_receipt(call, constraint, ask.beside, prompt, ask.given)},
        tag=call.tag,
        offer=offer,
        steps=ask.steps,
        advice=(*_advice(call.sampling, ask.options), *idle(ask.options, {"constraint"} if alone else ())),
        request=request.digest,
        again=ask.again,
    )
    return Assembler(terms, tokenizer, request)


def advised(made: Assembler, *notes: str) -> Assembler:
    """Return what is put together, its answer with these notes more."""
    made.terms = replace(made.terms, advice=(*made.terms.advice, *notes))
    return made


def _drawn(sampling: Sampling) -> int:
    """Draw a seed: 0 where nothing is left to chance, so that a notebook run again is saved as it was."""
    return 0 if sampling.certain else secrets.randbelow(2**32 - 1)


def changed(options: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a call with some of them changed.

    A `sampling` among the changes takes the place of every sampling parameter.
    """
    kept = {k: v for k, v in options.items() if not ("sampling" in changes and k in PARAMETERS)}
    return {**kept, **changes}


def _advice(sampling: Sampling, options: Mapping[str, Any]) -> tuple[str, ...]:
    """Say which sampling parameters that were asked for do nothing."""
    asked = PARAMETERS.keys() & options.keys()
    if options.get("sampling") is not None:
        default = default_sampling()
        asked |= {name for name in PARAMETERS if getattr(sampling, name) != getattr(default, name)}
    return _advised(sampling, frozenset(asked))


@functools.lru_cache(maxsize=64)  # the rows of a list are asked alike
def _advised(sampling: Sampling, asked: frozenset[str]) -> tuple[str, ...]:
    return advise(sampling, asked)
