"""An explicit seed means the same tokens: again, elsewhere, after and beside anything else."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

Answer = tuple[str, dict[str, Any], tuple[int, ...]]  # prompt, options, tokens
WORDS = ["river", "stone", "winter", "letter", "garden", "engine", "captain", "silver", "window", "market"]
SETTINGS: list[dict[str, Any]] = [
    {"temperature": 0, "seed": 1},
    {"temperature": 1.2, "seed": 7, "repeat_penalty": 1.1},
]


def prompt_of(model: Any, tokens: int, start: int = 0) -> str:
    """Return a text of exactly `tokens` tokens; prompts of one `start` extend each other."""
    draw = random.Random(start)
    words = [draw.choice(WORDS) for _ in range(tokens)]
    low, high = 1, tokens
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (
            (middle, high) if model.count_tokens(" ".join(words[:middle])) <= tokens else (low, middle - 1)
        )
    text = " ".join(words[:low])
    while model.count_tokens(text) < tokens:
        text += "\n" if text.endswith(".") else "."
    assert model.count_tokens(text) == tokens
    return text


def _cut(model: Any) -> int:
    """Return of how many tokens a multiple is reused: one where seeded requests run together."""
    return model.backend.call(lambda core: core.lane(exact=True).kv.cut or 1)  # type: ignore[no-any-return]


def cold(model: Any, prompt: str, **options: Any) -> tuple[int, ...]:
    """Return the answer's tokens of an engine that remembers nothing."""
    model.backend.call(lambda core: [lane.forget() for lane in core.lanes])
    return model.complete(prompt, reuse=False, **options).token_ids  # type: ignore[no-any-return]


# Weights as they are in the file, and repacked for the CPU: each on one model here, both on both in the soak.
PROFILES = {"short": "quality", "windowed": "balanced"}


@pytest.fixture(scope="module")
def model(either_name: str, loaded: Callable[..., Any]) -> Any:
    """Two kinds in turn: full attention, seeded calls together; sliding windows, one call at a time."""
    return loaded(either_name, profile=PROFILES[either_name])


def test_lengths_around_cuts(model: Any) -> None:
    """Prompts of 63 to 129 tokens that extend each other, longest first and last: as from a cold engine."""
    lengths = [63, 64, 65, 129]
    prompts = {n: prompt_of(model, n) for n in lengths}
    options = {"max_tokens": 4, **SETTINGS[0]}
    expected = {n: cold(model, prompts[n], **options) for n in lengths}
    model.backend.call(lambda core: [lane.forget() for lane in core.lanes])
    for step, n in enumerate([129, *lengths, *reversed(lengths)]):
        done = model.complete(prompts[n], **options)
        assert done.token_ids == expected[n], n
        assert done.usage.cached_tokens == ((n - 1) // _cut(model) * _cut(model) if step else 0)


def test_alternating_chats_over_the_sliding_window(model: Any) -> None:
    """Two conversations take turns, parked and restored: where there is a window, one is longer than it."""
    options = {"max_tokens": 5, **SETTINGS[0]}
    lengths = (38 + (model.info.sliding_window or 42), 66)
    turns = [[prompt_of(model, n, n) + " and then" * more for more in (0, 10)] for n in lengths]
    expected = [[cold(model, text, **options) for text in chat] for chat in (turns[0][1:], turns[1])]
    model.backend.call(lambda core: [lane.forget() for lane in core.lanes])
    expected[0].insert(0, model.complete(turns[0][0], **options).token_ids)  # nothing was read yet
    for step, turn in enumerate((0, 1, 0)):
        for chat in (0, 1) if step else (1,):
            done = model.complete(turns[chat][turn], **options)
            assert done.token_ids == expected[chat][turn], (chat, turn)
            reused = 0 if step == 0 else lengths[chat] // 64 * 64
            # Together all that is common is reused, were it the BOS alone.
            assert done.usage.cached_tokens == reused or _cut(model) == 1
            assert done.usage.cached_tokens >= reused


def test_beside_seven_others_and_after_cancels(each_lane: Any) -> None:
    """The answer is the same alone, streamed, beside seven other calls, and after cancelled calls."""
    options = {"max_tokens": 10, **SETTINGS[1]}
    prompt = prompt_of(each_lane, 100, 3)
    expected = cold(each_lane, prompt, **options)
    assert each_lane.complete(prompt, **options).token_ids == expected
    assert (
        tuple(t for c in each_lane.complete(prompt, stream=True, **options) for t in c.token_ids) == expected
    )
    for tokens in (1, 5):  # one cancelled while its prompt is read, one while it writes
        stream = each_lane.complete(prompt + " and more" * 50, stream=True, max_tokens=200, seed=7)
        seen = 0 if tokens == 1 else sum(1 for _, _ in zip(range(tokens), stream, strict=False))
        stream.cancel()
        assert stream.completion.finish_reason == "interrupted"
        assert len(stream.completion.token_ids) >= (seen > 0)
        assert each_lane.complete(prompt, **options).token_ids == expected
    stop = threading.Event()

    def other(number: int) -> None:
        while not stop.is_set():
            seed = number if number < 2 else None
            each_lane.complete(f"{number} {WORDS[number]} is", max_tokens=4, seed=seed)

    with ThreadPoolExecutor(7) as pool:
        others = [pool.submit(other, i) for i in range(7)]
        try:
            assert each_lane.complete(prompt, **options).token_ids == expected
        finally:
            stop.set()
        for future in others:
            future.result()


def test_eight_seeded_calls_at_once(each_lane: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is what it is alone: short and long, with samples, with a schema, reusing and not, in any order.

    Where the model's rows are alike they are decoded together, and the ten take far fewer batches.
    """
    schema = {
        "type": "object",
        "properties": {"name": {"type": "string", "maxLength": 4}, "ok": {"type": "boolean"}},
        "additionalProperties": False,
    }
    long = prompt_of(each_lane, 130, 8)
    calls: list[tuple[Callable[..., Any], str, dict[str, Any]]] = [
        (each_lane.complete, prompt_of(each_lane, 20 + 20 * k, k), {"seed": k, "temperature": k % 3 / 2})
        for k in range(4)
    ]
    calls += [
        (each_lane.complete, long, {"seed": 5}),
        (each_lane.complete, long + " and then", {"seed": 6, "repeat_penalty": 1.2}),
        (each_lane.complete, prompt_of(each_lane, 70, 1), {"seed": 7, "n": 3}),
        (each_lane.structured, "A person:", {"seed": 8, "schema": schema, "max_tokens": 24}),
    ]

    def ask(call: tuple[Callable[..., Any], str, dict[str, Any]]) -> list[tuple[int, ...]]:
        function, prompt, options = call
        done = function(prompt, **{"max_tokens": 6, **options})
        return [one.token_ids for one in (done if "n" in options else [getattr(done, "completion", done)])]

    batches: list[int] = []

    def count(core: Any) -> bool:
        lane = core.lane(exact=True)
        decode = lane.context.decode
        monkeypatch.setattr(lane.context, "decode", lambda *a: batches.append(len(a[0])) or decode(*a))
        return bool(lane.together)

    together = each_lane.backend.call(count)
    alone = []
    for call in calls:
        each_lane.backend.call(lambda core: [lane.forget() for lane in core.lanes])
        alone.append(ask(call))
    one_by_one = len(batches)
    order = random.Random(2).sample(range(8), 8)
    with ThreadPoolExecutor(8) as pool:
        done = dict(zip(order, pool.map(ask, [calls[k] for k in order]), strict=True))
    assert [done[k] for k in range(8)] == alone
    if together:
        assert len(batches) - one_by_one < one_by_one / 2


def test_samples_of_one_call_are_one_unit(each_lane: Any) -> None:
    """n=8 gives the same eight answers on every run, each with the seed it reports; they differ from
    each other.
    """
    prompt = prompt_of(each_lane, 70, 4)
    options = {"n": 8, "max_tokens": 6, "seed": 5, "temperature": 1.0}
    first = each_lane.complete(prompt, **options)
    each_lane.complete(prompt_of(each_lane, 90, 5), n=3, max_tokens=5, seed=9)
    again = each_lane.complete(prompt, **options)
    assert [r.token_ids for r in again] == [r.token_ids for r in first]
    assert len({r.token_ids for r in first}) > 1
    assert len({r.seed for r in first}) == 8
    assert first[0].seed == 5


_CHILD = """
import json, sys
import llama_magic as lm
path, load, calls = json.loads(sys.argv[1])
model = lm.load(path, **load)
print(json.dumps([model.complete(p, **o).token_ids for p, o in calls]))
"""


def test_in_a_new_process(loaded: Callable[..., Any], path_of: Callable[[str], Any]) -> None:
    """Another process gives the same tokens, greedy and sampled, whatever came before here."""
    model = loaded("short")
    calls = [(prompt_of(model, 140, i), {"max_tokens": 12, **s}) for i, s in enumerate(SETTINGS)]
    arguments = json.dumps([str(path_of("short")), {"ctx": 2048, "threads": 1}, calls])
    done = subprocess.run(
        [sys.executable, "-c", _CHILD, arguments], capture_output=True, text=True, check=True, timeout=300
    )
    assert [tuple(ids) for ids in json.loads(done.stdout)] == [
        model.complete(prompt, **options).token_ids for prompt, options in calls
    ]


def schedule(model: Any, draw: random.Random, steps: int, lengths: Sequence[int]) -> Iterator[Answer]:
    """Make random calls: seeded, unseeded, n > 1, cancelled, several at once. Yield those with a seed."""
    prompts = [prompt_of(model, draw.choice(lengths), start) for start in range(5)]
    prompts += [p + draw.choice([" then", " of the sea", "\n"]) * draw.randint(1, 20) for p in prompts]

    def one(kind: float, prompt: str, seed: int) -> Answer | None:
        options: dict[str, Any] = {"max_tokens": 4 + seed % 9, "temperature": 0.9 * (seed % 2)}
        if kind < 0.45:
            options["seed"] = seed
            return prompt, options, model.complete(prompt, **options).token_ids
        if kind < 0.55:
            model.complete(prompt, n=2 + seed % 3, seed=seed, **options)
        elif kind < 0.8:
            model.complete(prompt, **options)
        else:
            stream = model.complete(prompt, stream=True, **{**options, "max_tokens": 100}, seed=seed)
            for _ in zip(range(seed % 4), stream, strict=False):
                pass
            stream.cancel()
        return None

    with ThreadPoolExecutor(4) as pool:
        for _ in range(steps):
            calls = [
                (draw.random(), draw.choice(prompts), draw.randint(0, 9))
                for _ in range(draw.choice([1, 1, 4]))
            ]
            for done in [f.result() for f in [pool.submit(one, *call) for call in calls]]:
                if done is not None:
                    yield done


def test_random_schedules(model: Any) -> None:
    """After a random schedule of calls and cancellations every seeded answer is that of a cold engine."""
    answers = list(schedule(model, random.Random(10), 4, [20, 63, 64, 130]))
    assert len(answers) >= 4
    for prompt, options, tokens in answers:
        assert cold(model, prompt, **options) == tokens
