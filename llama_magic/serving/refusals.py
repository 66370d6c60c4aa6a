"""Errors as bodies: OpenAI's shape, with llama-server's types and codes."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from llama_magic.doors import Door
from llama_magic.errors import (
    BackendError,
    ContextOverflowError,
    LlamaMagicError,
    ModelClosedError,
)

TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    405: "invalid_request_error",
    408: "invalid_request_error",
    413: "invalid_request_error",
    431: "invalid_request_error",
    500: "server_error",
    503: "unavailable_error",
}


# What our own words call the fields of a request.
_CALLED = {
    "max_tokens": ("max_completion_tokens", "max_output_tokens", "n_predict"),
    "sampler": ("samplers",),
    "template_variables": ("chat_template_kwargs",),
    "tool": ("tools",),
}


@dataclass(eq=False)
class Refusal(Exception):  # noqa: N818 - what the client gets is no fault of ours
    """A request that is not answered. `param` names the field at fault, `extra` stands beside the message."""

    status: int
    message: str
    param: str | None = None
    type: str = ""
    extra: Mapping[str, Any] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)

    def body(self) -> dict[str, Any]:
        """Return the body: `{"error": {"code", "message", "type", "param", …}}`."""
        kind = self.type or TYPES[self.status]
        error = {"code": self.status, "message": self.message, "type": kind, "param": self.param}
        return {"error": {**error, **self.extra}}

    def about(self, fields: Collection[str], limit: str = "max_tokens") -> Refusal:
        """Return the refusal with the field that its words speak of, where no other part of it says.

        `limit` is what the path calls how much is written at most.
        """
        self.message = self.message.replace('"max_tokens":', f'"{limit}":')
        if self.status == 400 and self.param is None and not self.type:
            words = re.findall(r"[A-Za-z]\w*", self.message.replace("-", "_"))
            named = (name for word in words for name in (word, *_CALLED.get(word, ())))
            self.param = next((name for name in named if name in fields), None)
            if self.param is not None and self.param not in self.message:
                self.message = f"{self.param}: {self.message}"
        return self


def busy(message: str, seconds: int) -> Refusal:
    """Return the refusal of a request that can be sent again after some seconds."""
    return Refusal(503, message, headers={"retry-after": str(seconds)})


def refusal_of(error: BaseException) -> Refusal:
    """Return how an error is told to a client. What is none of ours is told without its words."""
    if isinstance(error, Refusal):
        return error
    if isinstance(error, LlamaMagicError):
        error.at(Door.SERVER)
    if isinstance(error, ContextOverflowError):
        return Refusal(
            400,
            f"the request exceeds the available context size: {error.message}{_cures(error.remedy or '')}",
            type="exceed_context_size_error",
            extra={"n_prompt_tokens": error.prompt_tokens, "n_ctx": error.window},
        )
    if isinstance(error, ModelClosedError):
        return Refusal(503, _words(error))
    if isinstance(error, BackendError):
        return Refusal(500, _words(error))
    if isinstance(error, LlamaMagicError):
        return Refusal(400, _words(error))
    return Refusal(500, f"The request failed inside the server ({type(error).__name__}).")


def _cures(remedy: str) -> str:
    """Return what to do about an overflow, but what a request cannot ask for: it has no field `overflow`."""
    cures = [cure for cure in remedy.removesuffix(".").split(", or ") if cure and "overflow" not in cure]
    text = ", or ".join(cures)
    return f" {text[0].upper()}{text[1:]}." if cures else ""


def _words(error: LlamaMagicError) -> str:
    return " ".join(text for text in (error.message, error.remedy) if text)
