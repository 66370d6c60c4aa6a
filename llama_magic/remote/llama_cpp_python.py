"""llama-cpp-python's server: OpenAI's format, a tokenizer beside it, one request at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from llama_magic.remote.llama_server import constraint_fields
from llama_magic.remote.openai import OpenAIServer, ids_of
from llama_magic.remote.tokens import ServerTokenizer
from llama_magic.remote.wire import Wire
from llama_magic.request.request import Request


class LlamaCppPythonServer(OpenAIServer):
    """`python -m llama_cpp.server`: any request interrupts the one before it, so one goes at a time."""

    name = "llama_cpp.server"
    fields: Mapping[str, str] = {
        "temperature": "temperature",
        "top_k": "top_k",
        "top_p": "top_p",
        "min_p": "min_p",
        "repeat_penalty": "repeat_penalty",
        "presence_penalty": "presence_penalty",
        "frequency_penalty": "frequency_penalty",
        "mirostat": "mirostat_mode",
        "mirostat_tau": "mirostat_tau",
        "mirostat_eta": "mirostat_eta",
        "logit_bias": "logit_bias",
    }
    constraints = frozenset({"json", "choices", "gbnf"})

    def __init__(self, wire: Wire, models: Sequence[Mapping[str, Any]], model: str) -> None:
        super().__init__(wire, models, model)
        self.facts.slots = 1
        wire.take_turns()  # whatever is asked meanwhile, tokens too, ends the stream that runs
        self._bos = self._asked("")[:1]
        self.tokenizer = ServerTokenizer(
            self, n_tokens=1 << 24, fingerprint=f"{wire.address.base}:{model}", bos="", eos="", marks=()
        )

    def _asked(self, text: str) -> list[int]:
        found: list[int] = self.wire.ask("/extras/tokenize", {"input": text}, take=ids_of)
        return found

    def tokenize(self, text: str, *, begins: bool, parse_special: bool) -> list[tuple[int, bytes | None]]:
        found = self._asked(text)
        if not begins and self._bos and found[:1] == self._bos:
            found = found[1:]
        return [(token, None) for token in found]

    def detokenize(self, ids: Sequence[int]) -> str:
        body = {"tokens": list(ids)}
        return str(self.wire.ask("/extras/detokenize", body, take=lambda found: found["text"]))

    def question(self, request: Request, seed: int) -> tuple[str, dict[str, Any]]:
        path, body = super().question(request, seed)
        del body["stream_options"]
        if body["seed"] > 2**31 - 1:
            body["seed"] -= 2**32  # it reads a signed number
        return path, body

    def constraint(self, constraint: Any, path: str) -> dict[str, Any]:
        if constraint.kind == "json":  # asked for in a conversation only
            return {"response_format": {"type": "json_object", "schema": constraint.schema}}
        return constraint_fields(constraint)
