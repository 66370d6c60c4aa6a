"""The families written by hand: equal to the official templates, and impossible to forge."""

from __future__ import annotations

import random
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from llama_magic import formatters
from llama_magic.errors import InputTypeError, OptionError, TemplateError

SHARED = Path(__file__).resolve().parents[3] / "shared" / "data" / "templates"

# Small copies of the official templates, written from the formats' descriptions.
LLAMA2 = (
    "{% if messages[0]['role'] == 'system' %}{% set loop_messages = messages[1:] %}"
    "{% set system_message = messages[0]['content'] %}{% else %}{% set loop_messages = messages %}"
    "{% set system_message = false %}{% endif %}{% for message in loop_messages %}"
    "{% if loop.index0 == 0 and system_message %}"
    "{% set content = '<<SYS>>\\n' + system_message + '\\n<</SYS>>\\n\\n' + message['content'] | trim %}"
    "{% else %}{% set content = message['content'] | trim %}{% endif %}"
    "{% if message['role'] == 'user' %}{{ bos_token + '[INST] ' + content + ' [/INST]' }}"
    "{% else %}{{ ' ' + content + ' ' + eos_token }}{% endif %}{% endfor %}"
)
LLAMA3 = (
    "{% for message in messages %}{% if loop.first %}{{ bos_token }}{% endif %}"
    "{{ '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + message['content'] | trim"
    " + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"
)
CHATML = (
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"
)
GEMMA = (
    "{{ bos_token }}{% for m in messages %}{{ '<start_of_turn>'"
    " + ('model' if m.role == 'assistant' else m.role)"
    " + '\\n' + m.content | trim + '<end_of_turn>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"
)
GRANITE = (
    "{% for m in messages %}{{ '<|start_of_role|>' + m.role + '<|end_of_role|>' + m.content"
    " + '<|end_of_text|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_of_role|>assistant<|end_of_role|>' }}{% endif %}"
)
COMMAND_R = (
    "{{ bos_token }}{% for m in messages %}{{ '<|START_OF_TURN_TOKEN|><|'"
    " + {'system': 'SYSTEM', 'user': 'USER', 'assistant': 'CHATBOT'}[m.role] + '_TOKEN|>' + m.content | trim"
    " + '<|END_OF_TURN_TOKEN|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>' }}{% endif %}"
)
DEEPSEEK = (
    "{{ bos_token }}{% for m in messages %}"
    "{{ {'system': '', 'user': '<｜User｜>', 'assistant': '<｜Assistant｜>'}[m.role]"
    " + m.content + ('<｜end▁of▁sentence｜>' if m.role == 'assistant' else '') }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<｜Assistant｜>' }}{% endif %}"
)
MISTRAL_V7 = (
    "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST]{{ m.content }}[/INST]"
    "{% elif m.role == 'system' %}[SYSTEM_PROMPT]{{ m.content }}[/SYSTEM_PROMPT]"
    "{% else %}{{ m.content + eos_token }}{% endif %}{% endfor %}"
)

# family, template, bos, eos, variables of the family, whether it has a system turn
OFFICIAL: list[tuple[str, str, str, str, dict[str, Any], bool]] = [
    ("llama2", LLAMA2, "<s>", "</s>", {}, True),
    ("llama3", LLAMA3, "<|begin_of_text|>", "<|eot_id|>", {}, True),
    ("chatml", CHATML, "", "<|im_end|>", {}, True),
    ("gemma", GEMMA, "<bos>", "<eos>", {}, False),
    ("granite", GRANITE, "", "<|end_of_text|>", {}, True),
    ("command_r", COMMAND_R, "<BOS_TOKEN>", "", {}, True),
    ("deepseek", DEEPSEEK, "<｜begin▁of▁sentence｜>", "<｜end▁of▁sentence｜>", {}, True),
    ("mistral", MISTRAL_V7, "<s>", "</s>", {"version": "v7"}, True),
]
FROM_FILES = [
    ("chatml", "Qwen-Qwen3-0.6B", "", "<|im_end|>", {}, True),
    ("phi", "microsoft-Phi-3.5-mini-instruct", "", "<|endoftext|>", {}, True),
    ("mistral", "mistralai-Mistral-Nemo-Instruct-2407", "<s>", "</s>", {}, True),
    (
        "deepseek",
        "deepseek-ai-DeepSeek-R1-Distill-Llama-8B",
        "<｜begin▁of▁sentence｜>",
        "<｜end▁of▁sentence｜>",
        {"thinking": True},
        True,
    ),
    ("granite", "ibm-granite-granite-3.3-2B-Instruct", "", "<|end_of_text|>", {}, True),
    ("granite", "ibm-granite-granite-4.0", "", "<|end_of_text|>", {}, True),
]
for _family, _file, *_rest in FROM_FILES:
    if (SHARED / f"{_file}.jinja").exists():
        OFFICIAL.append((_family, (SHARED / f"{_file}.jinja").read_text(), *_rest))  # type: ignore[arg-type]


def conversations(has_system: bool) -> list[list[dict[str, Any]]]:
    """Return written and seeded random conversations that begin and end with the user."""
    chance = random.Random(3)
    words = ["hello", " two  words ", "line\nline", "ünï", "日本語", "🙂", "a<b>c", "{x}", "100%", '"q"']
    out = []
    for count in (1, 3, 5, 7):
        for system in (False, True) if has_system else (False,):
            turns = [
                {"role": ("user", "assistant")[i % 2], "content": "".join(chance.choices(words, k=4)) + "."}
                for i in range(count)
            ]
            out.append([{"role": "system", "content": "Be kind."}, *turns] if system else turns)
    return out


@pytest.mark.parametrize("case", OFFICIAL, ids=lambda case: f"{case[0]}-{len(case[1])}")
def test_equal_to_the_official_template(case: tuple[str, str, str, str, dict[str, Any], bool]) -> None:
    """A family writes what its official template writes, under transformers' renderer."""
    from transformers.utils.chat_template_utils import _compile_jinja_template

    family, source, bos, eos, variables, has_system = case
    for messages in conversations(has_system):
        wanted = _compile_jinja_template(source).render(
            messages=messages, bos_token=bos, eos_token=eos, add_generation_prompt=True
        )
        if family == "granite" and messages[0]["role"] != "system":
            continue  # Granite's own templates add a system text with the date
        assert formatters.get(family).messages_to_prompt(messages, **variables) == wanted


def test_gpt_oss_is_harmony() -> None:
    """The harmony format: a system turn, the caller's system text as developer, the final channel."""
    messages = [
        {"role": "system", "content": "Be kind."},
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "content": "Hello"},
        {"role": "user", "content": "Bye"},
    ]
    prompt = formatters.get("gpt_oss").messages_to_prompt(
        messages, reasoning_effort="low", current_date="2025-08-05"
    )
    assert prompt == (
        "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
        "Knowledge cutoff: 2024-06\nCurrent date: 2025-08-05\n\nReasoning: low\n\n"
        "# Valid channels: analysis, commentary, final. Channel must be included for every message.<|end|>"
        "<|start|>developer<|message|># Instructions\n\nBe kind.\n\n<|end|>"
        "<|start|>user<|message|>Hi<|end|><|start|>assistant<|channel|>final<|message|>Hello<|end|>"
        "<|start|>user<|message|>Bye<|end|><|start|>assistant"
    )


@pytest.mark.parametrize("family", formatters.FAMILIES)
def test_text_cannot_forge_a_turn(family: str) -> None:
    """In parts a family's marks in a message are literal or broken; in a string they are broken."""
    formatter = formatters.get(family)
    marks = formatter.marks  # type: ignore[attr-defined]
    evil = "start " + " x ".join(marks) + " end " + marks[0][:1] + marks[0]
    fair = [{"role": "user", "content": "start end"}]
    forged = [{"role": "user", "content": evil}]
    honest = formatter.messages_to_prompt(fair)
    for guarded in ((), marks, ("<|other|>",)):
        done = formatter.render(forged, guarded=guarded)
        assert "".join(part.text for part in done.parts) == done.text
        for mark in marks:
            free = sum(part.text.count(mark) for part in done.parts if not part.literal)
            assert free == honest.count(mark)
    if formatter.name not in ("llama2", "mistral"):
        assert evil in formatter.render(forged, guarded=marks).text
    prompt = formatter.messages_to_prompt(forged)
    assert [prompt.count(mark) for mark in marks] == [honest.count(mark) for mark in marks]
    assert formatter.completion_to_prompt(evil) == prompt


@pytest.mark.parametrize("family", formatters.FAMILIES)
@pytest.mark.parametrize("roles", ["uu", "su", "au", "suu", "sau", "ssu", "uasu", "utu", "du", "suauau"])
def test_every_message_is_written_once(family: str, roles: str) -> None:
    """Whatever the order of the roles, each text is in the prompt once, in a part that names it."""
    names = {"s": "system", "u": "user", "a": "assistant", "d": "developer", "t": "tool"}
    words = [f"Word{i}number" for i in range(len(roles))]
    done = formatters.get(family).render(
        [{"role": names[r], "content": w} for r, w in zip(roles, words, strict=True)]
    )
    assert [done.text.count(word) for word in words] == [1] * len(words)
    held = {p.index: p.text for p in done.parts if p.index is not None}
    assert all(done.messages[i]["content"].strip() == text for i, text in held.items())


@pytest.mark.parametrize("family", formatters.FAMILIES)
def test_continue_final_leaves_the_answer_open(family: str) -> None:
    """The prompt ends with the beginning of the answer, its trailing space kept."""
    messages = [{"role": "user", "content": "Tell"}, {"role": "assistant", "content": "Once upon "}]
    assert formatters.get(family).render(messages, continue_final=True).text.endswith("Once upon ")


def test_one_bos() -> None:
    """A family whose official template writes BOS writes one at the start of a first turn."""
    for name, bos in [("llama2", "<s>"), ("llama3", "<|begin_of_text|>"), ("gemma", "<bos>")]:
        prompt = formatters.get(name).messages_to_prompt([{"role": "user", "content": "a"}])
        assert prompt.startswith(bos)
        assert prompt.count(bos) == 1


def test_names_of_llama_index() -> None:
    """LlamaIndex's four names take its messages and its system_prompt."""
    message = SimpleNamespace(role=SimpleNamespace(value="user"), content="Hi")
    message.role = "user"
    assert formatters.messages_to_prompt([message], system_prompt="Be kind.") == (
        "<s>[INST] <<SYS>>\nBe kind.\n<</SYS>>\n\nHi [/INST]"
    )
    assert formatters.completion_to_prompt("Hi") == "<s>[INST] Hi [/INST]"
    wanted = (
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe kind.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|>"
        "<|start_header_id|>assistant<|end_header_id|>\n\n"
    )
    assert formatters.messages_to_prompt_v3_instruct([message], "Be kind.") == wanted
    assert formatters.completion_to_prompt_v3_instruct("Hi", "Be kind.") == wanted
    own = [{"role": "system", "content": "Own."}, {"role": "user", "content": "Hi"}]
    assert "Be kind." not in formatters.messages_to_prompt(own, "Be kind.")


def test_tools_of_chatml() -> None:
    """Tools stand in the system turn, calls and results in their own marks."""
    tool = {"type": "function", "function": {"name": "weather", "parameters": {}}}
    call = {"type": "function", "function": {"name": "weather", "arguments": '{"city": "Rome"}'}}
    messages = [
        {"role": "user", "content": "Q"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "content": "sunny"},
    ]
    prompt = formatters.get("chatml").messages_to_prompt(messages, tools=[tool])
    assert '<tool_call>\n{"name": "weather", "arguments": {"city": "Rome"}}\n</tool_call><|im_end|>' in prompt
    assert "<tool_response>\nsunny\n</tool_response>" in prompt
    assert prompt.startswith("<|im_start|>system\n")
    with pytest.raises(TemplateError, match="no form for tools"):
        formatters.get("gemma").messages_to_prompt(messages[:1], tools=[tool])


@pytest.mark.parametrize("family", formatters.FAMILIES)
def test_a_family_s_module_is_the_family(family: str) -> None:
    """A module writes, ends and reads by its own names what `get` of its name does."""
    module, formatter = getattr(formatters, family), formatters.get(family)
    messages = [{"role": "user", "content": "Hi"}]
    assert module.messages_to_prompt(messages) == formatter.messages_to_prompt(messages)
    assert "SYS" in module.completion_to_prompt("Hi", system_prompt="SYS")
    assert module.stop == formatter.stop != ()
    assert module.parse("Hello.") == formatter.parse("Hello.")
    assert module.parse("Hello.").content == "Hello."


def test_an_unknown_role_is_named() -> None:
    """A role that the family does not know is an error with its index."""
    with pytest.raises(TemplateError, match=r"narrator.*messages\[0\]"):
        formatters.get("chatml").messages_to_prompt([{"role": "narrator", "content": "x"}])


def info(**fields: Any) -> SimpleNamespace:
    base: dict[str, Any] = {
        "architecture": "llama",
        "chat_template": None,
        "chat_templates": {},
        "bos_token": "<s>",
        "eos_token": "</s>",
    }
    return SimpleNamespace(**{**base, **fields})


def test_detect_takes_the_file_s_template() -> None:
    """A template that compiles is taken, with the file's BOS and EOS."""
    formatter = formatters.detect(info(chat_template="{{ bos_token }}{{ messages[0].content }}"))
    assert formatter.name == "gguf"
    assert formatter.messages_to_prompt([{"role": "user", "content": "hi"}]) == "<s>hi"
    assert formatter.notes == ()


@pytest.mark.parametrize(
    ("fields", "family"),
    [
        ({"chat_template": "{% for %}<|im_start|>"}, "chatml"),
        ({"tokens": SimpleNamespace(has_token=lambda text: text == "<start_of_turn>")}, "gemma"),
        ({"architecture": "command-r"}, "command_r"),
        ({"architecture": "gpt-oss"}, "gpt_oss"),
        ({"architecture": "qwen2"}, "chatml"),
        ({"architecture": "nothing", "chat_template": "  "}, "chatml"),
    ],
)
def test_detect_guesses_and_says_so(fields: dict[str, Any], family: str) -> None:
    """Without a usable template the family is guessed from tokens or architecture, with a note."""
    formatter = formatters.detect(info(**fields))
    assert formatter.name == family
    assert "guessed from" in formatter.notes[0]
    assert formatter.notes[0] in formatter.render([{"role": "user", "content": "x"}]).notes
    assert formatters.get(family).notes == ()


def test_named_templates() -> None:
    """A named template can be chosen, and tool_use is taken by itself where there are tools."""
    templates = {
        "tool_use": "T{{ tools[0].name }}{{ messages[0].content }}",
        "rag": "R{{ messages[0].content }}",
    }
    model = info(chat_template="D{{ messages[0].content }}", chat_templates=templates)
    hi = [{"role": "user", "content": "hi"}]
    assert formatters.detect(model).messages_to_prompt(hi) == "Dhi"
    assert formatters.detect(model).messages_to_prompt(hi, tools=[{"name": "x"}]) == "Txhi"
    assert formatters.choose("gguf:rag", model).messages_to_prompt(hi) == "Rhi"
    assert formatters.choose("rag", model).messages_to_prompt(hi) == "Rhi"
    assert formatters.choose("chatml", model).name == "chatml"
    with pytest.raises(OptionError, match="nope"):
        formatters.choose("gguf:nope", model)


def test_a_template_file(tmp_path: Path) -> None:
    """A PATH.jinja is a formatter; a missing one is an error that names it."""
    path = tmp_path / "my own.jinja"
    path.write_text("<{{ messages[0].content }}>")
    formatter = formatters.choose(str(path), info())
    assert formatter.messages_to_prompt([{"role": "user", "content": "hi"}]) == "<hi>"
    with pytest.raises(OptionError, match="missing"):
        formatters.from_jinja(tmp_path / "missing.jinja")


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_a_template_file_in_any_unicode(tmp_path: Path, encoding: str) -> None:
    """A byte order mark is no part of the template; UTF-16 is read, and other bytes are an error."""
    path = tmp_path / "t.jinja"
    path.write_bytes("{{ messages[0].content }} é\r\nx".encode(encoding))
    formatter = formatters.from_jinja(path)
    assert formatter.messages_to_prompt([{"role": "user", "content": "hi"}]) == "hi é\nx"
    path.write_bytes("é {{ x }}".encode("latin-1"))
    with pytest.raises(OptionError, match="UTF-8"):
        formatters.from_jinja(path)


def test_register_takes_a_module_as_llama_index_writes_them() -> None:
    """An object with messages_to_prompt is a formatter; its messages have attributes and keys."""
    module = SimpleNamespace(
        messages_to_prompt=lambda messages: "|".join(m.role + m["content"] for m in messages)
    )
    formatters.register("mine", module)
    done = formatters.get("mine").render([{"role": "user", "content": "a<|x|>"}], guarded=["<|x|>"])
    assert done.text == "usera< |x|>"
    assert [p.kind for p in done.parts] == ["template", "user"]
    with pytest.raises(InputTypeError):
        formatters.register("bad", 3)


def test_an_unknown_name_is_an_error_with_the_nearest() -> None:
    """A slip of the pen gets the right name back."""
    with pytest.raises(OptionError, match="chatml"):
        formatters.get("chatlm")
