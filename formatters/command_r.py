"""Command R, R+, R7B and Command A (Cohere).

```
<BOS_TOKEN><|START_OF_TURN_TOKEN|><|SYSTEM_TOKEN|>{system}<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|USER_TOKEN|>{user}<|END_OF_TURN_TOKEN|><|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{assistant}<|END_OF_TURN_TOKEN|>
```

R7B and Command A think in `<|START_THINKING|>…<|END_THINKING|>`, answer in
`<|START_RESPONSE|>…<|END_RESPONSE|>` and call tools in `<|START_ACTION|>[…]<|END_ACTION|>`;
`reasoning=False` opens the answer with an empty thinking part.
"""

from __future__ import annotations

from typing import Any

from ._family import Family, Writer
from ._reader import spec_for
from ._types import Message

_TOKENS = {"system": "SYSTEM", "user": "USER", "assistant": "CHATBOT"}


class CommandR(Family):
    name = "command_r"
    turns_alone = True
    bos = "<BOS_TOKEN>"
    stop = ("<|END_OF_TURN_TOKEN|>", "<EOS_TOKEN>")
    marks = (
        "<BOS_TOKEN>",
        "<EOS_TOKEN>",
        "<|START_OF_TURN_TOKEN|>",
        "<|END_OF_TURN_TOKEN|>",
        "<|SYSTEM_TOKEN|>",
        "<|USER_TOKEN|>",
        "<|CHATBOT_TOKEN|>",
    )
    many_system = True
    reply = spec_for(
        (("<|START_THINKING|>", "<|END_THINKING|>"),),
        (("<|START_ACTION|>", "<|END_ACTION|>"),),
        ("<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"),
    )
    thinking_off = {"reasoning": False}  # noqa: RUF012 - read only, copied where it is given out

    def write(self, out: Writer, messages: list[Message], variables: dict[str, Any]) -> None:
        for index, message in enumerate(messages):
            out.raw(f"<|START_OF_TURN_TOKEN|><|{_TOKENS[message['role']]}_TOKEN|>")
            out.text(index, message, strip=True)
            out.close("<|END_OF_TURN_TOKEN|>", index)

    def opening(self, variables: dict[str, Any]) -> str:
        empty = "<|START_THINKING|><|END_THINKING|>" if variables.get("reasoning") is False else ""
        return f"<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>{empty}"


FORMATTER = CommandR()
messages_to_prompt = FORMATTER.messages_to_prompt
completion_to_prompt = FORMATTER.completion_to_prompt
stop, parse = FORMATTER.stop, FORMATTER.parse
