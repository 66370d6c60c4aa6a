"""Llama 2 chat, and Mistral 7B Instruct v0.1 to v0.2, which write turns alike.

```
<s>[INST] <<SYS>>
{system}
<</SYS>>

{user} [/INST] {assistant} </s><s>[INST] {user} [/INST]
```

`[INST]` and `<<SYS>>` are ordinary text to the tokeniser, not tokens. No parsing flag can tell a
user's "[/INST]" from the template's, so it is broken by a space ("[ /INST]") and that is noted.
Meta's own code refused such messages; a refusal would also refuse text *about* the format.
"""

from __future__ import annotations

from typing import Any

from ._family import Family, Writer
from ._types import Message


class Llama2(Family):
    name = "llama2"
    turns_alone = True
    bos = "<s>"
    stop = ("</s>",)
    marks = ("[INST]", "[/INST]", "<<SYS>>", "<</SYS>>", "<s>", "</s>")
    alternates = True

    def plain_marks(self, guarded: frozenset[str]) -> frozenset[str]:
        return frozenset(self.marks[:4]) - guarded

    def write(self, out: Writer, messages: list[Message], variables: dict[str, Any]) -> None:
        system: tuple[int, Message] | None = None
        opened = True  # the BOS of the first exchange is written
        for index, message in enumerate(messages):
            if message["role"] == "system":
                system = index, message
            elif message["role"] == "user":
                out.raw("[INST] " if opened else "<s>[INST] ")
                self._system(out, system)
                system = None
                out.text(index, message, strip=True)
                out.raw(" [/INST]")
                opened = False
            else:
                out.raw(" ")
                out.text(index, message, strip=True)
                out.close(" </s>", index)
        if system is not None:
            out.raw("[INST] ")
            self._system(out, system)
            out.raw("[/INST]")

    def _system(self, out: Writer, system: tuple[int, Message] | None) -> None:
        if system is not None:
            out.raw("<<SYS>>\n")
            out.text(*system)
            out.raw("\n<</SYS>>\n\n")

    def opening(self, variables: dict[str, Any]) -> str:
        return ""  # "[/INST]" has closed the user's turn and opened the assistant's


FORMATTER = Llama2()
messages_to_prompt = FORMATTER.messages_to_prompt
completion_to_prompt = FORMATTER.completion_to_prompt
stop, parse = FORMATTER.stop, FORMATTER.parse
