"""vLLM: OpenAI's format with tokens: prompts go as ids, the template is applied by its `/tokenize`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from llama_magic import formatters
from llama_magic.formatters import THINKING, ReplySpec, WrittenElsewhere, check_roles
from llama_magic.remote import prompt_logprobs
from llama_magic.remote.dialect import SampleReader, parameters
from llama_magic.remote.errand import Ask
from llama_magic.remote.forced import CallReader, is_forced, question
from llama_magic.remote.marks import marks_of
from llama_magic.remote.openai import OpenAIServer, ids_of
from llama_magic.remote.tokens import ServerTokenizer
from llama_magic.remote.wire import Wire
from llama_magic.request.backend import Expected
from llama_magic.request.request import Request


class VLLM(OpenAIServer):
    """A vLLM server. Constraints go as `structured_outputs`: since 0.12 it ignores `guided_…`."""

    name = "vLLM"
    fields: Mapping[str, str] = {
        "temperature": "temperature",
        "top_k": "top_k",
        "top_p": "top_p",
        "min_p": "min_p",
        "repeat_penalty": "repetition_penalty",
        "presence_penalty": "presence_penalty",
        "frequency_penalty": "frequency_penalty",
        "logit_bias": "logit_bias",
    }
    takes_tokens = True
    ignores_eos = True
    keeps_least = True
    constraints = frozenset({"json", "regex", "choices", "gbnf"})
    tools = frozenset({"auto", "required", "named"})
    reads = scores = True

    def __init__(self, wire: Wire, models: Sequence[Mapping[str, Any]], model: str, version: str) -> None:
        super().__init__(wire, models, model)
        self.facts.build = version
        self.facts.slots = 64
        told, window = self._ask_for_tokens("a", take=lambda f: (ids_of(f), int(f.get("max_model_len") or 0)))
        self.facts.window = self.facts.window or window
        self.tokenizer = ServerTokenizer(
            self,
            n_tokens=1 << 24,
            fingerprint=f"{wire.address.base}:{model}",
            bos=self._begins_with(told),
            eos="",
            marks=marks_of("", formatters.get("chatml")),
            tells_special=False,
        )
        self.formatter = ServerTemplate(self)

    def _ask_for_tokens(self, text: str, *, begins: bool = True, take: Callable[[Any], Any] = ids_of) -> Any:
        body = {"model": self.facts.model, "prompt": text, "add_special_tokens": begins}
        return self.wire.ask("/tokenize", body, take=take)

    def _begins_with(self, told: Sequence[int]) -> str:
        """Return the text of the token that the tokenizer puts in front, "" where there is none."""
        plain = self._ask_for_tokens("a", begins=False)
        first = [token for token in told if token not in plain][:1]
        return self.detokenize(first) if first else ""

    def tokenize(self, text: str, *, begins: bool, parse_special: bool) -> list[tuple[int, bytes | None]]:
        return [(token, None) for token in self._ask_for_tokens(text, begins=begins)]

    def detokenize(self, ids: Sequence[int]) -> str:
        body = {"model": self.facts.model, "tokens": list(ids)}
        return str(self.wire.ask("/detokenize", body, take=lambda found: found["prompt"]))

    def render(self, messages: Sequence[Mapping[str, Any]], **how: Any) -> str:
        """Return the prompt that the server makes of a conversation."""
        body = {"model": self.facts.model, "messages": list(messages), "add_special_tokens": False, **how}
        return self.detokenize(self.wire.ask("/tokenize", body, take=ids_of))

    def count(self, messages: Sequence[Mapping[str, Any]]) -> int:
        body = {"model": self.facts.model, "messages": list(messages)}
        return int(self.wire.ask("/tokenize", body, take=lambda found: int(found["count"])))

    async def read(self, ask: Ask, tokens: Sequence[int]) -> list[Expected] | None:
        return await prompt_logprobs.read(ask, self._nothing_written, tokens)

    async def score(
        self, ask: Ask, prompt: Sequence[int], texts: Sequence[Sequence[int]]
    ) -> list[list[float]]:
        asked = prompt_logprobs.ends_of(texts)
        return await prompt_logprobs.score(ask, self._nothing_written, prompt, texts, asked)

    @property
    def _nothing_written(self) -> dict[str, Any]:
        return {"model": self.facts.model, "max_tokens": 1}  # the least that it takes

    def question(self, request: Request, seed: int) -> tuple[str, dict[str, Any]]:
        if is_forced(request):
            drawing = {**parameters(self, request.sampling), "seed": seed, "stop": self.stops(request)}
            path, body = question(self.facts.model, request, drawing)
        else:
            path, body = super().question(request, seed)
            body["return_token_ids"] = True
            body["ignore_eos"] = request.ignore_eos
        if request.min_tokens:
            body["min_tokens"] = request.min_tokens
        if body.get("top_k") == 0:
            body["top_k"] = -1  # off
        return path, body

    def reader(self, request: Request, sample: int) -> SampleReader:
        if is_forced(request):
            assert isinstance(self.tokenizer, ServerTokenizer)
            return CallReader(request, sample, self.tokenizer, self.formatter)
        return super().reader(request, sample)

    def constraint(self, constraint: Any, path: str) -> dict[str, Any]:
        if constraint.kind == "json":
            return {"structured_outputs": {"json": constraint.schema}}
        if constraint.kind == "choices":
            return {"structured_outputs": {"choice": [str(text) for text in constraint.asked["choices"]]}}
        name = {"regex": "regex", "gbnf": "grammar"}[constraint.kind]
        return {"structured_outputs": {name: constraint.asked[name]}}


class ServerTemplate(WrittenElsewhere):
    """The template of a server that applies it for us: the text is the one that the model reads."""

    name = "server"

    def __init__(self, server: VLLM) -> None:
        self._server = server

    @property
    def spec(self) -> ReplySpec:
        return THINKING

    def write(
        self,
        messages: list[dict[str, Any]],
        *,
        add_generation_prompt: bool,
        tools: Sequence[Any] | None,
        continue_final: bool,
        **template_variables: Any,
    ) -> str:
        check_roles(messages)
        how: dict[str, Any] = {"add_generation_prompt": add_generation_prompt}
        if continue_final:
            how = {"add_generation_prompt": False, "continue_final_message": True}
        if tools:
            how["tools"] = list(tools)
        if template_variables:
            how["chat_template_kwargs"] = template_variables
        return self._server.render(messages, **how)
