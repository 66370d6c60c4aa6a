"""The tokenize family: `/tokenize`, `/detokenize`, `/apply-template`, `/extras/…`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from llama_magic.serving import asking
from llama_magic.serving.exchange import Exchange
from llama_magic.serving.fields.chat import ApplyTemplate
from llama_magic.serving.fields.tokens import Detokenize, ExtraInput, Tokenize
from llama_magic.serving.refusals import Refusal

if TYPE_CHECKING:
    from llama_magic.model.model import Model


async def tokenize(exchange: Exchange, asked: Tokenize) -> None:
    """Cut a text into tokens."""
    model = exchange.state.model(asked.model)

    def cut() -> list[Any]:
        ids = model.tokenize(asked.content, parse_special=asked.parse_special)
        if not asked.add_special:
            ids = ids[len(model.tokenize("")) :]
        return [{"id": token, "piece": _piece(model, token)} for token in ids] if asked.with_pieces else ids

    await exchange.respond({"tokens": await exchange.state.to_thread(cut)})


def _piece(model: Model, token: int) -> str | list[int]:
    """Return the text of a token, its bytes where these are no whole UTF-8."""
    piece = model.backend.tokenizer.piece(token)
    try:
        return piece.decode("utf-8")
    except UnicodeDecodeError:
        return list(piece)


async def detokenize(exchange: Exchange, asked: Detokenize) -> None:
    """Join tokens."""
    await exchange.respond({"content": await _joined(exchange, asked)})


async def apply_template(exchange: Exchange, asked: ApplyTemplate) -> None:
    """Render a conversation as the prompt that a chat would send."""
    model = exchange.state.model(asked.model)
    tools = [tool.model_dump(exclude_none=True) for tool in asked.tools or ()]

    def render() -> str:
        variables = asking.variables(model.formatter, asked.chat_template_kwargs, None)
        given = asking.messages(asked.messages)
        return model.prompt_for(given, tools=tools or None, tools_as_text=True, **variables)

    await exchange.respond({"prompt": await exchange.state.to_thread(render)})


async def extra_tokenize(exchange: Exchange, asked: ExtraInput) -> None:
    """Cut a text into the tokens that it is as a prompt."""
    model = exchange.state.model(asked.model)
    await exchange.respond({"tokens": await exchange.state.to_thread(lambda: model.tokenize(asked.input))})


async def extra_count(exchange: Exchange, asked: ExtraInput) -> None:
    """Count the tokens that a text is as a prompt."""
    model = exchange.state.model(asked.model)
    await exchange.respond({"count": await exchange.state.to_thread(lambda: model.count_tokens(asked.input))})


async def extra_detokenize(exchange: Exchange, asked: Detokenize) -> None:
    """Join tokens."""
    await exchange.respond({"text": await _joined(exchange, asked)})


async def _joined(exchange: Exchange, asked: Detokenize) -> str:
    model = exchange.state.model(asked.model)
    count = model.backend.tokenizer.n_tokens
    if asked.tokens and max(asked.tokens) >= count:
        raise Refusal(
            400, f"tokens holds {max(asked.tokens)}; this model has ids 0 to {count - 1}.", "tokens"
        )
    return str(await exchange.state.to_thread(lambda: model.detokenize(asked.tokens)))
