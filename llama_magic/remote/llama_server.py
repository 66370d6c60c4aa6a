"""llama.cpp's own server: tokens in, tokens out, template and tokenizer told, so all is as exact as here."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from llama_magic import formatters
from llama_magic.errors import InputTypeError, OptionError
from llama_magic.formatters import Formatter
from llama_magic.remote import made_next, prompt_logprobs
from llama_magic.remote.dialect import Facts, SampleReader, count_of, parameters
from llama_magic.remote.errand import Ask
from llama_magic.remote.forced import CallReader, is_forced, question
from llama_magic.remote.marks import marks_of
from llama_magic.remote.openai import embed
from llama_magic.remote.tokens import ServerTokenizer
from llama_magic.remote.wire import Wire
from llama_magic.request.backend import Expected
from llama_magic.request.events import Event
from llama_magic.request.request import Request
from llama_magic.request.stages import PARAMETERS

_STAGES = {"typical_p": "typ_p"}  # our name, theirs


class LlamaServer:
    """A server that has `/props`, `/tokenize` and `/completion`."""

    name = "llama-server"
    fields: Mapping[str, str] = {name: name for name in PARAMETERS if name != "samplers"}
    orders = True
    takes_tokens = True
    refused: frozenset[str] = frozenset()
    constraints = frozenset({"json", "choices", "gbnf"})
    tools = frozenset({"auto", "required", "named"})
    ignores_eos = True
    keeps_least = False
    logprobs: int | None = 1000
    reads = False
    scores = True
    _draws = False  # it draws a seed itself where none is asked for
    _reuses_bits = False  # what it reuses of a prompt has the bits of one that is read anew

    def __init__(
        self,
        wire: Wire,
        props: Mapping[str, Any],
        models: Sequence[Mapping[str, Any]],
        model: str,
        whom: Mapping[str, Any] | None = None,
    ) -> None:
        self._wire = wire
        self._whom = dict(whom or {})  # what says in each question which of its models is meant
        chosen = next((m for m in models if m.get("id") == model), {})
        meta = chosen.get("meta") or {}
        settings = props.get("default_generation_settings") or {}
        self.facts = Facts(
            model,
            build=str(props.get("build_info") or ""),
            window=int(settings.get("n_ctx") or meta.get("n_ctx") or 0),
            n_ctx_train=int(meta.get("n_ctx_train") or 0),
            slots=int(props.get("total_slots") or 1),
        )
        bos, eos = str(props.get("bos_token") or ""), str(props.get("eos_token") or "")
        template = str(props.get("chat_template") or "")
        self.formatter = self._format(props, _Told(template, bos, eos))
        self.tokenizer = ServerTokenizer(
            self,
            n_tokens=int(meta.get("n_vocab") or 1 << 24),
            fingerprint=f"{wire.address.base}:{model}",
            bos=bos,
            eos=eos,
            marks=marks_of(template, self.formatter),
        )

    def _format(self, props: Mapping[str, Any], told: _Told) -> Formatter:
        """Return what writes conversations as the server's model does."""
        return formatters.detect(told)

    # --- tokens -----------------------------------------------------------------------------

    def tokenize(self, text: str, *, begins: bool, parse_special: bool) -> list[tuple[int, bytes | None]]:
        body = {
            **self._whom,
            "content": text,
            "add_special": begins,
            "parse_special": parse_special,
            "with_pieces": True,
        }

        def take(found: Any) -> list[tuple[int, bytes | None]]:
            return [(int(token["id"]), _bytes(token["piece"])) for token in found["tokens"]]

        told: list[tuple[int, bytes | None]] = self._wire.ask("/tokenize", body, take=take)
        return told

    def detokenize(self, ids: Sequence[int]) -> str:
        body = {**self._whom, "tokens": list(ids)}
        return str(self._wire.ask("/detokenize", body, take=lambda found: found["content"]))

    def count(self, messages: Sequence[Mapping[str, Any]]) -> int:
        body = {**self._whom, "messages": list(messages)}
        rendered = self._wire.ask("/apply-template", body, take=lambda found: str(found["prompt"]))
        return len(self.tokenize(rendered, begins=True, parse_special=True))

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        return embed(self._wire, self.facts.model, texts)

    async def read(self, ask: Ask, tokens: Sequence[int]) -> list[Expected] | None:
        return None

    async def score(
        self, ask: Ask, prompt: Sequence[int], texts: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        return await made_next.score(ask, self._whom, self.tokenizer, prompt, texts)

    # --- answers ----------------------------------------------------------------------------

    def question(self, request: Request, seed: int) -> tuple[str, dict[str, Any]]:
        drawing = self._drawing(request, seed)
        if is_forced(request):
            return question(self.facts.model, request, drawing)
        body = {
            **self._whom,
            **drawing,
            "prompt": list(request.prompt),
            "n_predict": request.max_tokens,
            "stream": True,
            "return_tokens": True,
            "preserved_tokens": [self.tokenizer.text(token) for token in sorted(request.visible_ids)],
        }
        if request.logprobs is not None:
            body["n_probs"] = max(1, request.logprobs)
        if request.min_tokens:
            body["min_tokens"] = request.min_tokens
        if request.constraint is not None:
            body |= constraint_fields(request.constraint)
        return "/completion", body

    def _drawing(self, request: Request, seed: int) -> dict[str, Any]:
        """Return the fields that say how tokens are drawn and where an answer ends."""
        sampling = request.sampling
        fields = parameters(self, sampling)
        fields |= {
            "stop": list(request.stops),
            "cache_prompt": request.reuse and (self._reuses_bits or not request.exact),
            "ignore_eos": request.ignore_eos,
            "samplers": [_STAGES.get(name, name) for name in sampling.samplers],
            "dry_sequence_breakers": list(sampling.dry_sequence_breakers),
        }
        if request.exact or not self._draws:
            fields["seed"] = seed
        if sampling.logit_bias:
            fields["logit_bias"] = [[token, bias] for token, bias in sampling.logit_bias]
        return fields

    def reader(self, request: Request, sample: int) -> SampleReader:
        if is_forced(request):
            return CallReader(request, sample, self.tokenizer, self.formatter)
        return _Reader(request, sample, tokenizer=self.tokenizer)


class LlamaMagicServer(LlamaServer):
    """Our own: llama-server's form, several models. A seed asks it for its exact lane, one at a time."""

    name = "llama_magic"
    constraints = LlamaServer.constraints | {"regex"}
    keeps_least = True
    reads = True
    _draws = True
    _reuses_bits = True  # for an answer with a seed

    def __init__(
        self, wire: Wire, props: Mapping[str, Any], models: Sequence[Mapping[str, Any]], model: str
    ) -> None:
        super().__init__(wire, props, models, model, {"model": model})

    async def read(self, ask: Ask, tokens: Sequence[int]) -> list[Expected] | None:
        return await prompt_logprobs.read(ask, {**self._whom, "max_tokens": 0}, tokens)

    async def score(
        self, ask: Ask, prompt: Sequence[int], texts: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        body = {**self._whom, "max_tokens": 0, "logprob_start_len": len(prompt)}
        asked = list(dict.fromkeys(map(tuple, texts)))  # as in an engine, to the last bit
        return await prompt_logprobs.score(ask, body, prompt, texts, asked)

    def _format(self, props: Mapping[str, Any], told: _Told) -> Formatter:
        """Return the family that it names where it has no template, and where that is known here."""
        if not told.chat_template:
            with contextlib.suppress(OptionError, InputTypeError):
                return formatters.get(props["chat_format"])
        return super()._format(props, told)


class _Told:
    """What a server tells in place of a file's header."""

    architecture = ""

    def __init__(self, template: str, bos: str, eos: str) -> None:
        self.chat_template, self.bos_token, self.eos_token = template, bos, eos
        self.chat_templates: dict[str, str] = {}


def constraint_fields(constraint: Any) -> dict[str, Any]:
    """Return the fields by which llama.cpp's server is told what an answer must be."""
    if constraint.kind == "json":
        return {"json_schema": constraint.schema}
    if constraint.kind == "choices":
        texts = (json.dumps(str(text), ensure_ascii=False) for text in constraint.asked["choices"])
        return {"grammar": "root ::= " + " | ".join(texts)}
    if constraint.kind == "regex":
        return {"regex": constraint.asked["regex"]}
    return {"grammar": constraint.asked["grammar"]}


def _bytes(piece: Any) -> bytes:
    """Return a piece as bytes: it comes as a list of them where it is no whole UTF-8."""
    return bytes(piece) if isinstance(piece, list) else str(piece).encode("utf-8", "replace")


class _Reader(SampleReader):
    def __init__(self, request: Request, sample: int, tokenizer: ServerTokenizer) -> None:
        super().__init__(request, sample)
        self._tokenizer = tokenizer
        self._held = ""  # text that came without a token of its own

    def feed(self, found: Any) -> Iterator[Event]:
        if not isinstance(found, dict) or "content" not in found:
            return
        tokens = [int(token) for token in found.get("tokens") or ()]
        told = dict(enumerate(found.get("completion_probabilities") or ()))
        self._held += str(found["content"] or "")
        for i, token in enumerate(tokens):
            yield self._event(token, told.get(i), last=i == len(tokens) - 1)
        if found.get("stop"):
            self._count(found)
            yield self._ended(found)

    def _event(self, token: int, told: Mapping[str, Any] | None, *, last: bool) -> Event:
        text = ""
        if last:
            text, self._held = self._held, ""
        if not text and token in self.request.visible_ids:
            text = self._tokenizer.text(token)
        if told is None:
            return self.token(token, text)
        top = []
        for entry in (told, *(told.get("top_logprobs") or ())):
            if entry.get("bytes") is not None:
                self._tokenizer.learn(int(entry["id"]), bytes(entry["bytes"]))
            top.append((int(entry["id"]), float(entry["logprob"])))
        return self.token(token, text, top[0][1], top[1:])

    def _count(self, found: Mapping[str, Any]) -> None:
        self.prompt_tokens = count_of(found.get("tokens_evaluated"))
        self.completion_tokens = count_of(found.get("tokens_predicted"))
        self.cached_tokens = count_of((found.get("timings") or {}).get("cache_n"))

    def _ended(self, found: Mapping[str, Any]) -> Event:
        if found.get("stop_type") == "limit" or found.get("truncated"):
            return self.end("length", self._held)
        return self.end("stop", self._held, str(found.get("stopping_word") or "") or None)
