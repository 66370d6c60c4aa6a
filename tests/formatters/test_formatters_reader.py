"""Reading answers back: thinking, text and tool calls, whatever the chunks."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_magic import formatters
from llama_magic.formatters._reader import reply_of

MARKS = [
    "<think>",
    "</think>",
    "<tool_call>",
    "</tool_call>",
    "<|channel|>",
    "analysis",
    "final",
    "<|message|>",
    "<|end|>",
    "<|start|>assistant",
    "<|START_THINKING|>",
    "<|END_THINKING|>",
    "<response>",
    "[TOOL_CALLS]",
    "[THINK]",
    "[/THINK]",
    "<｜tool▁calls▁begin｜>",
]
NAMES = ["chatml", "gpt_oss", "granite", "command_r", "mistral", "deepseek", "llama3", "gemma"]


@settings(max_examples=150, deadline=None)
@given(
    st.lists(st.sampled_from([*MARKS, "a", " ", "\n", "<", "<thi", "{}", "日"]), max_size=12).map("".join),
    st.lists(st.integers(1, 9), min_size=1, max_size=30),
    st.sampled_from(NAMES),
    st.sampled_from(
        ["", "…<|im_start|>assistant\n<think>\n", "<|start|>assistant", "<think>\n\n</think>\n\n"]
    ),
)
def test_a_reader_equals_parse_for_any_chunks(text: str, sizes: list[int], name: str, prompt: str) -> None:
    """Fed in pieces of any size, a reader gives what parse gives of the whole."""
    formatter = formatters.get(name)
    reader, pieces, at, turn = formatter.reader(prompt), [], 0, 0
    while at < len(text):
        size = sizes[turn % len(sizes)]
        pieces += reader.feed(text[at : at + size])
        at, turn = at + size, turn + 1
    pieces += reader.flush()
    assert reply_of(pieces) == formatter.parse(text, prompt)


@settings(max_examples=60, deadline=None)
@given(st.text(alphabet="abc <>/|\n日", max_size=40))
def test_text_without_marks_comes_out_as_it_is(text: str) -> None:
    """Nothing is lost or changed where there are no marks, white space included."""
    assert formatters.get("chatml").parse(text).content == text


@pytest.mark.parametrize(
    ("name", "text", "prompt", "content", "thinking"),
    [
        ("chatml", "<think>\nhm\n\nyes\n</think>\n\nAnswer", "", "Answer", "hm\n\nyes"),
        ("chatml", "hm\n</think>\n\nAnswer", "<|im_start|>assistant\n<think>\n", "Answer", "hm"),
        ("chatml", "Answer", "<|im_start|>assistant\n<think>\n\n</think>\n\n", "Answer", ""),
        ("chatml", "<think>cut off", "", "", "cut off"),
        ("deepseek", "r\n</think>\n\nA", "<｜Assistant｜><think>\n", "A", "r"),
        ("granite", "<think>t</think><response>A</response>", "", "A", "t"),
        (
            "command_r",
            "<|START_THINKING|>t<|END_THINKING|><|START_RESPONSE|>A<|END_RESPONSE|>",
            "",
            "A",
            "t",
        ),
        ("mistral", "[THINK]t[/THINK]A", "", "A", "t"),
        (
            "gpt_oss",
            "<|channel|>analysis<|message|>t<|end|><|start|>assistant<|channel|>final<|message|>A<|return|>",
            "<|start|>assistant",
            "A",
            "t",
        ),
        ("gpt_oss", "just text", "", "just text", ""),
        ("gpt_oss", "just text", "<|start|>assistant", "just text", ""),
        ("llama3", "a <think> b", "", "a <think> b", ""),
    ],
)
def test_thinking_is_kept_apart(name: str, text: str, prompt: str, content: str, thinking: str) -> None:
    """Thinking and answer come out apart, without their marks and the white space around them."""
    reply = formatters.get(name).parse(text, prompt)
    assert (reply.content, reply.thinking) == (content, thinking)


@pytest.mark.parametrize(
    ("source", "text", "prompt", "content", "thinking"),
    [
        ("<seed:think>{{ '</seed:think>' }}", "<seed:think>t</seed:think>A", "", "A", "t"),
        ("{{ '<|channel>thought\n<channel|>' }}", "<|channel>thought\nt<channel|>A", "", "A", "t"),
        ("Here are my reasoning steps:[BEGIN FINAL RESPONSE][END FINAL RESPONSE]",
         "t\n[BEGIN FINAL RESPONSE]\nA\n[END FINAL RESPONSE]", "Here are my reasoning steps:\n", "A\n", "t"),
        ("{{ '<|start|>assistant to=self<|message|>' }}",
         " to=self<|message|>t<|eom|><|start|>assistant<|message|>A<|eot|>", "<|start|>assistant", "A", "t"),
        ("{{ '>>>all\n' }}", "all\nA", "<|end_header_id|>\n\n>>>", "A", ""),
        ("{{ messages[0].content }}", "<think>t</think>A", "", "<think>t</think>A", ""),
        ("{{ open_tag('think') }}", "t<|close|>think<|sep|>A", "<|open|>think<|sep|>", "A", "t"),
    ],
)  # fmt: skip
def test_marks_are_read_off_a_template(
    source: str, text: str, prompt: str, content: str, thinking: str
) -> None:
    """The marks that a template speaks of are recognised, others are ordinary text."""
    reply = formatters.from_jinja(source + "{# \n #}{{ messages }}").parse(text, prompt)
    assert (reply.content, reply.thinking) == (content, thinking)


@pytest.mark.parametrize(
    ("name", "text", "call"),
    [
        ("chatml", '<tool_call>\n{"name": "f", "arguments": {"a": 1}}\n</tool_call>', ("f", {"a": 1})),
        ("chatml", "<tool_call><function=f>\n<parameter=a>\n1\n</parameter>\n</function></tool_call>",
         ("f", {"a": 1})),
        ("mistral", '[TOOL_CALLS][{"name": "f", "arguments": {"a": 1}}]', ("f", {"a": 1})),
        ("mistral", '[TOOL_CALLS]f[ARGS]{"a": 1}', ("f", {"a": 1})),
        ("granite", '<|tool_call|>[{"name": "f", "arguments": {"a": 1}}]', ("f", {"a": 1})),
        (
            "deepseek",
            "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>f\n```json\n"
            '{"a": 1}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
            ("f", {"a": 1}),
        ),
        (
            "command_r",
            '<|START_ACTION|>[{"tool_call_id": "0", "tool_name": "f", "parameters": {"a": 1}}]<|END_ACTION|>',
            ("f", {"a": 1}),
        ),
        (
            "gpt_oss",
            '<|channel|>commentary to=functions.f <|constrain|>json<|message|>{"a": 1}<|call|>',
            ("f", {"a": 1}),
        ),
        ("llama3", '<|python_tag|>{"name": "f", "parameters": {"a": 1}}', ("f", {"a": 1})),
        ("chatml", "<tool_call>broken", ("", None)),
    ],
)  # fmt: skip
def test_tool_calls_are_read(name: str, text: str, call: tuple[str, Any]) -> None:
    """Each family's calls come out as name and arguments; a broken one keeps its raw text."""
    calls = formatters.get(name).parse(text).tool_calls
    assert [(c["name"], c["arguments"]) for c in calls] == [call]
    assert calls[0]["raw"]


@pytest.mark.parametrize(
    ("source", "text", "call"),
    [
        ("<|tool_calls_section_begin|>", "<|tool_calls_section_begin|><|tool_call_begin|>functions.f:0"
         '<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|><|tool_calls_section_end|>', ("f", {"a": 1})),
        ("<minimax:tool_call>", '<minimax:tool_call>\n<invoke name="f">\n<parameter name="a">1</parameter>\n'
         "</invoke>\n</minimax:tool_call>", ("f", {"a": 1})),
        ("<|tool_call_start|>", "<|tool_call_start|>[f(a=1)]<|tool_call_end|>", ("f", {"a": 1})),
        ("<tool_call>", "<tool_call>f\n<arg_key>a</arg_key>\n<arg_value>1</arg_value>\n</tool_call>",
         ("f", {"a": 1})),
        ("{{ '>>>all' }}", '>>>f\n{"a": 1}', ("f", {"a": 1})),
    ],
)  # fmt: skip
def test_tool_calls_by_a_template_s_marks(source: str, text: str, call: tuple[str, Any]) -> None:
    """The forms of Kimi, MiniMax, LFM2, GLM and Functionary are read where the template has them."""
    calls = formatters.from_jinja(source + "{# \n #}{{ messages }}").parse(text).tool_calls
    assert [(c["name"], c["arguments"]) for c in calls] == [call]


def test_two_calls_and_text() -> None:
    """Several calls in one answer are several; the text beside them is the answer."""
    one = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    other = one.replace('"f"', '"g"')
    reply = formatters.get("chatml").parse(f"Wait.\n{one}\n{other}")
    assert [c["name"] for c in reply.tool_calls] == ["f", "g"]
    assert reply.content == "Wait."


def test_a_possible_mark_is_held_back() -> None:
    """ "<thi" is not given out before it is known not to become "<think>"."""
    reader = formatters.get("chatml").reader()
    assert reader.feed("\n<thi") == [formatters.Piece("text", "\n")]
    assert reader.feed("s") == [formatters.Piece("text", "<this")]
    assert reader.feed("<tool") == []
    assert reader.flush() == [formatters.Piece("text", "<tool")]


@pytest.mark.parametrize(
    ("text", "prompt", "content", "thinking"),
    [
        ("The <think> tag opens thinking.", "", "The <think> tag opens thinking.", ""),
        ("Use `<think>` and `</think>`.", "", "Use `<think>` and `</think>`.", ""),
        (" \n<think>a</think>Use <think>b</think>.", "", " \nUse <think>b</think>.", "a"),
        ("About `</think>` tags.</think>\n\nIt closes `</think>`.", "<think>", "It closes `</think>`.",
         "About `</think>` tags."),
        ('Say "</think>" (</think>) so.</think>Yes', "<think>\n", "Yes", 'Say "</think>" (</think>) so.'),
        ('It says "no"</think>Yes', "<think>", "Yes", 'It says "no"'),
        ('It says "no "</think>', "<think>", "", 'It says "no "'),
        ("Wants <think>foo</think> here.</think>Yes", "<think>", "Yes", "Wants <think>foo</think> here."),
        ("A `<think>…</think>` pair\n</think>\nYes", "<think>", "Yes", "A `<think>…</think>` pair"),
        ("Of <think> alone.\n</think>Yes", "<think>", "Yes", "Of <think> alone."),
        ("Of <think> alone.</think>\nYes", "<think>", "Yes", "Of <think> alone."),
        ("**</think>** [</think>]</think>Yes", "<think>", "Yes", "**</think>** [</think>]"),
        ("„</think>“, 「</think>」.\n</think>Yes", "<think>", "Yes", "„</think>“, 「</think>」."),
        ("Take `x`</think>`y` is it", "<think>", "`y` is it", "Take `x`"),
        ("It is **5**.</think>**5**", "<think>", "**5**", "It is **5**."),
        ("<think>\n<think>twice</think>Yes", "", "Yes", "twice"),
        ("<tool_call>{}</tool_call><think>later</think>done", "", "done", "later"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_a_mark_that_is_only_spoken_of(
    text: str, prompt: str, content: str, thinking: str, size: int
) -> None:
    """Thinking opens where an answer begins, not where it mentions the mark; a quoted close is no close."""
    reader, pieces = formatters.get("chatml").reader(prompt), []
    for at in range(0, len(text), size):
        pieces += reader.feed(text[at : at + size])
    pieces += reader.flush()
    assert "".join(p.text for p in pieces if p.kind == "text") == content
    assert "".join(p.text for p in pieces if p.kind == "thinking") == thinking


def test_a_constrained_answer_is_not_read_for_marks() -> None:
    """After its thinking part a constrained answer is kept whole, tags and tool calls included."""
    reader = formatters.get("chatml").reader("<think>", once=True)
    pieces = [*reader.feed("why </think>{<think>x</think><tool_call>"), *reader.flush()]
    assert [(p.kind, p.text) for p in pieces] == [
        ("thinking", "why"), ("text", "{<think>x</think><tool_call>"),
    ]  # fmt: skip
