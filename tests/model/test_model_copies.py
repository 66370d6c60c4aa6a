"""What happens to every object that a user holds when it is copied, pickled, compared, printed."""

from __future__ import annotations

import asyncio
import copy
import pickle
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import llama_magic as lm
from llama_magic.errors import LlamaMagicError
from llama_magic.record.record import Record
from llama_magic.session.chat import Chat
from llama_magic.session.turns import Turn

# fmt: off
HELD = [
    "model", "stream", "async_stream", "completion", "samples", "chunk", "constraint", "info", "kv",
    "stats", "formatter", "trace", "read", "sampling", "receipt", "budget", "logprobs", "tree",
    "alternatives", "runs", "run", "odds", "chat", "server", "record", "strip", "estimate",
]
# fmt: on
# They run, or hold the model: what is said in place of a copy. All others are data.
RUNS = {
    "model": "load the file again",
    "stream": r"stream\.completion",
    "async_stream": r"stream\.completion",
    "constraint": "compile it there",
    "server": r"llama_magic\.serve",
}
WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "pickle": lambda held: pickle.loads(pickle.dumps(held)),
}


@pytest.fixture(scope="module")
def held(tmp_path_factory: pytest.TempPathFactory, path_of: Any) -> Iterator[dict[str, Any]]:
    """One object of each kind, all of one model; the streams are in the middle of an answer."""
    with lm.load(path_of("short"), ctx=512, threads=1) as model:
        hello = [{"role": "user", "content": "hi"}]
        answer = model.complete("One two", max_tokens=2, logprobs=2)
        record = Record(tmp_path_factory.mktemp("record") / "answers.sqlite")
        record.add(answer)
        runs = lm.map(["a"], "say {{ text }}", model=model, max_tokens=1)
        server = lm.serve(model, port=0)
        stream = model.chat(hello, stream=True, max_tokens=400)
        made = {
            "model": model,
            "stream": stream,
            "async_stream": asyncio.run(_begun(model)),
            "completion": answer,
            "samples": model.complete("a", max_tokens=1, n=2),
            "chunk": next(stream),
            "constraint": model.constraint(int),
            "info": model.info,
            "kv": model.kv,
            "stats": model.stats,
            "formatter": model.formatter,
            "trace": answer.xray(0),
            "read": model.read("Hello world"),
            "sampling": model.sampling,
            "receipt": answer.receipt,
            "budget": answer.budget,
            "logprobs": answer.logprobs,
            "tree": lm.tree(answer),
            "alternatives": answer.alternatives(0),
            "runs": runs,
            "run": runs[0],
            "odds": lm.decide(["a"], "is {{ text }}", options=["y", "n"], model=model),
            "chat": Chat("x", [Turn(({"role": "user", "content": "a"},))]),
            "server": server,
            "record": record,
            "strip": model.token_strip("some text"),
            "estimate": lm.load(path_of("short"), dry_run=True),
        }
        yield made
        stream.cancel()
        server.stop()


async def _begun(model: Any) -> Any:
    return await model.achat([{"role": "user", "content": "hi"}], stream=True, max_tokens=3)


def test_each_is_there(held: dict[str, Any]) -> None:
    """The list of objects is that of the fixture."""
    assert sorted(held) == sorted(HELD)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", HELD)
def test_each_is_copied_or_says_what_to_do(held: dict[str, Any], name: str, way: str) -> None:
    """Data comes out equal in what it shows; what runs says so in the one tree, and goes on."""
    thing = held[name]
    said = RUNS.get(name)
    if name == "constraint" and way != "pickle":
        assert WAYS[way](thing) is thing
    elif said is None:
        made = WAYS[way](thing)
        assert type(made) is type(thing)
        if name != "record":
            assert str(made) == str(thing)
    else:
        with pytest.raises(LlamaMagicError, match=f"(?s)cannot be copied or pickled.*{said}") as caught:
            WAYS[way](thing)
        assert isinstance(caught.value, TypeError)


@pytest.mark.parametrize("name", HELD)
def test_each_can_be_compared_and_printed(held: dict[str, Any], name: str) -> None:
    """Equal to itself and to nothing else, true or false, with a text; a length, or the error of Python."""
    thing = held[name]
    assert thing == thing  # noqa: PLR0124 - that is the question
    assert thing not in (1, "a", None)
    assert bool(thing) in (True, False)
    assert repr(thing)
    assert str(thing)
    for function in (len, hash):
        try:
            number = function(thing)
        except TypeError as error:
            number = len(re.findall(r"unhashable|has no len\(\)", str(error)))
        assert number or function is len


def test_copies_of_what_is_shown_work_by_themselves(held: dict[str, Any], tmp_path: Path) -> None:
    """A trace says that its engine is gone, a copy of a record reads the file, a template writes."""
    trace = pickle.loads(pickle.dumps(held["trace"]))
    assert trace.drawn == held["trace"].drawn
    with pytest.raises(LlamaMagicError):
        trace.rerun(top_k=1)
    record = copy.deepcopy(held["record"])
    assert [answer.text for answer in record] == [held["completion"].text]
    formatter = pickle.loads(pickle.dumps(held["formatter"]))
    hello = [{"role": "user", "content": "hi"}]
    assert formatter.messages_to_prompt(hello) == held["formatter"].messages_to_prompt(hello)
    info = pickle.loads(pickle.dumps(held["info"]))
    assert dict(info.metadata).keys() == dict(held["info"].metadata).keys()
    assert info.special_tokens == held["info"].special_tokens
    stats = copy.deepcopy(held["stats"])
    stats.reset()
    assert held["stats"].requests > stats.requests == 0


def _errors(kind: type[BaseException]) -> Iterator[type[BaseException]]:
    yield kind
    for below in kind.__subclasses__():
        yield from _errors(below)


@pytest.mark.parametrize(
    "kind", [*_errors(LlamaMagicError), lm.GenerationInterrupted], ids=lambda kind: kind.__name__
)
def test_every_error_can_be_sent_to_another_process(kind: Any) -> None:
    """It comes back with message, remedy and all that it carries: a pool hangs on one that does not."""
    more: dict[str, Any] = {"remedy": "Do this."}
    if kind is lm.ContextOverflowError:
        more |= {"prompt_tokens": 5, "max_tokens": 6, "window": 7, "parts": (("prompt", 5),)}
    error = kind(None, "two kept") if kind is lm.GenerationInterrupted else kind("It is so.", **more)
    error.row = 3
    for way in WAYS.values():
        again = way(error)
        assert type(again) is kind
        assert (str(again), again.args, vars(again)) == (str(error), error.args, vars(error))
