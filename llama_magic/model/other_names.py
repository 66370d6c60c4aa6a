"""What a call's options are called elsewhere, and where an option that is none here belongs."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Set as AbstractSet

from llama_magic.errors import OptionError
from llama_magic.request.stages import OTHER_NAMES
from llama_magic.words.names import meant

# Parameters of the methods themselves, which a misspelt name may have meant.
_OF_TOOLS = ("tools", "tool_choice", "parallel_tool_calls", "tools_auto", "tool_rounds", "tools_as_text")
_OF_METHODS = {"choices", "grammar", "regex", "stream", "system", "template_variables", *_OF_TOOLS}
# What the magic and other libraries call our options.
CALLED_ELSEWHERE = {
    **OTHER_NAMES,
    "fresh": "reuse=False", "cache_prompt": "reuse", "samples": "n", "num_samples": "n",
    "num_return_sequences": "n", "max_new_tokens": "max_tokens", "max_length": "max_tokens",
    "n_predict": "max_tokens", "num_predict": "max_tokens", "stop_sequences": "stop", "stop_strings": "stop",
    "top_logprobs": "logprobs", "max_time": "timeout", "time_limit": "timeout",
    "request_timeout": "timeout",
}  # fmt: skip
# What another method, or the magic alone, takes.
_NOT_HERE = {
    "schema": "model.structured(prompt, schema) answers with an instance.",
    "response_format": "model.structured(prompt, schema) answers with an instance.",
    "retries": "model.structured takes it.",
    "retry": "model.structured takes retries.",
    "thinking": "model.structured takes it; for chat set the template's own: template_variables={…}.",
    "system": "Put it first: [{'role': 'system', 'content': …}, …].",
    **dict.fromkeys(("prompt", "messages"), "It is the first argument, what is asked; rerun asks it again."),
    "instruct": "model.complete takes it; model.chat always uses the template.",
    **dict.fromkeys(_OF_TOOLS, "model.chat takes it."),
    **dict.fromkeys(
        ("grammar", "regex", "choices"),
        "model.complete and model.chat take it; model.structured takes a type or a JSON schema.",
    ),
    "template_variables": "model.chat and model.structured take it.",
    "session": "%%llama keeps conversations; in Python pass their messages.",
    "new": "%%llama keeps conversations; in Python pass the messages you want.",
    "out": "The result is what the call gives back.",
    "ctx": "The window is set when a model is loaded: lm.load(…, ctx=…).",
    "threads": "It is set when a model is loaded: lm.load(…, threads=…).",
}


def check_names(given: Iterable[str], known: AbstractSet[str]) -> None:
    """Refuse what is neither an option of a call nor a sampling parameter."""
    for name in given:
        if name not in known:
            if name in _NOT_HERE:
                raise OptionError(f"There is no option {name!r} here.", remedy=_NOT_HERE[name])
            hint = meant(name, known | _OF_METHODS, CALLED_ELSEWHERE)
            raise OptionError(f"There is no option {name!r}. {hint}")
