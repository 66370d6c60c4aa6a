"""What names of other libraries are called here: options of a call, methods, parts of an answer."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import TYPE_CHECKING, Any, ClassVar

from llama_magic.errors import InputTypeError, OptionError
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
    "max_completion_tokens": "max_tokens", "max_output_tokens": "max_tokens",
    "n_predict": "max_tokens", "num_predict": "max_tokens", "stop_sequences": "stop", "stop_strings": "stop",
    "top_logprobs": "logprobs", "max_time": "timeout", "time_limit": "timeout",
    "request_timeout": "timeout",
}  # fmt: skip
# What another method, or the magic alone, takes.
_NOT_HERE = {
    **dict.fromkeys(
        ("schema", "response_format", "json_schema", "output_schema", "guided_json", "response_model"),
        "model.structured(prompt, schema) answers with an instance.",
    ),
    **dict.fromkeys(
        ("user", "store", "metadata", "service_tier", "safety_identifier", "stream_options"),
        "Leave it out: nobody reads it here. The usage of a stream is stream.completion.usage.",
    ),
    **dict.fromkeys(("functions", "function_call"), "model.chat takes tools=[…] and tool_choice=…."),
    "model": "The model is what is asked: lm.load(…).chat(…).",
    "echo": "answer.prompt + answer.text is both.",
    "suffix": "No text is filled in between two others: models go on from one.",
    "best_of": "n=… gives all answers; choose among them.",
    "extra_body": "Write what it holds as options of the call.",
    "logits_processor": "logit_bias=, grammar=, regex= and choices= say what may be written.",
    "stopping_criteria": "stop= and timeout= end an answer, and so does leaving the loop of stream=True.",
    "tfs_z": "llama.cpp has no such stage any more; top_p and min_p are its kin.",
    "penalize_nl": "llama.cpp has it no more; leave it out.",
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
    **dict.fromkeys(
        ("ctx", "n_ctx", "num_ctx", "ctx_size"),
        "The window is set when a model is loaded: lm.load(…, ctx=…).",
    ),
    **dict.fromkeys(
        ("threads", "n_threads", "batch", "n_batch", "gpu_layers", "n_gpu_layers", "formatter", "lora"),
        "It is set when a model is loaded: lm.load(…, threads=…, batch=…, gpu_layers=…, lora=…).",
    ),
}

# What methods and attributes of others are called here.
METHODS = {
    **dict.fromkeys(
        ("create_chat_completion", "create_chat_completion_openai_v1"),
        "model.chat(messages, …) gives a Completion, whose text is the answer. "
        "Clients of OpenAI's API go on as they are beside lm.serve().",
    ),
    **dict.fromkeys(("create_completion", "generate", "__call__"), "model.complete(prompt, …)."),
    **dict.fromkeys(("create_embedding", "encode"), "model.embed([…]) gives an array, a row a text."),
    **dict.fromkeys(("metadata", "n_vocab", "n_embd", "n_params"), "model.info is the file's header."),
    **dict.fromkeys(("n_ctx", "context_params", "ctx", "context", "context_length"), "model.window."),
    **dict.fromkeys(
        ("apply_chat_template", "apply_template", "chat_template", "template", "render"),
        "model.prompt_for(messages) is the text that is sent; %llama inspect --template shows the template.",
    ),
    **dict.fromkeys(
        ("tokens", "tokenizer"),
        "model.tokenize(text) gives the ids, model.token_strip(text) shows them.",
    ),
    **dict.fromkeys(
        ("surprise", "perplexity", "logprobs"), "model.read(text) says how likely each token was."
    ),
    **dict.fromkeys(("map", "decide", "sweep", "serve", "inspect"), "lm.map, lm.decide, … with model=…."),
    **dict.fromkeys(("unload", "free"), "model.close()."),
    **dict.fromkeys(("token_eos", "token_bos", "token_nl"), "%llama inspect --tokenizer says them."),
    **dict.fromkeys(
        ("save_state", "load_state", "n_tokens"),
        "model.kv_save(path), model.kv_restore(path).",
    ),
    **dict.fromkeys(("reset", "set_cache"), "Leave it out: each call stands alone, and reuses what it may."),
    **dict.fromkeys(("eval", "scores", "eval_logits"), "model.read(text) and model.score(prompt, texts)."),
    "set_seed": "A seed belongs to a call: model.chat(…, seed=7).",
    "from_pretrained": "lm.load('owner/repo:Q4_K_M').",
    "responses": "Clients of OpenAI's API go on as they are beside lm.serve().",
}
PARTS = {
    **dict.fromkeys(
        ("choices", "content", "message", "output_text", "response"),
        "answer.text is the answer, answer.tool_calls what it calls; with n= there is a list of answers.",
    ),
    **dict.fromkeys(
        ("model_dump", "to_dict", "dict", "json", "model_dump_json"),
        "answer.receipt is a dict; answer.parsed is the instance, where a structured one was asked for.",
    ),
    **dict.fromkeys(
        ("probabilities", "probs", "logprob", "top_logprobs", "surprise"),
        "answer.logprobs has each token's where they were asked for (logprobs=5); answer.alternatives(step) "
        "says what else might have stood at a token.",
    ),
    "tokens": "answer.token_ids are the ids, answer.pieces the texts.",
    **dict.fromkeys(("save", "export"), "answer.receipt is a dict to keep; %llama record PATH keeps all."),
    **dict.fromkeys(("created",), "answer.time."),
    **dict.fromkeys(("reasoning", "reasoning_content"), "answer.thinking."),
    "output_parsed": "answer.parsed.",
}
PIECES = dict.fromkeys(("choices", "content", "message"), "chunk.delta is new, chunk.text all so far.")
RUN = {
    **PARTS,
    **dict.fromkeys(
        ("choices", "content", "message", "response", "output", "result", "usage", "prompt", "logprobs"),
        "run.answer() is the answer as plain data, run.inputs the row; run.completion is all of the answer, "
        "and None where there is a run.error.",
    ),
    **dict.fromkeys(
        ("fork", "alternatives", "branches", "xray", "live", "token_ids", "timings", "receipt"),
        "run.completion has it; it is None where there is a run.error.",
    ),
}
RUNS = {
    **dict.fromkeys(("errors", "failed"), "runs.failures."),
    **dict.fromkeys(
        ("completions", "answers", "texts", "outputs", "results", "parsed", "text"),
        "[run.answer() for run in runs], or a column of runs.to_pandas().",
    ),
    **dict.fromkeys(
        ("df", "table", "to_df", "to_dataframe", "to_csv", "to_excel", "to_dict", "to_json", "head"),
        "runs.to_pandas() is a DataFrame, with to_csv(path) and its kin.",
    ),
    **dict.fromkeys(
        ("export", "save", "to_html", "to_markdown"),
        "runs.to_pandas().to_csv(path) writes the table, to_html(runs) and to_markdown(runs) of "
        "llama_magic.display give what is shown; record= keeps every answer with its receipt.",
    ),
    **dict.fromkeys(
        ("accuracy", "mean", "score", "scores"), "runs.summary() has each score with its interval."
    ),
    **dict.fromkeys(
        ("best", "winner", "compare", "ranking"),
        "runs.summary(by='prompt') has each setting's scores, runs.pairs('prompt') says what can be told.",
    ),
}
ODDS = {
    **RUNS,
    **dict.fromkeys(
        ("accuracy", "mean", "score", "scores"),
        "odds.confusion('label') and odds.calibration('label') compare with a column; of lm.decide(score=…) "
        "odds.summary() has the share.",
    ),
    **dict.fromkeys(
        ("probabilities", "choices", "answers"), "[one.probabilities for one in odds], or odds.to_pandas()."
    ),
}
COUNTS = {
    **dict.fromkeys(("input_tokens", "prompt_eval_count"), "usage.prompt_tokens."),
    **dict.fromkeys(("output_tokens", "eval_count"), "usage.completion_tokens."),
    "prompt_tokens_details": "usage.cached_tokens.",
}


class CalledElsewhere:
    """What others call its attributes is named by the error, also where it is taken for a dict."""

    _elsewhere: ClassVar[Mapping[str, str]] = {}
    _called: ClassVar[str] = "answer"  # in what is said

    if not TYPE_CHECKING:  # a checker is to see which attributes there are

        def __getattr__(self, name: str) -> Any:
            known = self._elsewhere.get(name) or self._within(name)
            said = f"{type(self).__name__!r} object has no attribute {name!r}"
            raise AttributeError(f"{said}. Here: {known}" if known else said, name=name, obj=self)

        def __getitem__(self, key: object) -> Any:
            # A dict in openai's and llama-cpp-python's habit, a list where n= was thought to be given.
            known = self._elsewhere.get(key) or self._within(key) if isinstance(key, str) else None
            if not known and isinstance(key, str) and hasattr(self, key):
                known = f"{self._called}.{key}."
            raise InputTypeError(
                f"A {type(self).__name__} is no dict or list, and has no [{key!r:.40}].",
                remedy=f"Here: {known or self._elsewhere.get('choices') or f'{self._called}.NAME.'}",
            )

    def _within(self, name: str) -> str:
        """Return where a name stands deeper in, "" where it does not."""
        return ""


def check_names(given: Iterable[str], known: AbstractSet[str]) -> None:
    """Refuse what is neither an option of a call nor a sampling parameter."""
    for name in given:
        if name not in known:
            if name in _NOT_HERE:
                raise OptionError(f"There is no option {name!r} here.", remedy=_NOT_HERE[name])
            hint = meant(name, known | _OF_METHODS, CALLED_ELSEWHERE)
            raise OptionError(f"There is no option {name!r}. {hint}")
