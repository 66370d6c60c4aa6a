"""Phi 3 and 3.5 (Microsoft).

```
<|system|>
{system}<|end|>
<|user|>
{user}<|end|>
<|assistant|>
{assistant}<|end|>
```

Phi 4's larger models write `<|im_start|>user<|im_sep|>`: take the file's own template for them.
"""

from __future__ import annotations

from typing import Any

from ._family import Family, Writer
from ._reader import THINK, spec_for
from ._types import Message


class Phi(Family):
    name = "phi"
    turns_alone = True
    stop = ("<|end|>", "<|endoftext|>")
    marks = ("<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|endoftext|>")
    many_system = True
    reply = spec_for((THINK,))

    def write(self, out: Writer, messages: list[Message], variables: dict[str, Any]) -> None:
        for index, message in enumerate(messages):
            out.raw(f"<|{message['role']}|>\n")
            out.text(index, message)
            out.close("<|end|>\n", index)

    def opening(self, variables: dict[str, Any]) -> str:
        return "<|assistant|>\n"


FORMATTER = Phi()
messages_to_prompt = FORMATTER.messages_to_prompt
completion_to_prompt = FORMATTER.completion_to_prompt
stop, parse = FORMATTER.stop, FORMATTER.parse
