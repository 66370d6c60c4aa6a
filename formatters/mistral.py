"""Mistral from the v3 tokeniser on: Nemo, Large, Small, Ministral, Magistral, Codestral.

v3 and Nemo ("tekken"), the default, with the system text before the last user text:

```
<s>[INST]{user}[/INST]{assistant}</s>[INST]{system}

{user}[/INST]
```

v7 (`version="v7"`: Large 2411, Small 3, Magistral) has a place for the system text:

```
<s>[SYSTEM_PROMPT]{system}[/SYSTEM_PROMPT][INST]{user}[/INST]{assistant}</s>
```

Where `[INST]` is no token of the vocabulary (v1 and v2: see `llama2`), it is broken in messages by
a space. Thinking stands in `[THINK]…[/THINK]`, tool calls after `[TOOL_CALLS]`.
"""

from __future__ import annotations

from typing import Any

from llama_magic.errors import TemplateError

from ._family import Family, Writer
from ._reader import spec_for
from ._toolcalls import calls_of
from ._types import Message


class Mistral(Family):
    name = "mistral"
    bos = "<s>"
    stop = ("</s>",)
    marks = (
        "[INST]",
        "[/INST]",
        "[SYSTEM_PROMPT]",
        "[/SYSTEM_PROMPT]",
        "[TOOL_CALLS]",
        "[TOOL_RESULTS]",
        "[/TOOL_RESULTS]",
        "[AVAILABLE_TOOLS]",
        "[/AVAILABLE_TOOLS]",
        "<s>",
        "</s>",
    )
    alternates = True
    has_tool = True
    writes_tools = True
    reply = spec_for((("[THINK]", "[/THINK]"),), (("[TOOL_CALLS]", ""),))

    def plain_marks(self, guarded: frozenset[str]) -> frozenset[str]:
        # Without a vocabulary they are taken for tokens, as they are from v3 on.
        return frozenset(self.marks[:-2]) - guarded if guarded else frozenset()

    def write(self, out: Writer, messages: list[Message], variables: dict[str, Any]) -> None:
        version = variables.get("version", "v3")
        if version not in ("v3", "v7"):
            raise TemplateError(f"version is {version!r}.", remedy='Use "v3" or "v7".')
        users = [i for i, m in enumerate(messages) if m["role"] == "user"]
        last = users[-1] if users else -1
        early = version == "v7" or not users
        for index, message in enumerate(messages):
            if message["role"] == "system":
                if early:
                    out.raw("[SYSTEM_PROMPT]")
                    out.text(index, message)
                    out.raw("[/SYSTEM_PROMPT]")
                continue
            if index == last:
                self._tools(out, variables.get("tools"))
            system = messages[0] if index == last and not early and messages[0]["role"] == "system" else None
            self._turn(out, index, message, system)

    def _tools(self, out: Writer, tools: Any) -> None:
        if tools:
            out.raw("[AVAILABLE_TOOLS]")
            out.data(tools)
            out.raw("[/AVAILABLE_TOOLS]")

    def _turn(self, out: Writer, index: int, message: Message, system: Message | None) -> None:
        role = message["role"]
        if role == "user":
            out.raw("[INST]")
            if system is not None:
                out.text(0, system)
                out.raw("\n\n")
            out.text(index, message)
            out.raw("[/INST]")
        elif role == "tool":
            out.raw("[TOOL_RESULTS]")
            identity = message.get("tool_call_id")
            out.data({"content": message["content"], **({"call_id": identity} if identity else {})})
            out.raw("[/TOOL_RESULTS]")
        else:
            out.text(index, message)
            calls = calls_of(message)
            if calls:
                out.raw("[TOOL_CALLS]")
                out.data(calls)
            out.close("</s>", index)

    def opening(self, variables: dict[str, Any]) -> str:
        return ""  # "[/INST]" has closed the user's turn and opened the assistant's


FORMATTER = Mistral()
messages_to_prompt = FORMATTER.messages_to_prompt
completion_to_prompt = FORMATTER.completion_to_prompt
stop, parse = FORMATTER.stop, FORMATTER.parse
