"""What a server can do, tried on it: a few tokens for each ability. What does not hold is not believed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from llama_magic.errors import (
    LlamaMagicError,
    ServerError,
    ServerKeyError,
    ServerUnreachableError,
    StructuredOutputError,
)
from llama_magic.model.model import Model
from llama_magic.remote.backend import Abilities, RemoteBackend
from llama_magic.remote.dialect import default_sampling
from llama_magic.request.backend import Capabilities
from llama_magic.request.sampling import Sampling
from llama_magic.words.shown import Printed

WORD = "zqxjv"  # that no model would write by itself
_CALLS = {"required": "forced tool call", "named": "named tool call"}
_TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": {"type": "object", "properties": {}}}}
    for name in ("colour", WORD)
]
_QUESTION = [{"role": "user", "content": "Name a colour."}]


@dataclass(frozen=True)
class Ability:
    """One row of the card. `holds` is None where it was not tried."""

    name: str
    holds: bool | None
    details: str = ""


@dataclass(frozen=True)
class ServerCard(Printed):
    """What is known of a server: what it says of itself, and what held when it was tried."""

    address: str
    kind: str
    build: str
    model: str
    window: int
    abilities: tuple[Ability, ...]
    probed: bool
    notes: tuple[str, ...] = ()

    def holds(self, name: str) -> bool | None:
        """Return whether an ability held, None where it was not tried. Raises `KeyError`."""
        return next(ability.holds for ability in self.abilities if ability.name == name)


def probe(model: Model) -> tuple[Ability, ...]:
    """Try each ability; the backend's capabilities are then what held."""
    backend = model.backend
    assert isinstance(backend, RemoteBackend)  # connect made it
    rows = [_tokens(model, backend), _seed(model), _logprobs(model, backend)]
    kept: set[str] = set()
    for kind in ("json", "choices", "regex", "gbnf"):
        row = _constraint(model, backend, kind)
        rows.append(row)
        if row.holds:
            kept.add(kind)
    tools = [_call(model, backend, choice) for choice in ("required", "named")]
    rows += [*tools, _several(model), _overflow(model, backend)]
    held = {row.name: row.holds for row in rows}
    believed = backend.capabilities
    assert isinstance(believed, Abilities)
    backend.capabilities = replace(
        believed,
        seeds=bool(held["seed"]),
        logprobs=believed.logprobs if held["logprobs"] else None,
        constraints=frozenset(kept),
        tools=believed.tools - {choice for choice in ("required", "named") if not held[_CALLS[choice]]},
    )
    return tuple(rows)


def unprobed(capabilities: Capabilities) -> tuple[Ability, ...]:
    """Return the rows of a card for a server that was not tried."""
    kinds = ", ".join(sorted(capabilities.constraints))
    return (Ability("all of them", None, f"believed, not tried: seeds, logprobs, {kinds}"),)


def _tried(name: str, attempt: Callable[[], tuple[bool, str]]) -> Ability:
    """Return the row of one attempt; that an attempt fails is an answer, too."""
    try:
        return Ability(name, *attempt())
    except (ServerUnreachableError, ServerKeyError):
        raise
    except (LlamaMagicError, KeyError, TypeError, ValueError) as error:
        words = error.message if isinstance(error, LlamaMagicError) else str(error)
        return Ability(name, False, words.splitlines()[0][:160])


def _drawn(model: Model, temperature: float) -> Sampling:
    """Return how to draw; some models have a temperature of their own."""
    backend = model.backend
    assert isinstance(backend, RemoteBackend)  # connect made it
    usual = default_sampling(backend.dialect)
    return usual if "temperature" in backend.dialect.refused else usual.replace(temperature=temperature)


def _tokens(model: Model, backend: RemoteBackend) -> Ability:
    def attempt() -> tuple[bool, str]:
        ours = len(model.chat(_QUESTION, max_tokens=1).prompt_token_ids)  # first: what it takes is learnt so
        counted = backend.count(_QUESTION)
        if not backend.dialect.takes_tokens:
            return (
                False,
                f"chats are counted by the server (a probe: {counted}); here they are estimated ({ours})",
            )
        return counted == ours, f"{ours} tokens here, {counted} there, for the same conversation"

    return _tried("exact counts", attempt)


def _seed(model: Model) -> Ability:
    def attempt() -> tuple[bool, str]:
        hot = _drawn(model, 1.5)
        first, again, other = (
            model.chat(_QUESTION, seed=seed, sampling=hot, max_tokens=12).text for seed in (7, 7, 8)
        )
        if first != again:
            return False, "the same seed gave another answer"
        return True, "the same seed gave the same answer" + (
            "" if first != other else "; so did another seed"
        )

    return _tried("seed", attempt)


def _logprobs(model: Model, backend: RemoteBackend) -> Ability:
    def attempt() -> tuple[bool, str]:
        if backend.capabilities.logprobs is None:
            return False, "this kind of server has none"
        told = model.chat(_QUESTION, max_tokens=2, sampling=_drawn(model, 0), logprobs=2).logprobs or ()
        if not told:
            return False, "none came"
        return True, f"{len(told[0].top)} alternatives of a token came, of 2 asked for"

    return _tried("logprobs", attempt)


def _constraint(model: Model, backend: RemoteBackend, kind: str) -> Ability:
    schema = {"type": "string", "enum": [WORD]}
    kinds: dict[str, dict[str, Any]] = {
        "choices": {"choices": [WORD]},
        "regex": {"regex": WORD},
        "gbnf": {"grammar": f'root ::= "{WORD}"'},
    }
    asked = kinds.get(kind, {})
    name = {"json": "JSON schema", "gbnf": "grammar"}.get(kind, kind)

    def attempt() -> tuple[bool, str]:
        if kind not in backend.capabilities.constraints:
            return False, "this kind of server has none"
        if kind == "json":
            try:
                text = model.structured(_QUESTION, schema, max_tokens=48, sampling=_drawn(model, 0)).text
            except StructuredOutputError as error:  # blanks may follow, without end
                text = error.text
        else:
            text = model.chat(_QUESTION, max_tokens=24, sampling=_drawn(model, 0), **asked).text
        if text.strip().strip('"') != WORD:
            return False, f"asked for {WORD!r} alone, it wrote {text[:40]!r}"
        return True, "a word that no model would write was written"

    return _tried(name, attempt)


def _call(model: Model, backend: RemoteBackend, choice: str) -> Ability:
    """Ask for a call that no model would make: of one of two tools, or by name of the other of two."""

    def attempt() -> tuple[bool, str]:
        if choice not in backend.capabilities.tools:
            return False, "this kind of server is not known to force one"
        wanted = WORD if choice == "named" else choice
        how: Any = {"tools": _TOOLS, "tool_choice": wanted, "tools_as_text": True}
        made = model.chat(_QUESTION, max_tokens=48, sampling=_drawn(model, 0), **how)
        called = [call["name"] for call in made.tool_calls]
        if called[:1] == [WORD] or (called and choice == "required"):
            return True, "where no model would, it called"
        words = ", ".join(map(str, called)) if called else f"nothing, and wrote {made.text[:40]!r}"
        return False, f"asked for {wanted}, it called {words}"

    return _tried(_CALLS[choice], attempt)


def _several(model: Model) -> Ability:
    def attempt() -> tuple[bool, str]:
        made = model.chat(_QUESTION, n=2, max_tokens=2, sampling=_drawn(model, 1))
        return len(made) == 2, "two samples, each a request of its own"

    return _tried("samples", attempt)


def _overflow(model: Model, backend: RemoteBackend) -> Ability:
    """Ask one token more than fits, past our own guard: does the server refuse, or cut in silence?"""

    def attempt() -> tuple[bool, str]:
        if not model.window:
            return False, "the server does not say how much it takes"
        body = {"model": backend.dialect.facts.model, "max_tokens": 1}
        text = " a" * (model.window + 64)
        try:
            backend.wire.ask("/v1/completions", {**body, "prompt": text})
        except ServerError as error:
            if error.status is not None and 400 <= error.status < 500:
                return True, f"refused with {error.status}"
            raise
        return (
            False,
            "a prompt over the window was answered: the server cuts in silence; the guard here does not",
        )

    return _tried("overflow", attempt)
