"""ChatML: Qwen, SmolLM, Yi, Hermes, OpenHermes and many others.

```
<|im_start|>system
{system}<|im_end|>
<|im_start|>user
{user}<|im_end|>
<|im_start|>assistant
{assistant}<|im_end|>
```

Qwen3 and others think in `<think>…</think>`; `enable_thinking=False` opens the answer with an
empty thinking part, as Qwen3's template does. Tools are written and called in the form of Hermes 2
Pro and Qwen 2.5: `<tool_call>{"name": …, "arguments": …}</tool_call>`.
"""

from __future__ import annotations

from typing import Any

from ._callform import AFTER_TOOLS, BEFORE_TOOLS
from ._family import Family, Writer
from ._reader import THINK, spec_for
from ._toolcalls import calls_of
from ._types import Message


class ChatML(Family):
    name = "chatml"
    turns_alone = True
    stop = ("<|im_end|>", "<|endoftext|>")
    marks = ("<|im_start|>", "<|im_end|>", "<|endoftext|>")
    many_system = True
    has_tool = True
    writes_tools = True
    reply = spec_for((THINK,), (("<tool_call>", "</tool_call>"),))
    thinking_off = {"enable_thinking": False}  # noqa: RUF012 - read only, copied where it is given out

    def write(self, out: Writer, messages: list[Message], variables: dict[str, Any]) -> None:
        tools = variables.get("tools")
        if tools and messages[0]["role"] != "system":
            out.raw("<|im_start|>system\n")
            self._tools(out, tools)
            out.raw("<|im_end|>\n")
        for index, message in enumerate(messages):
            self._turn(out, index, message, tools if index == 0 else None)

    def _turn(self, out: Writer, index: int, message: Message, tools: Any) -> None:
        role = message["role"]
        is_result = role == "tool"
        out.raw("<|im_start|>user\n<tool_response>\n" if is_result else f"<|im_start|>{role}\n")
        out.text(index, message)
        for place, item in enumerate(calls_of(message)):
            out.raw("\n<tool_call>\n" if place or message["content"] else "<tool_call>\n")
            out.data(item)
            out.raw("\n</tool_call>")
        if tools and role == "system":
            out.raw("\n\n")
            self._tools(out, tools)
        out.close("\n</tool_response><|im_end|>\n" if is_result else "<|im_end|>\n", index)

    def _tools(self, out: Writer, tools: list[Any]) -> None:
        out.raw(BEFORE_TOOLS)
        for tool in tools:
            out.raw("\n")
            out.data(tool)
        out.raw(AFTER_TOOLS)

    def opening(self, variables: dict[str, Any]) -> str:
        empty = "<think>\n\n</think>\n\n" if variables.get("enable_thinking") is False else ""
        return f"<|im_start|>assistant\n{empty}"


FORMATTER = ChatML()
messages_to_prompt = FORMATTER.messages_to_prompt
completion_to_prompt = FORMATTER.completion_to_prompt
stop, parse = FORMATTER.stop, FORMATTER.parse
