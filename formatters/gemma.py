"""Gemma 1, 2 and 3 (Google).

```
<bos><start_of_turn>user
{system}
{user}<end_of_turn>
<start_of_turn>model
{assistant}<end_of_turn>
```

There is no system turn: the text stands before the first user text. Texts are stripped. (Gemma 3's
own template puts a blank line after the system text; here it is one line break, as llama.cpp does.)
"""

from __future__ import annotations

from typing import Any

from ._family import Family, Writer
from ._types import Message


class Gemma(Family):
    name = "gemma"
    turns_alone = True
    bos = "<bos>"
    stop = ("<end_of_turn>", "<eos>")
    marks = ("<start_of_turn>", "<end_of_turn>", "<bos>", "<eos>")
    has_system = False
    alternates = True

    def write(self, out: Writer, messages: list[Message], variables: dict[str, Any]) -> None:
        for index, message in enumerate(messages):
            role = "model" if message["role"] == "assistant" else "user"
            out.raw(f"<start_of_turn>{role}\n")
            out.text(index, message, strip=True)
            out.close("<end_of_turn>\n", index)

    def opening(self, variables: dict[str, Any]) -> str:
        return "<start_of_turn>model\n"


FORMATTER = Gemma()
messages_to_prompt = FORMATTER.messages_to_prompt
completion_to_prompt = FORMATTER.completion_to_prompt
stop, parse = FORMATTER.stop, FORMATTER.parse
