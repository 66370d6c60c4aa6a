"""The scripted Backend under the real `Model`: errors, waits and interrupts on demand, and no weights."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import warnings
from typing import Any

import pytest
from pydantic import BaseModel

import llama_magic as lm
from llama_magic.errors import InputTypeError
from llama_magic.request.backend import Capabilities
from llama_magic.session import session
from llama_magic.session.session import Session
from llama_magic.testing import Script, WordTokenizer, scripted_loader, scripted_model


class City(BaseModel):
    name: str
    country: str


LYON = json.dumps({"name": "Lyon", "country": "France"})
ASK = [{"role": "user", "content": "Where?"}]


def test_answers_are_found_by_what_is_asked() -> None:
    """A mapping is asked by the last message, or by the end of a raw prompt; the rest is numbered."""
    model = scripted_model({"Where?": "In Lyon.", "upon a": " time"})
    assert model.chat(ASK).text == "In Lyon."
    assert model.complete("Once upon a").text == " time"
    assert model.complete("nothing known").text == "answer 3"


def test_what_the_script_does_not_know_is_warned_of() -> None:
    """A prompt that was changed under its test is named, with those that the script knows."""
    model = scripted_model({"Tell me about Lyon.": "a city"})
    with pytest.warns(
        UserWarning, match=r"no answer for 'Of Paris\?', so 'answer 1' .*'Tell me about Lyon\.'"
    ):
        assert model.chat([{"role": "user", "content": "Of Paris?"}]).text == "answer 1"
    model = scripted_model(["one"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert model.complete("x").text == "one"
        assert scripted_model().complete("x").text == "answer 1"
    with pytest.warns(UserWarning, match="All were given"):
        model.complete("x")


@pytest.mark.parametrize(
    ("answers", "words"),
    [("hello", "a str; expected a dict"), (3, "a int; expected"), (None, "a NoneType; expected"),
     ({"a": 3}, "answer of a script is a int"), ([b"x"], "answer of a script is a bytes")],
)  # fmt: skip
def test_answers_of_a_wrong_type_are_refused(answers: Any, words: str) -> None:
    """When the model is made, and not as letters; those of a function when it is asked."""
    with pytest.raises(InputTypeError, match=words):
        scripted_model(answers)
    with pytest.raises(InputTypeError, match="is a int"):
        scripted_model(lambda request: 3).complete("x")  # type: ignore[arg-type, return-value]


def test_answers_come_in_order_or_from_a_function() -> None:
    """A list is used up; a function sees the request: prompt, options, constraint."""
    model = scripted_model(["one", "two"])
    assert [model.complete("x").text for _ in range(3)] == ["one", "two", "answer 3"]
    echo = scripted_model(lambda request: f"{request.text} {request.sampling.temperature} {request.seed}")
    assert echo.complete("hi", temperature=0.25, seed=3).text == "hi 0.25 3"


def test_counts_are_words_and_marks() -> None:
    """A token is a word with its blanks or a mark of the template, and budget and usage are exact."""
    model = scripted_model(["three more words"])
    done = model.chat(ASK, max_tokens=9)
    assert done.prompt == "<|im_start|>user\nWhere?<|im_end|>\n<|im_start|>assistant\n"
    pieces = ["<|im_start|>", "user", "\n", "Where?", "<|im_end|>", "\n", "<|im_start|>", "assistant", "\n"]
    assert [model.detokenize([token]) for token in done.prompt_token_ids] == pieces
    assert (done.usage.prompt_tokens, done.usage.completion_tokens) == (9, 3)
    assert sum(part.tokens for part in done.budget.parts) == 9


def test_the_guard_is_real() -> None:
    """A prompt over the window is refused before the backend hears of it."""
    model = scripted_model(window=16)
    with pytest.raises(lm.ContextOverflowError, match="16"):
        model.complete("word " * 30)
    assert model.backend.requests == []


@pytest.mark.parametrize(("stop", "text"), [(None, "one two three"), (" two", "one"), ("tw", "one ")])
def test_stop_texts_and_limits_are_real(stop: str | None, text: str) -> None:
    """Stop texts may straddle tokens; the limit of tokens ends an answer as "length"."""
    model = scripted_model(["one two three"] * 2)
    done = model.complete("x", stop=stop)
    assert (done.text, done.finish_reason) == (text, "stop")
    assert model.complete("x", max_tokens=2).finish_reason == "length"


def test_structured_answers_pass_the_real_mask() -> None:
    """A scripted object is written under the mask; what the schema forbids is an error that says where."""
    model = scripted_model([LYON, LYON, '{"name": 3}'])
    assert model.structured("x", City).parsed == City(name="Lyon", country="France")
    chunks = list(model.structured("x", City, stream=True))
    assert chunks[-1].partial == {"name": "Lyon", "country": "France"}
    with pytest.raises(lm.BackendError, match="constraint forbids"):
        model.structured("x", City)


def test_an_error_keeps_what_was_written() -> None:
    """A backend that fails in the middle raises its error; chunks until then were delivered."""
    model = scripted_model([Script("one two three", at=2, error=lm.BackendError("the wire broke"))])
    stream = model.complete("x", stream=True)
    assert [next(stream).delta, next(stream).delta] == ["one", " two"]
    with pytest.raises(lm.BackendError, match="the wire broke"):
        next(stream)
    assert stream.completion.text == "one two"


def test_ctrl_c_keeps_what_was_written() -> None:
    """A scripted Ctrl-C is GenerationInterrupted with the completion so far."""
    model = scripted_model([Script("one two three", at=2, interrupt=True)])
    with pytest.raises(lm.GenerationInterrupted) as caught:
        model.complete("x")
    assert caught.value.completion.text == "one two"
    assert caught.value.completion.finish_reason == "interrupted"


def test_an_answer_waits_until_it_may_go_on() -> None:
    """While one answer is held another one is given; a held one can be cancelled."""
    gate = threading.Event()
    model = scripted_model({"slow": Script("one two", at=1, hold=gate), "fast": "at once"})
    slow = model.complete("slow", stream=True)
    assert next(slow).delta == "one"
    assert model.complete("fast").text == "at once"
    gate.set()
    assert "".join(chunk.delta for chunk in slow) == " two"
    held = model.complete("slow", stream=True)
    held.cancel()
    assert held.completion.finish_reason in ("interrupted", "stop")


def test_a_prompt_is_half_read_until_the_script_goes_on() -> None:
    """Until `reading` is set, progress stands at half of the prompt and nothing is written."""
    gate = threading.Event()
    model = scripted_model([Script("one two", reading=gate)])
    stream = model.complete("a prompt of six words here", stream=True)
    while (progress := stream.progress()) is None or not progress.done:
        os.sched_yield()
    assert (progress.stage, progress.done, progress.total) == ("prompt", 3, 6)
    assert stream.completion.token_ids == ()
    gate.set()
    assert "".join(chunk.delta for chunk in stream) == "one two"
    progress = stream.progress()
    assert progress is not None
    assert progress.done == progress.total == 6


def test_an_answer_is_stopped_while_its_prompt_is_read() -> None:
    """Cancelling does not wait for `reading`; nothing was written, and the model can be asked again."""
    model = scripted_model([Script("never", reading=threading.Event()), "again"])
    stream = model.complete("a b", stream=True)
    stream.cancel()
    assert (stream.completion.text, stream.completion.finish_reason) == ("", "interrupted")
    assert model.complete("a b").text == "again"


def test_options_are_those_that_the_model_tells() -> None:
    """`options` are copied: what a caller does to them afterwards, or to what the model told, is his own."""
    given: dict[str, Any] = {"threads": 3, "type_k": "q8_0"}
    model = scripted_model(options=given)
    given["threads"] = 9
    model.options["threads"] = 7
    assert model.options == {"threads": 3, "type_k": "q8_0"}
    assert scripted_model().options == {}


@pytest.fixture
def plain_python(monkeypatch: pytest.MonkeyPatch) -> Session:
    """The session of this Python where no IPython shell runs, its loader given back afterwards."""
    import IPython

    monkeypatch.setattr(IPython, "get_ipython", lambda: None)
    found = session.current()
    monkeypatch.setattr(found, "loader", found.loader)
    return found


def test_a_loader_gives_each_source_a_model_of_its_own(plain_python: Session) -> None:
    """The same source is one model until it is closed; each has all the answers, from the first on."""
    loader = scripted_loader(["one", "two"], window=64)
    assert plain_python.loader is loader
    first, second = loader("a.gguf"), loader("b.gguf")
    assert (first.complete("x").text, second.complete("x").text) == ("one", "one")
    assert loader("a.gguf") is first
    assert loader.models == {"a.gguf": first, "b.gguf": second}
    assert (first.name, first.window) == ("a.gguf", 64)
    first.close()
    again = loader("a.gguf")
    assert again is not first
    assert again.complete("x").text == "one"


def test_a_loader_notes_what_was_asked_for(plain_python: Session) -> None:
    """Source and load options; `ctx` is the window, the name is the model's, no source is "scripted"."""
    loader = scripted_loader(window=64)
    model = loader("a.gguf", name="mine", ctx=128, threads=2)
    assert (model.name, model.window, model.options) == ("mine", 128, {"ctx": 128, "threads": 2})
    assert loader().name == "scripted"
    assert loader.calls == [("a.gguf", {"ctx": 128, "threads": 2}), (None, {})]


def test_a_session_loads_from_the_loader(plain_python: Session) -> None:
    """`Session.load` asks it, and the model is the session's current one, until it is unloaded."""
    scripted_loader({"Where?": "In Lyon."})
    model = plain_python.load("a.gguf")
    try:
        assert plain_python.models[plain_python.current_name or ""] is model
        assert model.chat(ASK).text == "In Lyon."
    finally:
        plain_python.unload(plain_python.current_name)
    assert model.closed


def test_samples_have_texts_of_their_own() -> None:
    """`n` samples are written side by side, each with its text, its seed and its end."""
    model = scripted_model([Script(samples=("red", "green and blue"))])
    done = model.complete("x", n=2, seed=5)
    assert [one.text for one in done] == ["red", "green and blue"]
    assert done[0].seed == 5 != done[1].seed


def test_await_is_the_same() -> None:
    """The twins for `await` and `async for` go the same way."""
    model = scripted_model(["one two", "three"])

    async def both() -> tuple[str, list[str]]:
        first = await model.acomplete("x")
        return first.text, [chunk.delta async for chunk in await model.acomplete("x", stream=True)]

    text, deltas = asyncio.run(both())
    assert (text, "".join(deltas)) == ("one two", "three")


def test_what_a_backend_cannot_do_is_refused_by_name() -> None:
    """Capabilities are looked at before anything is sent."""
    able = Capabilities(seeds=False, constraints=frozenset(), logprobs=None, samples=1)
    model = scripted_model(capabilities=able)
    cases: list[tuple[dict[str, Any], str]] = [
        ({"seed": 1}, "a seed"),
        ({"regex": "a"}, "'regex'"),
        ({"logprobs": 2}, "logprobs=2"),
        ({"n": 2}, "n=2"),
    ]
    for options, named in cases:
        with pytest.raises(lm.OptionError, match=named):
            model.complete("x", **options)
    assert model.backend.requests == []


@pytest.mark.parametrize("ask", ["read", "xray", "embed", "kv", "kv_clear"])
def test_what_needs_an_engine_says_so(ask: str) -> None:
    """The microscope asks `backend.local`, and says in one sentence why not where there is none."""
    model = scripted_model()
    with pytest.raises(lm.BackendError, match="needs an engine"):
        getattr(model, ask) if ask == "kv" else getattr(model, ask)(*([] if ask == "kv_clear" else ["a"]))


def test_a_closed_model_says_so() -> None:
    """Closing ends what runs; later calls are ModelClosedError."""
    gate = threading.Event()
    model = scripted_model([Script("one", hold=gate)])
    stream = model.complete("x", stream=True)
    model.close()
    with pytest.raises(lm.ModelClosedError):
        list(stream)
    with pytest.raises(lm.ModelClosedError):
        model.complete("x")


def test_tokens_of_messages_are_never_control() -> None:
    """A mark inside a message stays text; the template's own marks are control tokens."""
    model = scripted_model(["ok"])
    ids = model.chat([{"role": "user", "content": "a <|im_end|> b"}]).prompt_token_ids
    marks = [token for token in ids if token in model.backend.tokenizer.control_ids]
    assert len(marks) == 3  # two turns opened, one closed


def test_the_tokenizer_round_trips() -> None:
    """Any text comes back from its tokens, also when the words run out."""
    tokenizer = WordTokenizer(("<end>",), n_tokens=262)
    text = "a few words, 漢字 🦙, more\n\n than ids"
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert max(tokenizer.encode(text)) < 262


def test_no_weights_and_no_llama_cpp_are_needed() -> None:
    """Importing and asking a scripted model imports neither llama.cpp nor a widget library."""
    code = (
        "import sys; from llama_magic.testing import scripted_model\n"
        "assert scripted_model(['yes']).complete('x').text == 'yes'\n"
        "print(sorted({'llama_cpp', 'ipywidgets', 'anywidget'} & sys.modules.keys()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_another_source_of_tokens_is_a_line_in_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `OPENERS` names makes the model of a source that begins so; `load` hands it the keywords.

    What only a file has is refused, not dropped.
    """
    from llama_magic.loading.load import OPENERS

    monkeypatch.setitem(OPENERS, "script", f"{__name__}:opened")
    model = lm.load("script:known in advance", name="mine")
    assert (model.name, model.complete("x").text) == ("mine", "known in advance")
    for option in ({"dry_run": True}, {"sha256": "0" * 64}, {"revision": "main"}, {"offline": True}):
        with pytest.raises(lm.OptionError, match=f"{next(iter(option))} is for model files"):
            lm.load("script:x", **option)  # type: ignore[arg-type]


def opened(source: str, *, name: str | None, **_options: Any) -> Any:
    """Make a model that answers what its source says."""
    return scripted_model([source.partition(":")[2]], name=name or "opened")
