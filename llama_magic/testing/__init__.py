"""A scripted source of tokens: what a model answers is known in advance, and no weights are needed.

    model = scripted_model({"What is the capital of France?": "Paris."})
    assert model.chat([{"role": "user", "content": "What is the capital of France?"}]).text == "Paris."

    scripted_model(["Paris."], shell=shell)    # what `%%llama` cells of this IPython shell ask
    scripted_loader(["Paris."], shell=shell)   # what `%llama load anything` gives there

Everything above the backend is real: templates, counts, the guard of the window, streams, stop texts,
structured answers with their masks and checks, magics, chats and history. `Script` brings on demand
what is hard to meet: an error or an interrupt in the middle, an answer that waits. What needs an engine
in this process (`xray`, `read`, `kv`, `embed`) says so.

`models` makes models, over the `backend`; a `script` is what is answered, `tokenizer` one of words.
"""

from __future__ import annotations

from llama_magic.testing.backend import ScriptedBackend
from llama_magic.testing.models import ScriptedLoader, scripted_loader, scripted_model
from llama_magic.testing.script import Answer, Answers, Script
from llama_magic.testing.tokenizer import WordTokenizer

__all__ = [
    "Answer",
    "Answers",
    "Script",
    "ScriptedBackend",
    "ScriptedLoader",
    "WordTokenizer",
    "scripted_loader",
    "scripted_model",
]
