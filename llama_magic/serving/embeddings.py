"""`/v1/embeddings`: a vector a text."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from llama_magic.request.backend import Embeds
from llama_magic.serving import asking
from llama_magic.serving.exchange import Exchange
from llama_magic.serving.fields.completions import Embedding
from llama_magic.serving.refusals import Refusal

if TYPE_CHECKING:
    from llama_magic.model.model import Model


async def embeddings(exchange: Exchange, asked: Embedding) -> None:
    """Embed texts."""
    model = exchange.state.model(asked.model)
    exchange.row.model = model.name
    if model.backend.local is None and not isinstance(model.backend, Embeds):
        raise Refusal(400, f"model: {model.name} makes no embeddings here.", "model")
    exchange.state.admit(1)
    vectors, tokens = await exchange.state.to_thread(lambda: _embedded(model, asked))
    exchange.row.prompt_tokens = tokens
    data = [
        {"object": "embedding", "index": index, "embedding": _written(vector, asked.encoding_format)}
        for index, vector in enumerate(vectors)
    ]
    usage = {"prompt_tokens": tokens, "total_tokens": tokens}
    await exchange.respond({"object": "list", "data": data, "model": model.name, "usage": usage})


def _embedded(model: Model, asked: Embedding) -> tuple[Any, int]:
    """Return the vectors, and how many tokens were read. On a thread beside the loop."""
    texts = [asking.prompt(model, one) for one in asking.prompts(asked.input)]
    vectors = asking.naming("input", lambda: model.embed(texts, progress=False))
    if asked.dimensions is not None and asked.dimensions != vectors.shape[1]:
        raise Refusal(
            400, f"dimensions is {asked.dimensions}; this model has {vectors.shape[1]}.", "dimensions"
        )
    return vectors, sum(len(text) if isinstance(text, list) else len(model.tokenize(text)) for text in texts)


def _written(vector: Any, form: str | None) -> Any:
    if form == "base64":
        return base64.b64encode(vector.astype("<f4").tobytes()).decode()
    return [float(value) for value in vector]
