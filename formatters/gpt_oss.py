"""gpt-oss (OpenAI's harmony format).

```
<|start|>system<|message|>You are ChatGPT, …

Reasoning: medium

# Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|>
<|start|>developer<|message|># Instructions

{system}<|end|><|start|>user<|message|>{user}<|end|>
<|start|>assistant<|channel|>final<|message|>{assistant}<|end|><|start|>user<|message|>{user}<|end|>
<|start|>assistant
```

(The line breaks between messages are for the eye only.) The caller's system text is harmony's
developer message. An answer has channels: `analysis` is thinking, `commentary to=functions.name`
a tool call, `final` the answer; it ends with `<|return|>` or, after a call, `<|call|>`. Thinking
cannot be switched off, only made shorter: `reasoning_effort="low"`.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

from llama_magic.errors import TemplateError

from ._family import Family, Writer
from ._reader import Mark, ReplySpec, State
from ._types import Message


def _channel(header: str) -> State:
    if re.search(r"to=(?!assistant)", header):
        return "tool_call"
    return "thinking" if "analysis" in header else "text"


_BODY: tuple[State, ...] = ("text", "thinking", "tool_call")
SPEC = ReplySpec(
    marks=(
        Mark("<|channel|>", _BODY, "header"),
        Mark("<|start|>assistant", _BODY, "header"),
        Mark("<|end|>", _BODY, "text"),
        Mark("<|call|>", _BODY, "text"),
        Mark("<|return|>", _BODY, "text"),
    ),
    opens=(("<|start|>assistant", "header"), ("<|channel|>analysis<|message|>", "thinking")),
    header=_channel,
)
_EFFORTS = ("low", "medium", "high")


class GptOss(Family):
    name = "gpt_oss"
    turns_alone = True
    marks = ("<|start|>", "<|message|>", "<|channel|>", "<|end|>", "<|return|>", "<|call|>", "<|constrain|>")
    stop = ("<|return|>", "<|call|>")
    reply = SPEC
    developer_role = True

    def write(self, out: Writer, messages: list[Message], variables: dict[str, Any]) -> None:
        effort = variables.get("reasoning_effort", "medium")
        if effort not in _EFFORTS:
            raise TemplateError(
                f"reasoning_effort is {effort!r}.", remedy=f"Use one of {', '.join(_EFFORTS)}."
            )
        today = variables.get("current_date") or datetime.now().strftime("%Y-%m-%d")
        out.raw(
            "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
            f"Knowledge cutoff: 2024-06\nCurrent date: {today}\n\nReasoning: {effort}\n\n"
            "# Valid channels: analysis, commentary, final. "
            "Channel must be included for every message.<|end|>"
        )
        for index, message in enumerate(messages):
            role = message["role"]
            if role in ("system", "developer"):
                out.raw("<|start|>developer<|message|># Instructions\n\n")
                out.text(index, message)
                out.raw("<|end|>" if index else "\n\n<|end|>")
            elif role == "assistant":
                out.raw("<|start|>assistant<|channel|>final<|message|>")
                out.text(index, message)
                out.close("<|end|>", index)
            else:
                out.raw("<|start|>user<|message|>")
                out.text(index, message)
                out.raw("<|end|>")

    def opening(self, variables: dict[str, Any]) -> str:
        return "<|start|>assistant"


FORMATTER = GptOss()
messages_to_prompt = FORMATTER.messages_to_prompt
completion_to_prompt = FORMATTER.completion_to_prompt
stop, parse = FORMATTER.stop, FORMATTER.parse
