"""Asks a real model for calls of one named tool, hot, and tells what went wrong."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from llama_magic.model.tools.tool import Tool

QUESTIONS = ("What is the weather in Oslo?", "Write a poem.", "Say no.", 'Quote "this" and {that}.', "再见")


def weather(
    city: Annotated[str, Field(max_length=12)], days: int, unit: Literal["celsius", "kelvin"] = "celsius"
) -> None:
    """Say the weather."""


def clock(zone: Annotated[str, Field(max_length=12)]) -> None:
    """Say the time."""


def named_choices(model: Any, count: int) -> list[str]:
    """Ask `count` times, each streamed and not; return what was no call of the tool, empty where all were."""
    tools = [Tool.of(weather), Tool.of(clock)]
    wrong: list[str] = []
    for number in range(count):
        tool = tools[number % 2]
        options: dict[str, Any] = {
            "tools": [one.description_for_api for one in tools],
            "tool_choice": tool.name,
            "tools_as_text": not model.formatter.takes_tools,
            "temperature": 1.5,
            "max_tokens": 120,
            "seed": number,
        }
        asked = [{"role": "user", "content": QUESTIONS[number % len(QUESTIONS)]}]
        whole = model.chat(asked, **options)
        stream = model.chat(asked, stream=True, **options)
        streamed = [call for chunk in stream for call in chunk.tool_calls]
        for calls in (list(whole.tool_calls), streamed):
            names = [call["name"] for call in calls]
            if names != [tool.name] and whole.finish_reason != "length":
                wrong.append(f"{number}: {names} in {whole.raw_text!r}")
                continue
            for call in calls:
                if call["arguments"] is not None:
                    tool.run(call["arguments"])
        if streamed != list(whole.tool_calls):
            wrong.append(f"{number}: streamed {streamed}, else {whole.tool_calls}")
    return wrong
