"""How families of models write turns, and how their answers are read back.

    formatters.get("chatml").messages_to_prompt([{"role": "user", "content": "Hello"}])
    formatters.detect(model.info)          # the file's own template, or the nearest family
    formatters.gguf.Template(source).messages_to_prompt(messages)

One module a family; `gguf` renders the Jinja template inside a model file and is the default.
`messages_to_prompt`, `completion_to_prompt` (Llama 2) and their `_v3_instruct` forms (Llama 3)
bear the names of LlamaIndex's `llama_utils`, take its messages and its `system_prompt`, and can be
given to its `LlamaCPP`; they write the official formats, with one BOS and no system text of their own.

- `_formatter` is what all of them can be asked, `_registry` finds one, `_types` is what they take and give.
- What is `_elsewhere`, in a module or on a server, is given messages and gives a string.
- The families are `_registry.FAMILIES`, each a `_family` written by hand.
- A file's own template: `_template`, whose `_plan` repairs conversations that it cannot write; `_running`
  runs it in the `_sandbox`, compiled by `_codegen`, with filters, methods and `_globals` from allow-lists,
  each call and the whole within the `bounds` of its meter.
- A conversation that goes on: `_onward` renders what is new in it, where `_additive` proves of a template
  that the rest stays as it is.
- Messages: `_messages` checks them, made `_plain`, and their `_roles`; `_guard` keeps text from being control
  tokens.
- Answers: `_reader` reads thinking and calls by the `_marks` of a family, `_toolcalls` the calls;
  `_callform` writes one that is forced, `_texttools` tools for templates that have no place for them.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

from ._callform import CallForm
from ._elsewhere import WrittenElsewhere
from ._formatter import Formatter
from ._guard import Guards
from ._messages import REASONING, normalise_messages
from ._onward import Onward
from ._reader import THINKING, ReplySpec
from ._registry import FAMILIES, choose, detect, from_jinja, get, names, register
from ._roles import check_roles
from ._texttools import BareCalls, TextTools
from ._toolcalls import parse_tool_calls
from ._types import Part, Piece, Rendered, Reply

__all__ = [
    "FAMILIES",
    "REASONING",
    "THINKING",
    "BareCalls",
    "CallForm",
    "Formatter",
    "Guards",
    "Onward",
    "Part",
    "Piece",
    "Rendered",
    "Reply",
    "ReplySpec",
    "TextTools",
    "WrittenElsewhere",
    "check_roles",
    "choose",
    "completion_to_prompt",
    "completion_to_prompt_v3_instruct",
    "detect",
    "from_jinja",
    "get",
    "messages_to_prompt",
    "messages_to_prompt_v3_instruct",
    "names",
    "normalise_messages",
    "parse_tool_calls",
    "register",
]


def __getattr__(name: str) -> Any:
    # Families load on first use: `gguf` brings Jinja with it.
    if name in (*FAMILIES, "gguf"):
        return importlib.import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _with_system(messages: Sequence[Any], system_prompt: str | None) -> list[Any]:
    given: list[Any] = list(normalise_messages(messages))
    if system_prompt and given[0]["role"] != "system":
        given.insert(0, {"role": "system", "content": system_prompt})
    return given


def messages_to_prompt(messages: Sequence[Any], system_prompt: str | None = None) -> str:
    """Write messages for Llama 2; `system_prompt` counts where they have none of their own."""
    return get("llama2").messages_to_prompt(_with_system(messages, system_prompt))


def completion_to_prompt(completion: str, system_prompt: str | None = None) -> str:
    """Write `completion` as one user turn for Llama 2."""
    return get("llama2").completion_to_prompt(completion, system_prompt or None)


def messages_to_prompt_v3_instruct(messages: Sequence[Any], system_prompt: str | None = None) -> str:
    """Write messages for Llama 3; `system_prompt` counts where they have none of their own."""
    return get("llama3").messages_to_prompt(_with_system(messages, system_prompt))


def completion_to_prompt_v3_instruct(completion: str, system_prompt: str | None = None) -> str:
    """Write `completion` as one user turn for Llama 3."""
    return get("llama3").completion_to_prompt(completion, system_prompt or None)
