"""Streams that are dropped, models that are closed in the middle, threads, tasks, forks."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import shutil
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import llama_cpp
import numpy as np
import pytest
from scripted_gguf import Scripted, chain
from settled import WATCHDOG, joined

import llama_magic as lm
from llama_magic.engine.native import SamplerChain


def _endless(scripted_model: Any, **options: Any) -> Any:
    """A model that says a, b, a, b, ... until it is stopped."""
    return scripted_model(chain("a", "b", "a"), default="a", options={"ctx": 8192, **options})


def _idle(model: Any) -> bool:
    return not model.backend.call(lambda core: any(lane.busy for lane in core.lanes))


def _until_idle(model: Any) -> None:
    for _ in range(500):  # each look is one turn of the engine, far fewer than tokens asked for
        if _idle(model):
            return
    raise AssertionError("the engine still decodes")


def test_threads_and_samples_get_their_own_answers(scripted: Any, answers: dict[str, str]) -> None:
    """8 threads with 12 calls each, plain, streamed, seeded, n=3: every answer is that of its own
    question.
    """
    questions = list(answers)

    def ask(number: int) -> list[tuple[str, str]]:
        wrong = []
        for i in range(12):
            question = questions[(7 * number + 3 * i) % len(questions)]
            how = (number + i) % 4
            if how == 0:
                texts = [scripted.complete(question, max_tokens=12).text]
            elif how == 1:
                chunks = list(scripted.complete(question, max_tokens=12, stream=True))
                texts = ["".join(c.delta for c in chunks), chunks[-1].text]
            elif how == 2:
                texts = [scripted.complete(question, max_tokens=12, seed=i, temperature=0).text]
            else:
                texts = [r.text for r in scripted.complete(question, max_tokens=12, n=3, temperature=0)]
            wrong += [(question, text) for text in texts if text != answers[question]]
        return wrong

    with ThreadPoolExecutor(8) as pool:
        assert [w for result in pool.map(ask, range(8)) for w in result] == []
    assert _idle(scripted)


def test_tasks_get_their_own_answers(scripted: Any, answers: dict[str, str]) -> None:
    """40 tasks at once, half of them streaming: every answer is that of its own question, and no chunk
    is lost.
    """

    async def ask(i: int, question: str) -> str:
        if i % 2:
            return str(await scripted.acomplete(question, max_tokens=12, temperature=0))
        stream = await scripted.acomplete(question, max_tokens=12, temperature=0, stream=True)
        return "".join([chunk.delta async for chunk in stream])

    async def main() -> list[str]:
        return await asyncio.gather(*(ask(i, q) for i, q in enumerate(answers)))

    assert asyncio.run(main()) == list(answers.values())


def test_dropped_stream_stops(scripted_model: Any) -> None:
    """A stream that nobody holds any more is cancelled; so is one that leaves its `with` block."""
    model = _endless(scripted_model)
    stream = model.complete("a", stream=True, max_tokens=8000)
    next(iter(stream))
    del stream
    gc.collect()
    _until_idle(model)
    with model.complete("a", stream=True, max_tokens=8000) as stream:
        next(stream)
    assert stream.completion.finish_reason == "interrupted"
    assert 1 <= len(stream.completion.token_ids) < 8000
    _until_idle(model)


def test_async_stream_left_or_cancelled_stops(scripted_model: Any) -> None:
    """Leaving an `async for`, or cancelling the task that awaits an answer, stops the decoding."""
    model = _endless(scripted_model)

    async def leave() -> None:
        async for _ in await model.acomplete("a", stream=True, max_tokens=8000):
            break
        gc.collect()
        await asyncio.to_thread(_until_idle, model)

    async def cancel() -> None:
        task = asyncio.create_task(model.acomplete("a", max_tokens=8000))
        while _idle(model):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(leave())
    asyncio.run(cancel())
    _until_idle(model)


def test_cancel_keeps_what_was_written(scripted_model: Any) -> None:
    """`cancel()` ends a stream with the text so far, from the same thread or another one."""
    model = _endless(scripted_model)
    stream = model.complete("a", stream=True, max_tokens=8000)
    seen = [next(stream) for _ in range(20)]
    threading.Thread(target=stream.cancel).start()
    seen += list(stream)
    done = stream.completion
    assert (seen[-1].finish_reason, done.finish_reason) == ("interrupted", "interrupted")
    assert done.text == "".join(c.delta for c in seen) == ("ba" * 4000)[: len(done.text)]
    assert done.usage.completion_tokens == len(done.token_ids) == len(done.text)


def test_close_while_threads_generate(scripted_model: Any) -> None:
    """Closing a model ends every running and waiting call: an interrupted answer or ModelClosedError,
    no hang.
    """
    for seeds in ([None] * 24, [1] * 24):
        model = _endless(scripted_model)
        started = threading.Barrier(25)

        def ask(seed: int | None, model: Any = model, started: Any = started) -> str:
            started.wait()
            try:
                return str(model.complete("a", max_tokens=8000, seed=seed).finish_reason)
            except lm.ModelClosedError:
                return "closed"

        with ThreadPoolExecutor(24) as pool:
            futures = [pool.submit(ask, seed) for seed in seeds]
            started.wait()
            model.close()
            assert {f.result(timeout=600) for f in futures} <= {"interrupted", "closed"}


def test_call_that_comes_with_the_close_is_answered(scripted_model: Any) -> None:
    """A request that the engine has not looked at when it closes is ended with the same error."""
    model = _endless(scripted_model)
    hold, entered = threading.Event(), threading.Event()
    blocker = threading.Thread(
        target=lambda: model.backend.call(lambda core: (entered.set(), hold.wait(WATCHDOG)))
    )
    blocker.start()
    entered.wait()
    stream = model.complete("a", stream=True)  # lies in the inbox
    closer = threading.Thread(target=model.close)
    closer.start()
    while not model.backend.closed:
        pass
    hold.set()
    with pytest.raises(lm.ModelClosedError):
        list(stream)
    joined(closer, blocker)


_DRY = lm.Sampling(dry_multiplier=0.8)


def _walk(model: Any) -> None:
    chain = SamplerChain(model.backend.weights, lm.Sampling(samplers=("top_k", "infill")), 1)
    with contextlib.suppress(lm.ModelClosedError):  # at the stage after the one that is waited for
        list(chain.walk(np.zeros(model.backend.tokenizer.n_tokens, np.float32)))
    chain.close()


@pytest.mark.parametrize(
    ("function", "use"),
    [
        ("llama_tokenize", lambda model: model.tokenize("abc")),
        ("llama_detokenize", lambda model: model.detokenize([5, 6])),
        ("llama_token_to_piece", lambda model: model.backend.tokenizer.piece(7)),
        ("llama_vocab_get_text", lambda model: model.backend.tokenizer.text(7)),
        ("llama_sampler_init_dry", lambda model: SamplerChain(model.backend.weights, _DRY, 1).close()),
        ("llama_sampler_apply", _walk),
    ],
)
def test_weights_are_freed_after_short_calls_that_are_in_them(
    scripted: Any, monkeypatch: pytest.MonkeyPatch, function: str, use: Any
) -> None:
    """While another thread is in the vocabulary `close()` waits: llama.cpp would read freed memory."""
    inside, go_on = threading.Event(), threading.Event()
    real = getattr(llama_cpp, function)

    def slowly(*given: Any) -> Any:
        if threading.current_thread() is user:  # not one that computes for another model
            inside.set()
            go_on.wait(WATCHDOG)
        return real(*given)

    user = threading.Thread(target=use, args=(scripted,))
    monkeypatch.setattr(llama_cpp, function, slowly)
    user.start()
    assert inside.wait(WATCHDOG)
    closer = threading.Thread(target=scripted.close)
    closer.start()
    closer.join(0.3)
    freed = not closer.is_alive()
    go_on.set()
    joined(user, closer)
    assert not freed


def test_every_use_of_a_closed_model_is_one_error(scripted: Any) -> None:
    """After `close()`, which may be called twice, every method raises ModelClosedError."""
    constraint = scripted.constraint({"enum": ["a"]})
    scripted.close()
    scripted.close()
    uses = [
        lambda: scripted.complete("a"),
        lambda: scripted.complete("a", stream=True),
        lambda: scripted.chat([{"role": "user", "content": "a"}]),
        lambda: scripted.tokenize("a"),
        lambda: scripted.detokenize([1]),
        lambda: scripted.count_tokens("a"),
        lambda: scripted.count_tokens([{"role": "user", "content": "a"}]),
        lambda: scripted.embed("a"),
        lambda: scripted.structured("a", {"enum": ["a"]}),
        lambda: scripted.constraint({"enum": ["a"]}),
        constraint.start,
        lambda: scripted.prompt_for([{"role": "user", "content": "a"}]),
        lambda: asyncio.run(scripted.acomplete("a")),
    ]
    for use in uses:
        with pytest.raises(lm.ModelClosedError, match="unloaded"):
            use()
    assert "closed" in repr(scripted)


def test_completion_and_stream_outlive_the_model(scripted: Any, answers: dict[str, str]) -> None:
    """Answers are plain data: they can be read, also from their stream, after the model is closed."""
    question, answer = next(iter(answers.items()))
    stream = scripted.complete(question, stream=True, max_tokens=12, logprobs=2)
    done = scripted.complete(question, max_tokens=12)
    while stream.completion.finish_reason == "interrupted":  # as long as it is being written
        os.sched_yield()
    scripted.close()
    assert "".join(c.delta for c in stream) == done.text == answer
    assert stream.completion.logprobs[0].text == answer[:3]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_child_is_told_and_ends(scripted: Any, answers: dict[str, str]) -> None:
    """In a forked child a call is a BackendError that names the cure, and the child can end; the
    parent goes on.
    """
    question, answer = next(iter(answers.items()))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            scripted.complete(question)
        except lm.LlamaMagicError as error:
            scripted.close()
            code = 42 if "spawn" in str(error) else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
    assert scripted.complete(question, max_tokens=12).text == answer


def _written_in_child(scripted: Any, way: str) -> int:
    """Read an answer in a forked child that was under way in the parent; 42 if it was told why it cannot."""
    question = "w" * 20
    limits: dict[str, Any] = {"max_tokens": 400, "ignore_eos": True}
    asked = [scripted.complete(question, stream=True, n=1 + (way == "samples"), **limits)]
    if way == "structured":
        asked = [scripted.structured(question, list[int], stream=True, max_tokens=400)]
    elif way == "timeout":
        asked = [scripted.complete(question, stream=True, timeout=1000, **limits)]
    elif way == "several":
        asked += [scripted.complete(question, stream=True, seed=seed, **limits) for seed in (1, 2)]
    begun = iter(asked[0])
    next(begun)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        told = 0
        try:
            for stream in asked:
                try:
                    if way == "run":
                        stream.run()
                    for _ in stream:
                        pass
                except lm.BackendError as error:
                    told += "forked while" in str(error)
        finally:
            os._exit(42 if told == len(asked) else 2)
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    for stream in asked:
        stream.cancel()
    return code


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("way", ["stream", "run", "samples", "structured", "timeout", "several"])
def test_forked_child_is_told_of_answers_under_way(scripted: Any, way: str) -> None:
    """An answer that was being written when the process forked ends in the child with a BackendError
    (it waited there for ever), and is written on in the parent.
    """
    assert _written_in_child(scripted, way) == 42


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_child_loads_a_model_of_its_own(
    scripted: Any, scripted_file: Scripted, answers: dict[str, str]
) -> None:
    """The same load in a forked child gives another model, and its answer; the parent's stays as it is."""
    question, answer = next(iter(answers.items()))
    scripted.complete(question, max_tokens=12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        code = 1
        try:
            scripted.close()
            own = lm.load(scripted_file.path, ctx=1024, threads=1)
            right = own is not scripted and own.complete(question, max_tokens=12, seed=1).text == answer
            own.close()
            code = 42 if right and own.closed else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 42
    assert lm.load(scripted_file.path, ctx=1024, threads=1) is scripted
    assert scripted.complete(question, max_tokens=12).text == answer


_EXIT = """
import sys, os
import llama_magic as lm
model = lm.load(sys.argv[1], ctx=512, threads=1)
class Held:
    def __init__(self): self.me, self.model = self, model
    def __del__(self): self.model.close(); print("closed", sys.is_finalizing(), flush=True)
held = Held()
stream = model.complete("a", stream=True, max_tokens=400)
next(stream)
child = os.fork() if len(sys.argv) > 2 else 0
if child:
    os.waitpid(child, 0)
    print("parent", model.complete("a", max_tokens=3).text)
print("end", flush=True)
"""


@pytest.mark.parametrize("fork", [[], ["fork"]] if hasattr(os, "fork") else [[]])
def test_process_ends_quietly_with_a_model_in_use(scripted_file: Scripted, fork: list[str]) -> None:
    """A process that ends while a model generates, also in a forked child, says nothing and returns 0.

    A finalizer that closes the model when the interpreter is taken down, where no thread runs any more,
    returns (it waited for ever).
    """
    command = [sys.executable, "-W", "ignore", "-c", _EXIT, str(scripted_file.path), *fork]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("end") == done.stdout.count("closed True") == 1 + len(fork)


def test_same_file_and_options_are_one_object(
    scripted_file: Scripted, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second load is the same object and reads no header again; another window shares the weights;
    after the last close they are freed, and a changed file is read anew.
    """
    from llama_magic.loading.opening import gguf
    from llama_magic.loading.weights import in_memory

    read: list[Any] = []
    inspect = gguf.inspect
    monkeypatch.setattr(
        gguf, "inspect", lambda *given, **parts: read.append(given) or inspect(*given, **parts)
    )

    path = tmp_path / "own.gguf"
    shutil.copy(scripted_file.path, path)
    one = lm.load(path, ctx=1024, threads=1)
    same = lm.load(str(path), ctx=1000, threads=1)
    other = lm.load(path, ctx=512, threads=1)
    assert same is one or same.window == one.window
    assert lm.load(path, ctx=1024, threads=1) is one
    assert other is not one
    assert len(read) == 1
    assert other.backend.weights is one.backend.weights
    weights = one.backend.weights
    assert weights in in_memory()
    one.close()
    assert other.complete("a", max_tokens=2).finish_reason == "stop"
    other.close()
    same.close()
    with pytest.raises(lm.ModelClosedError):
        _ = weights.pointer
    assert weights not in in_memory()
    fresh = lm.load(path, ctx=1024, threads=1)
    assert fresh is not one
    os.utime(path, (1, 1))
    changed = lm.load(path, ctx=1024, threads=1)
    assert changed is not fresh
    assert len(read) == 3
    changed.close()
    fresh.close()
