"""Granite 3 and 4 (IBM).

```
<|start_of_role|>system<|end_of_role|>{system}<|end_of_text|>
<|start_of_role|>user<|end_of_role|>{user}<|end_of_text|>
<|start_of_role|>assistant<|end_of_role|>{assistant}<|end_of_text|>
```

Granite 3.3 thinks in `<think>…</think>` and answers in `<response>…</response>` when its system
text asks for it. Tool calls are JSON after `<|tool_call|>` (3) or in `<tool_call>` (4).
"""

from __future__ import annotations

from typing import Any

from ._family import Family, Writer
from ._reader import THINK, spec_for
from ._toolcalls import calls_of
from ._types import Message


class Granite(Family):
    name = "granite"
    turns_alone = True
    stop = ("<|end_of_text|>",)
    marks = ("<|start_of_role|>", "<|end_of_role|>", "<|end_of_text|>", "<|tool_call|>")
    many_system = True
    has_tool = True
    reply = spec_for(
        (THINK,),
        (("<|tool_call|>", ""), ("<tool_call>", "</tool_call>")),
        ("<response>", "</response>"),
    )

    def write(self, out: Writer, messages: list[Message], variables: dict[str, Any]) -> None:
        for index, message in enumerate(messages):
            role = "tool_response" if message["role"] == "tool" else message["role"]
            out.raw(f"<|start_of_role|>{role}<|end_of_role|>")
            out.text(index, message)
            calls = calls_of(message)
            if calls:
                out.raw("<|tool_call|>")
                out.data(calls)
            out.close("<|end_of_text|>\n", index)

    def opening(self, variables: dict[str, Any]) -> str:
        return "<|start_of_role|>assistant<|end_of_role|>"


FORMATTER = Granite()
messages_to_prompt = FORMATTER.messages_to_prompt
completion_to_prompt = FORMATTER.completion_to_prompt
stop, parse = FORMATTER.stop, FORMATTER.parse
