"""What people type who come from other libraries: the error names what it is called here."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import pytest

import llama_magic as lm
from llama_magic.errors import InputTypeError, OptionError
from llama_magic.experiments import Run, Runs
from llama_magic.model.other_names import COUNTS, METHODS, PARTS, PIECES, RUN, RUNS
from llama_magic.model.results import Chunk, Completion, Usage
from llama_magic.testing import scripted_model


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"max_completion_tokens": 4}, "Did you mean max_tokens?"),
        ({"user": "me"}, "Leave it out"),
        ({"store": False}, "Leave it out"),
        ({"functions": []}, "takes tools=[…]"),
        ({"model": "gpt-4o"}, "lm.load(…).chat(…)"),
        ({"response_format": {"type": "json_object"}}, "model.structured(prompt, schema)"),
        ({"json_schema": {}}, "model.structured(prompt, schema)"),
        ({"n_ctx": 4096}, "lm.load(…, ctx=…)"),
        ({"n_gpu_layers": 9}, "lm.load(…, threads=…, batch=…, gpu_layers=…"),
        ({"echo": True}, "answer.prompt + answer.text"),
        ({"logprobs": True}, "logprobs=5"),
        ({"tfs_z": 1.0}, "no such stage any more"),
    ],
)
def test_a_call_knows_options_of_other_clients(option: dict[str, Any], words: str) -> None:
    """No other option, near in letters and far in sense, is offered in their place."""
    model = scripted_model(lambda _: "ok")
    with pytest.raises(lm.LlamaMagicError) as caught:
        model.chat("hi", **option)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"model_path": "x.gguf"}, "It is the first argument: lm.load('file.gguf')"),
        ({"seed": 3}, "It belongs to a call"),
        ({"verbose": False}, "llama.cpp prints nothing here"),
        ({"logits_all": True}, "leave it out"),
        ({"lora_path": "x.gguf"}, "Did you mean lora?"),
    ],
)
def test_a_load_knows_options_of_llama_cpp_python(option: dict[str, Any], words: str) -> None:
    """What `Llama(…)` takes and a load does not is said with what to write."""
    with pytest.raises(OptionError) as caught:
        lm.load(**option)
    assert words in str(caught.value)


def test_methods_and_parts_of_other_clients_are_named() -> None:
    """An attribute that llama-cpp-python or openai has is answered by ours; any other as Python does."""
    model = scripted_model(lambda _: "ok")
    untyped: Any = model
    with pytest.raises(AttributeError, match=r"no attribute 'create_chat_completion'\. Here: model\.chat\("):
        untyped.create_chat_completion(messages=[])
    with pytest.raises(AttributeError, match=r"'Model' object has no attribute 'nonsense'$"):
        _ = untyped.nonsense
    answer: Any = model.chat("hi")
    with pytest.raises(AttributeError, match=r"Here: answer\.text"):
        _ = answer.choices
    chunk: Any = next(iter(model.chat("hi", stream=True)))
    with pytest.raises(AttributeError, match=r"Here: chunk\.delta"):
        _ = chunk.choices
    parsed: Any = scripted_model(lambda _: '{"name": "Ada"}').structured("hi", "name")
    with pytest.raises(AttributeError, match=r"Here: answer\.parsed\['name'\]\."):
        _ = parsed.name
    assert pickle.loads(pickle.dumps(parsed)) == parsed
    assert pickle.loads(pickle.dumps(answer)) == copy.deepcopy(answer) == answer
    assert not hasattr(answer, "_ipython_display_")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Llama", "Here: lm.load('file.gguf')"),
        ("chat", "Here: ask a model: lm.load(…).chat(…)."),
        ("kv", "Here: ask a model: lm.load(…).kv."),
        ("generate", "Here: ask a model: model.complete(prompt, …)."),
        ("history", "Here: %llama history, in a notebook."),
        ("lod", "has no attribute 'lod'. Did you mean load?"),
        ("_repr_html_", "has no attribute '_repr_html_'$"),
    ],
)
def test_a_name_that_the_package_has_not_leads_to_one_that_is_there(name: str, words: str) -> None:
    """A method of a model, a verb of the magic, the name of another library, a misspelling."""
    with pytest.raises(AttributeError) as caught:
        getattr(lm, name)
    assert words.removesuffix("$") in str(caught.value)
    assert not words.endswith("$") or str(caught.value).endswith(words[:-1])


def test_an_answer_taken_for_a_dict_or_a_list_says_what_to_write() -> None:
    """`r["choices"][0]`, `usage["total_tokens"]`, `run["text"]`, `runs["answer"]`: each names ours."""
    model = scripted_model(lambda _: "ok")
    runs: Any = lm.map([{"body": "a"}], "{{ body }}", model=model, progress=False)
    answer: Any = model.chat("hi")
    chunk: Any = next(iter(model.chat("hi", stream=True)))
    for whose, key, words in (
        (answer, "choices", "Here: answer.text is the answer"),
        (answer, "usage", "Here: answer.usage."),
        (answer, 0, "with n= there is a list"),
        (answer.usage, "total_tokens", "Here: usage.total_tokens."),
        (answer.usage, "output_tokens", "Here: usage.completion_tokens."),
        (answer.usage, 0, "Here: usage.NAME"),
        (chunk, "choices", "Here: chunk.delta"),
        (runs[0], "body", "Here: run.inputs['body']."),
        (runs[0], "label", "run.inputs the row"),
        (runs[0], "text", "Here: run.text."),
        (runs, "answer", "to_pandas() has columns"),
    ):
        with pytest.raises(InputTypeError) as caught:
            whose[key]
        assert words in str(caught.value)
    with pytest.raises(AttributeError, match=r"Here: run\.inputs\['body'\]\."):
        _ = runs[0].body
    with pytest.raises(AttributeError, match=r"Here: run\.answer\(\)"):
        _ = runs[0].usage
    with pytest.raises(AttributeError, match=r"Here: runs\.failures"):
        _ = runs.errors
    odds: Any = lm.Odds(None, {})
    with pytest.raises(AttributeError, match=r"Here: odds\.confusion\('label'\)"):
        _ = odds.accuracy
    assert copy.copy(runs[0]) == runs[0]


def test_what_is_named_in_their_place_is_there() -> None:
    """Every `model.x`, `answer.x` and `chunk.x` of these sentences is an attribute."""
    model = scripted_model(lambda _: "ok")
    runs = lm.map(["a"], model=model, progress=False)
    run = runs[0]
    tables = (
        (METHODS, type(model)),
        (PARTS, Completion),
        (PIECES, Chunk),
        (COUNTS, Usage),
        (RUN, Run),
        (RUNS, Runs),
    )
    for table, kind in tables:
        assert not [name for name in table if name in dir(kind)]
    text = " ".join(
        (
            *METHODS.values(),
            *PARTS.values(),
            *PIECES.values(),
            *COUNTS.values(),
            *RUN.values(),
            *RUNS.values(),
        )
    )
    here = {
        "run": run,
        "runs": runs,
        "usage": run.completion.usage,
        "model": model,
        "answer": model.chat("hi"),
        "chunk": next(iter(model.chat("hi", stream=True))),
    }
    named = set(re.findall(r"\b(model|answer|chunk|usage|runs?)\.(\w+)", text))
    assert len(named) > 10
    for whose, name in named:
        assert name in dir(here[whose]), (whose, name)
