"""The marks of thinking and tool calls that models are known to write, and how a template shows them."""

from __future__ import annotations

from typing import Any

from ._reader import Mark, ReplySpec, State, spec_for

# What opens a part, and what closes it.
THINKING: tuple[tuple[str, str], ...] = (
    ("<think>", "</think>"),  # DeepSeek, Qwen3, QwQ, GLM, MiniMax, Kimi K2, Granite 3.3, SmolLM3
    ("[THINK]", "[/THINK]"),  # Magistral, Ministral
    ("<seed:think>", "</seed:think>"),  # Seed-OSS
    ("<mm:think>", "</mm:think>"),  # MiniMax M3
    ("<|START_THINKING|>", "<|END_THINKING|>"),  # Command R7B, Command A
    ("<|channel>thought", "<channel|>"),  # Gemma 4
    ("<thinking>", "</thinking>"),  # Apriel 1.5
    ("◁think▷", "◁/think▷"),  # Kimi VL
    ("<|inner_prefix|>", "<|inner_suffix|>"),  # Apertus
    ("Here are my reasoning steps:", "[BEGIN FINAL RESPONSE]"),  # Apriel 1.6
)
# (what the source shows, opens, closes): marks that a template puts together itself
_COMPOSED: tuple[tuple[str, str, str], ...] = (
    ("open_tag('think'", "<|open|>think<|sep|>", "<|close|>think<|sep|>"),  # Kimi K3
    (":opensource", "<think:opensource>", "</think:opensource>"),  # Hunyuan 3
)
TOOLS: tuple[tuple[str, str], ...] = (
    ("<tool_call>", "</tool_call>"),  # Hermes, Qwen, GLM, Granite 4
    ("<tool_calls>", "</tool_calls>"),  # MiniMax M1, Apriel
    ("[TOOL_CALLS]", ""),  # Mistral
    ("<|tool_call|>", ""),  # Granite 3
    ("<|python_tag|>", ""),  # Llama 3.1
    ("<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"),  # DeepSeek
    ("<|tool_calls_section_begin|>", "<|tool_calls_section_end|>"),  # Kimi K2
    ("<|START_ACTION|>", "<|END_ACTION|>"),  # Command R7B
    ("<|tool_call_start|>", "<|tool_call_end|>"),  # LFM2
    ("<minimax:tool_call>", "</minimax:tool_call>"),
    ("<seed:tool_call>", "</seed:tool_call>"),
)
# Marks around the answer itself.
ANSWER: tuple[str, ...] = (
    "<response>",
    "</response>",
    "<|START_RESPONSE|>",
    "<|END_RESPONSE|>",
    "<|START_TEXT|>",
    "<|END_TEXT|>",
    "[BEGIN FINAL RESPONSE]",
    "[END FINAL RESPONSE]",
)
_ANSWER_COMPOSED = ("<|open|>response<|sep|>", "<|close|>response<|sep|>")
# The variables by which templates switch thinking off, and the value that does it.
THINKING_OFF: dict[str, Any] = {
    "enable_thinking": False,
    "thinking": False,
    "thinking_budget": 0,
    "reasoning": False,
}


def _addressee(header: str) -> State:
    """Say what follows a header: `to=self` is thinking, another name a tool, none the answer."""
    if "to=self" in header:
        return "thinking"
    return "tool_call" if "to=" in header else "text"


_BODY: tuple[State, ...] = ("text", "thinking", "tool_call")
_ADDRESSED = ReplySpec(  # Muse: <|start|>assistant to=self<|message|>…<|eom|>
    marks=(
        Mark("<|start|>assistant", _BODY, "header"),
        Mark("<|eom|>", _BODY, "text"),
        Mark("<|eot|>", _BODY, "text"),
    ),
    opens=(("<|start|>assistant", "header"),),
    header=_addressee,
)
_FUNCTIONARY = ReplySpec(  # Functionary 3.2: >>>all\n… or >>>name\n{…}
    marks=(Mark(">>>", _BODY, "header"),),
    opens=((">>>", "header"),),
    header_end="\n",
    header=lambda name: "text" if name.strip() == "all" else "tool_call",
)


def spec_from_template(source: str) -> ReplySpec:
    """Return the marks that a template's source speaks of."""
    if "<|channel|>" in source and "analysis" in source:
        from .gpt_oss import SPEC

        return SPEC
    if "to=self<|message|>" in source:
        return _ADDRESSED
    if "'>>>" in source or '">>>' in source:
        return _FUNCTIONARY
    pairs = tuple(pair for pair in THINKING if pair[1] in source)
    composed = tuple(pair for needle, *pair in _COMPOSED if needle in source)
    pairs += tuple((opened, closed) for opened, closed in composed)
    closes = {closed for _, closed in pairs}
    tools = tuple(pair for pair in TOOLS if pair[0] in source)
    # "<response>" is a mark only beside "<think>": elsewhere it is an XML element like any other.
    drop = tuple(text for text in ANSWER if text in source and text not in closes and pairs)
    if "open_tag('response'" in source or "'think' if thinking else 'response'" in source:
        drop += _ANSWER_COMPOSED
    spec = spec_for(pairs, tools, drop)
    if "<|think|>" in source and "<|begin|>" in source:  # Solar
        end: tuple[State, ...] = ("thinking",)
        marks = (
            Mark("<|think|>", ("text",), "thinking"),
            Mark("<|end|>", end, "text"),
            Mark("<|begin|>assistant", ("text",), None),
            Mark("<|content|>", ("text", "thinking"), "text"),
        )
        spec = ReplySpec(spec.marks + marks, (*spec.opens, ("<|think|>", "thinking")))
    return spec
