"""Llama 3, 3.1, 3.2 and 3.3 Instruct.

```
<|begin_of_text|><|start_header_id|>system<|end_header_id|>

{system}<|eot_id|><|start_header_id|>user<|end_header_id|>

{user}<|eot_id|><|start_header_id|>assistant<|end_header_id|>

{assistant}<|eot_id|>
```

This is the plain form of Llama 3. The templates of 3.1 to 3.3 add the date and a knowledge cutoff
to the system turn; take the file's own template (the default) where that is wanted.
A tool call is JSON, `{"name": …, "parameters": …}`, or code after `<|python_tag|>`.
"""

from __future__ import annotations

from typing import Any

from ._family import Family, Writer
from ._reader import spec_for
from ._toolcalls import calls_of
from ._types import Message


class Llama3(Family):
    name = "llama3"
    turns_alone = True
    bos = "<|begin_of_text|>"
    stop = ("<|eot_id|>", "<|eom_id|>", "<|end_of_text|>")
    marks = (
        "<|begin_of_text|>",
        "<|start_header_id|>",
        "<|end_header_id|>",
        "<|eot_id|>",
        "<|eom_id|>",
        "<|end_of_text|>",
        "<|python_tag|>",
    )
    many_system = True
    has_tool = True
    reply = spec_for(tools=(("<|python_tag|>", ""),))

    def write(self, out: Writer, messages: list[Message], variables: dict[str, Any]) -> None:
        for index, message in enumerate(messages):
            role = "ipython" if message["role"] == "tool" else message["role"]
            out.raw(f"<|start_header_id|>{role}<|end_header_id|>\n\n")
            out.text(index, message, strip=True)
            for item in calls_of(message):
                out.data({"name": item["name"], "parameters": item["arguments"]})
            out.close("<|eot_id|>", index)

    def opening(self, variables: dict[str, Any]) -> str:
        return "<|start_header_id|>assistant<|end_header_id|>\n\n"


FORMATTER = Llama3()
messages_to_prompt = messages_to_prompt_v3_instruct = FORMATTER.messages_to_prompt
completion_to_prompt = completion_to_prompt_v3_instruct = FORMATTER.completion_to_prompt
stop, parse = FORMATTER.stop, FORMATTER.parse
