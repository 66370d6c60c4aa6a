"""DeepSeek V3 and R1, with R1's distilled models.

```
<｜begin▁of▁sentence｜>{system}<｜User｜>{user}<｜Assistant｜>{assistant}<｜end▁of▁sentence｜><｜User｜>{user}<｜Assistant｜>
```

R1 thinks: with `thinking=True` the assistant's turn opens with `<think>`, with `thinking=False`
it opens with `</think>` (V3.1); without it nothing is added and the model decides. Thinking of past
answers is left out. A tool call is

```
<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>{name}
```json
{arguments}
```<｜tool▁call▁end｜><｜tool▁calls▁end｜>
```
"""

from __future__ import annotations

from typing import Any

from ._family import Family, Writer
from ._reader import THINK, spec_for
from ._types import Message


class DeepSeek(Family):
    name = "deepseek"
    turns_alone = True
    bos = "<｜begin▁of▁sentence｜>"
    stop = ("<｜end▁of▁sentence｜>",)
    marks = (
        "<｜begin▁of▁sentence｜>",
        "<｜end▁of▁sentence｜>",
        "<｜User｜>",
        "<｜Assistant｜>",
        "<｜tool▁calls▁begin｜>",
        "<｜tool▁calls▁end｜>",
        "<｜tool▁call▁begin｜>",
        "<｜tool▁call▁end｜>",
        "<｜tool▁sep｜>",
    )
    reply = spec_for((THINK,), (("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),))
    thinking_off = {"thinking": False}  # noqa: RUF012 - read only, copied where it is given out

    def write(self, out: Writer, messages: list[Message], variables: dict[str, Any]) -> None:
        for index, message in enumerate(messages):
            role = message["role"]
            if role == "user":
                out.raw("<｜User｜>")
            elif role == "assistant":
                out.raw("<｜Assistant｜>")
                thought, closed, answer = str(message["content"]).partition("</think>")
                if closed and "<think>" in thought:
                    message = {**message, "content": answer.lstrip("\n")}
            out.text(index, message)
            if role == "assistant":
                out.close("<｜end▁of▁sentence｜>", index)

    def opening(self, variables: dict[str, Any]) -> str:
        thinking = variables.get("thinking")
        return "<｜Assistant｜>" + ("" if thinking is None else "<think>\n" if thinking else "</think>")


FORMATTER = DeepSeek()
messages_to_prompt = FORMATTER.messages_to_prompt
completion_to_prompt = FORMATTER.completion_to_prompt
stop, parse = FORMATTER.stop, FORMATTER.parse
