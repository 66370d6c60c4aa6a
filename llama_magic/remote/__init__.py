"""A server as a source of tokens: the same calls, the same cells, tokens from elsewhere.

`connection.py` makes a model of an `address`; `find.py` sees which kind of server answers there. Each kind
has a file (`llama_server`, `vllm`, `ollama`, `llama_cpp_python`, `openai`; `dialect` is what they have in
common); `probe.py` tries what holds. `tokens` are asked of the server or estimated, `chat` estimates what it
renders itself, `marks` may be control tokens of it, `forced` makes a tool call that must be made, `taken` are
names of fields, learnt from what is refused.
`backend.py` sends requests as tasks of the one thread in `network.py`, over `wire.py`, an `errand` what is
not streamed: `prompt_logprobs`, and token by token what is `made_next`; `values.py` reads what comes,
`patience` ends a short question that is never answered whole, `faults.py` names what goes wrong.
"""

from __future__ import annotations

from llama_magic.remote.connection import connect
from llama_magic.remote.probe import Ability, ServerCard

__all__ = ["Ability", "ServerCard", "connect"]
