"""What a server says of itself: models, properties, health, counts."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from llama_magic.errors import ModelClosedError
from llama_magic.serving.exchange import as_json
from llama_magic.serving.metrics import CONTENT_TYPE
from llama_magic.serving.state import fingerprint

if TYPE_CHECKING:
    from llama_magic.model.model import Model
    from llama_magic.serving.state import State

SLOTS = 16  # answers that one model decodes together


class About:
    """The pages that take no body."""

    def __init__(self, state: State) -> None:
        self._state = state
        self._since = int(time.time())

    async def models(self, request: Request) -> Response:
        """List the models that can be asked."""
        data = [self._model(model) for model in self._state.models.values() if not model.closed]
        return _json({"object": "list", "data": data})

    async def one_model(self, request: Request) -> Response:
        """Tell of one model."""
        return _json(self._model(self._asked(request.path_params["name"])))

    def _asked(self, name: str | None) -> Model:
        model = self._state.model(name)
        if model.closed:
            raise ModelClosedError(f"The model {model.name!r} was unloaded; load it again to use it.")
        return model

    def _model(self, model: Model) -> dict[str, Any]:
        meta: dict[str, Any] = {"n_ctx": model.window, "n_vocab": model.backend.tokenizer.n_tokens}
        if model.has_file:
            info = model.info
            meta |= {
                "n_ctx_train": info.context_length,
                "n_embd": info.embedding_length,
                "size": model.size_bytes,
            }
        return {
            "id": model.name,
            "object": "model",
            "created": self._since,
            "owned_by": "llama_magic",
            "meta": meta,
        }

    async def props(self, request: Request) -> Response:
        """Tell of window, template and special tokens, in llama-server's form.

        `chat_format` is ours: the family that writes conversations where no template does.
        """
        model = self._asked(request.query_params.get("model"))
        tokenizer, formatter = model.backend.tokenizer, model.formatter
        template = getattr(formatter, "template", None)
        bos = "" if tokenizer.bos_id is None else tokenizer.text(tokenizer.bos_id)
        return _json(
            {
                "default_generation_settings": {"n_ctx": model.window, "params": model.sampling.to_dict()},
                "total_slots": SLOTS,
                "model_alias": model.name,
                "model_path": model.path.name if model.has_file else "",
                "chat_template": getattr(template, "source", ""),
                "chat_format": formatter.name,
                "bos_token": bos,
                "eos_token": tokenizer.text(tokenizer.eos_id),
                "build_info": fingerprint(model),
                "modalities": {"vision": False, "audio": False},
            }
        )

    async def health(self, request: Request) -> Response:
        """Say that requests are answered; 503 once a model is closed or the server is being stopped."""
        closed = [model.name for model in self._state.models.values() if model.closed]
        if closed or self._state.stopping:
            why = f"{', '.join(closed)} was closed." if closed else "The server is being stopped."
            error = {"code": 503, "message": why, "type": "unavailable_error", "param": None}
            return _json({"error": error}, 503)
        return _json({"status": "ok"})

    async def metrics(self, request: Request) -> Response:
        """Tell the counts."""
        text = self._state.metrics.text(self._state.models, self._state.answers)
        return Response(text, media_type=CONTENT_TYPE)


def _json(body: Any, status: int = 200) -> Response:
    return Response(as_json(body), status, media_type="application/json")
