"""What other tools call our options, and dashes that a slide or a text processor made of hyphens.

Read only where a word is not understood as it stands.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from llama_magic.magics._options import MODES, VERBS
from llama_magic.magics._rows import Option

# llama.cpp's own spellings on a command line; those of Python calls stand with the calls.
_COMMAND_LINE = {
    "c": "ctx", "t": "threads", "b": "batch", "ngl": "gpu_layers", "ctk": "kv_type", "ctv": "kv_type",
    "fa": "flash_attn", "s": "seed", "r": "stop", "reverse_prompt": "stop", "n": "max_tokens",
    "sys": "system", "system_prompt": "system", "grammar_file": "grammar", "j": "schema", "jf": "schema",
    "json_schema": "schema", "l": "logit_bias", "no_cache_prompt": "fresh", "no_reuse": "fresh",
    "tb": "threads", "threads_batch": "threads", "ub": "batch", "ubatch": "batch", "ubatch_size": "batch",
    "lora_scaled": "lora", "logit_bias_tokens": "logit_bias", "num_beams": "n", "num_return": "n",
    "top_logprobs": "logprobs", "stop_words": "stop", "stop_token": "stop", "response_schema": "schema",
    "instruct_mode": "instruct", "chat_id": "session", "conversation_id": "session", "output": "out",
    "seed_value": "seed", "reasoning": "thinking", "enable_thinking": "thinking", "think_mode": "thinking",
    "context": "ctx",
}  # fmt: skip
# What does as a cell of each mode in Python, where no cell can stand.
IN_PYTHON = {
    "complete": "model.complete(prompt)", "chat": "model.chat(messages)",
    "structured": "model.structured(prompt, schema)",
    "map": "lm.map(rows, prompt)", "sweep": "lm.sweep(prompt, over=…)",
    "decide": "lm.decide(rows, question, options)",
    "surprise": "model.read(text)", "xray": "model.xray(prompt)",
}  # fmt: skip
# What ollama, lms and others call our verbs and modes.
OF_VERBS = {
    **dict.fromkeys(("list", "ls", "ps"), "models"),
    **dict.fromkeys(("rm", "remove", "delete", "close", "free", "eject"), "unload"),
    **dict.fromkeys(("open", "start"), "load"),
    **dict.fromkeys(("show", "info", "metadata"), "inspect"),
    **dict.fromkeys(("get", "download"), "pull"),
    **dict.fromkeys(("last", "log", "answers", "results"), "history"),
    **dict.fromkeys(("version", "status", "devices", "gpu", "check"), "doctor"),
    "cache": "kv",
    **dict.fromkeys(("tokenize", "tokenise"), "tokens"),
}
OF_MODES = {
    **dict.fromkeys(("generate", "completion", "continue", "infer"), "complete"),
    **dict.fromkeys(("ask", "run", "say", "prompt", "message", "conversation"), "chat"),
    **dict.fromkeys(("json", "extract", "schema"), "structured"),
    **dict.fromkeys(("tokenize", "tokenise"), "tokens"),
}
# What stands for no verb of ours.
INSTEAD_OF_VERBS = {
    **dict.fromkeys(
        ("export", "save"),
        "%llama history save x.jsonl writes what was generated, %llama chat NAME save PATH a conversation, "
        "%llama record PATH all from now on; %history -f x.py the cells, as a script.",
    ),
    **dict.fromkeys(
        ("new", "reset", "clear", "restart"),
        "%%llama chat --new begins a conversation afresh; %llama sampler reset, %llama kv clear and "
        "%llama stats reset are of those.",
    ),
    **dict.fromkeys(
        ("stop", "quit", "exit", "cancel", "interrupt"),
        "Interrupt the kernel to stop an answer; %llama serve stop ends a server, %llama unload a model.",
    ),
    **dict.fromkeys(
        ("set", "config", "param", "params", "options", "settings"),
        "%llama sampler temperature=0.5 sets what is sampled with; %config LlamaMagics lists all defaults.",
    ),
    **dict.fromkeys(("embed", "embedding", "embeddings"), "In Python: model.embed([text]) gives an array."),
    **dict.fromkeys(("score", "logprobs"), "In Python: model.score(prompt, [texts]), model.read(text)."),
}
_BODY = "The prompt stands in the lines below the magic."
_JSON = "%%llama structured --schema X answers in JSON."
_CHAT = "%%llama chat keeps the conversation from cell to cell."
_GONE = "llama.cpp has no such stage any more; --top-p, --min-p and --typical-p cut the unlikely."
# What stands for no option of ours.
_INSTEAD = {
    **dict.fromkeys(("p", "prompt", "f", "file", "user", "message", "messages", "input", "text"), _BODY),
    **dict.fromkeys(("json", "json_object", "response_format", "format_json", "guided_json"), _JSON),
    **dict.fromkeys(("i", "interactive", "cnv", "conversation", "multiline_input", "history"), _CHAT),
    **dict.fromkeys(("tfs", "tfs_z", "top_a", "penalize_nl", "locally_typical"), _GONE),
    **dict.fromkeys(("v", "verbose", "log_verbose", "debug"), "%llama doctor says what is in use."),
    **dict.fromkeys(("keep_alive", "keepalive"), "A model stays loaded until %llama unload."),
    **dict.fromkeys(("hf", "hf_repo", "hf_file", "hfr", "hff", "model_url"), "%llama load SOURCE takes it."),
    **dict.fromkeys(("image", "mmproj", "audio", "images"), "Only text is read."),
    "stream": "An answer is always shown as it is written.",
    "no_stream": "-q shows nothing while a cell runs.",
    "do_sample": "-t 0 is greedy, any other temperature draws.",
    "greedy": "-t 0 is greedy.",
    "last": "%llama history N shows the last N.",
    "search": "%llama history --grep RE searches.",
    "best_of": "-N draws several answers.",
    "cache_prompt": "What was read before is always reused; --fresh switches that off.",
    "ignore_eos": "In Python: model.complete(…, ignore_eos=True).",
    "keep": "--overflow drop-oldest keeps the system prompt and the last turn.",
    "guidance_scale": "llama.cpp's sampler chain has no such stage.",
    "cfg_scale": "llama.cpp's sampler chain has no such stage.",
}
# Hyphens, dashes and the minus sign of Unicode, and a soft hyphen.
_DASHES = re.compile("^[-\u00ad\u2010-\u2015\u2212\ufe58\ufe63\uff0d]+")


def with_hyphens(word: str, known: Mapping[str, Option]) -> str:
    """Return a word with hyphens for the dashes before it, if that makes it a known option."""
    if (rest := undashed(word)) is None:
        return word
    for written in (f"--{rest}", f"-{rest}"):
        if written.partition("=")[0] in known:
            return written
    return word


def undashed(word: str) -> str | None:
    """Return a word without the dashes before it, None where there are none but hyphens."""
    rest = _DASHES.sub("", word)
    return rest if set(word[: len(word) - len(rest)]) - {"-"} else None


def hint(flag: str, known: Mapping[str, Option]) -> str:
    """Return a sentence on what another tool's option is here, or where an option of ours belongs, or ""."""
    name = flag.lstrip("-").replace("-", "_")
    name = name.lower() if len(name) > 1 else name
    key = _keys().get(name, name)
    for option in known.values():
        if _is(option, key):
            return f"Did you mean {option.flags[-1]}?"
    if name in _INSTEAD:
        return _INSTEAD[name]
    for option in known.values():  # --chat-template, where --template is one
        if name.replace("_", "-").endswith(option.flags[-1][1:]):
            return f"Did you mean {option.flags[-1]}?"
    if (found := home(name)) is None:
        return ""
    ours, where = found
    return f"It belongs to {where}." if ours == flag else f"It is {ours} of {where}."


def home(name: str) -> tuple[str, str] | None:
    """Return the option of that name, or of what others call it, and who takes it; None where nobody does."""
    key = _keys().get(name, name)
    owners = [(f"%%llama {mode.name}", mode.options) for mode in MODES.values()]
    owners += [(f"%llama {verb.name}", verb.options) for verb in VERBS.values()]
    found = [(owner, option.flags[-1]) for owner, options in owners for option in options if _is(option, key)]
    if not found:
        return None
    shown = [owner for owner, _ in found]
    return found[0][1], ", ".join(shown if len(shown) < 4 else [*shown[:3], "…"])


def _is(option: Option, key: str) -> bool:
    """Tell whether an option is the one of that long name, or sets that keyword (not the other way round)."""
    return option.flags[-1] == "--" + key.replace("_", "-") or (option.key == key and bool(option.value))


def _keys() -> dict[str, str]:
    """Return the keyword of ours by what others call it."""
    # For weight: read where a word was wrong.
    from llama_magic.loading.options import CALLED_ELSEWHERE as OF_LOAD
    from llama_magic.model.other_names import CALLED_ELSEWHERE as OF_CALLS

    return {**_COMMAND_LINE, **OF_LOAD, **OF_CALLS}
