"""Fields that other servers have, and what to write here in their place."""

from __future__ import annotations

from collections.abc import Mapping

_TEMPLATE = 'Write chat_template_kwargs={"enable_thinking": …}, or what the template of the model reads.'
_STAYS = "Leave it out: a model stays as long as the server does."
_WINDOW = "The window is set when the model is loaded."
_FROM_LOGITS = "logit_bias, grammar and regex say what may be written."
INSTEAD: Mapping[str, str] = {
    "functions": 'Write tools=[{"type": "function", "function": …}].',
    "function_call": 'Write tool_choice="auto", "none", or {"type": "function", "function": {"name": …}}; '
    "an answer says its calls in tool_calls.",
    "suffix": "No text is filled in between two others. Where a model was trained to, write its own marks "
    "into the prompt.",
    "guided_json": 'Write structured_outputs={"json": …}, or response_format.',
    "guided_regex": 'Write structured_outputs={"regex": …}, or regex.',
    "guided_choice": 'Write structured_outputs={"choice": […]}.',
    "guided_grammar": 'Write structured_outputs={"grammar": …}, or grammar, in GBNF.',
    "guided_decoding_backend": "Leave it out: there is one way here to hold an answer.",
    "format": "Write response_format.",
    "options": "Write what it holds as fields of the request.",
    "keep_alive": _STAYS,
    "ttl": _STAYS,
    "draft_model": "It is chosen when the model is loaded.",
    "store": "Nothing is kept: leave it out.",
    "background": "Nothing is kept: ask for a stream.",
    "usage": 'Every answer has it; of a stream write stream_options={"include_usage": true}.',
    "extra_body": "Write what it holds as fields of the request.",
    "random_seed": "Write seed.",
    "timeout": "Close the connection: what is written stops then.",
    "context_length": _WINDOW,
    "n_ctx": _WINDOW,
    "think": _TEMPLATE,
    "thinking": _TEMPLATE,
    "enable_thinking": _TEMPLATE,
    "chat_template": "The template is chosen when the model is loaded.",
    "prompt_logprobs": "/v1/completions tells those of a prompt.",
    "allowed_token_ids": _FROM_LOGITS,
    "bad_words": _FROM_LOGITS,
    "prediction": "Leave it out: what the text repeats is guessed ahead by itself.",
    "web_search_options": "Nothing is searched here.",
    "verbosity": "How much is said stands in the prompt, and in max_tokens.",
    "audio": "Only text is written.",
    "max_tool_calls": "Tools are called by whoever asks; parallel_tool_calls: false allows one a time.",
    "images": "Images are not taken.",
    "image_data": "Images are not taken.",
    "previous_response_id": "Nothing is kept: send the items of the conversation as input.",
    "conversation": "Nothing is kept: send the items of the conversation as input.",
}
# What a type of tool that others run is answered with.
_RUN_THERE = "Tools are run by whoever asks, here none."
HOSTED: Mapping[str, str] = {
    "web_search": f'{_RUN_THERE} Leave it out; Codex does with web_search = "disabled" in its config.toml.',
    "image_generation": f"{_RUN_THERE} Leave it out; Codex does with features.image_generation = false.",
    "namespace": "Send each of its tools as a function; Codex has those of MCP servers in such.",
    "local_shell": "Send it as a function.",
    **dict.fromkeys(
        ("file_search", "code_interpreter", "mcp", "computer_use_preview", "web_search_preview"),
        f"{_RUN_THERE} Leave it out.",
    ),
}
