"""How a constrained answer ends: asked again, cut by a stop text, forced to its end."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from pydantic import AfterValidator
from scripted_gguf import EOS, chain

import llama_magic as lm
from llama_magic.display.live.terminal import figures
from llama_magic.engine.steps import StepStore
from llama_magic.session.history import HistoryEntry
from llama_magic.structured.mask.matcher import GrammarMatcher


def test_after_retries_the_error_says_how_often_it_asked(scripted_model: Any) -> None:
    """Once, whether the answer was streamed, awaited or just asked for; a first answer says nothing of it."""
    model = scripted_model(chain("]", "7", EOS), options={"ctx": 2048})
    never = Annotated[int, AfterValidator(lambda value: value // 0)]
    ways = (model.structured, _streamed(model), lambda *a, **k: asyncio.run(model.astructured(*a, **k)))
    for call in ways:
        with pytest.raises(lm.StructuredOutputError, match=r"It was asked 3 times\.") as caught:
            call("q", never, retries=2, max_tokens=20, temperature=0)
        assert caught.value.message.count("asked") == 1
        with pytest.raises(lm.StructuredOutputError) as caught:
            call("q", never, max_tokens=20, temperature=0)
        assert "asked" not in caught.value.message


def _streamed(model: Any) -> Callable[..., Any]:
    def run(*args: Any, **options: Any) -> Any:
        stream = model.structured(*args, stream=True, **options)
        assert [chunk for chunk in stream if chunk.delta]
        return stream.completion

    return run


@pytest.mark.parametrize("stop", [",", '"b', "x"])
def test_a_stop_text_that_cuts_a_structured_answer_is_named(scripted_model: Any, stop: str) -> None:
    """It is not asked for again, for that would end at the same place; one that cuts nothing is no error."""
    model = scripted_model(chain("x", "y", EOS), options={"ctx": 512})
    properties = {name: {"enum": ["x", "y"]} for name in "ab"}
    schema = {
        "type": "object",
        "properties": properties,
        "required": ["a", "b"],
        "additionalProperties": False,
    }
    with pytest.raises(lm.StructuredOutputError, match=r"The stop text .* ended the answer after") as caught:
        model.structured("q", schema, stop=["never", stop], retries=3, max_tokens=60, seed=1)
    assert repr(stop)[1:-1] in caught.value.message.replace("\\", "")
    assert "Leave out stop=" in str(caught.value)
    assert caught.value.completion.stop == stop
    assert model.structured("q", schema, stop="never", max_tokens=60, seed=1).parsed["a"] in "xy"


def test_a_chat_that_ignores_its_end_goes_on(short: Any) -> None:
    """With `ignore_eos` the token that ends a turn ends no answer and is not shown; a stop text does."""
    end = 2  # <|im_end|>: the end of the sequence, and a stop of the template
    always = {"max_tokens": 5, "seed": 1, "logit_bias": {end: 100.0}}
    assert (short.chat("Hi", **always).finish_reason, short.chat("Hi", **always).token_ids) == ("stop", [])
    on = short.chat("Hi", ignore_eos=True, **always)
    assert (on.finish_reason, on.token_ids, on.text) == ("length", [end] * 5, "")
    asked = short.chat("Hi", ignore_eos=True, stop="<|im_end|>", **always)
    assert (asked.finish_reason, asked.stop) == ("stop", "<|im_end|>")


@pytest.mark.parametrize("place", ["put", "put_mask", "accept"])
@pytest.mark.parametrize("good", [0, 2])
def test_memory_that_runs_out_is_named_and_costs_one_answer(
    scripted: Any, answers: dict[str, str], monkeypatch: pytest.MonkeyPatch, place: str, good: int
) -> None:
    """Where memory runs out the answer ends in the one tree with the text so far, and the model works on."""
    question, answer = next(iter(answers.items()))
    grammar = "root ::= [a-z]{9}" if place != "put" else None
    real = getattr(StepStore if place != "accept" else GrammarMatcher, place)
    calls = itertools.count()

    def failing(*args: Any, **options: Any) -> Any:
        if next(calls) >= good:
            raise MemoryError("64 MiB")
        return real(*args, **options)

    monkeypatch.setattr(StepStore if place != "accept" else GrammarMatcher, place, failing)
    with pytest.raises(lm.BackendError, match=r"memory of this process ran out.*64 MiB") as caught:
        scripted.complete(question, grammar=grammar, max_tokens=12, seed=1)
    monkeypatch.undo()
    assert isinstance(caught.value.__cause__, MemoryError)
    assert good == 0 or caught.value.completion.text
    assert scripted.complete(question, max_tokens=12).text == answer


def test_speed_is_that_of_drawn_tokens(scripted_model: Any) -> None:
    """A text of one choice is forced but for its first token: no speed is told, anywhere."""
    model = scripted_model(chain("x", "y", EOS), options={"ctx": 512})
    answer = model.complete("q", choices=["xyxyxyxy"], max_tokens=30)
    assert answer.usage.completion_tokens - answer.usage.forced_tokens == answer.usage.drawn_tokens == 1
    assert answer.timings.tokens_per_second == 0
    assert "tok/s" not in figures(answer)
    assert HistoryEntry(answer, 1).tokens_per_second is None
    free = model.complete("q", max_tokens=30, ignore_eos=True)
    assert free.timings.tokens_per_second > 0


def test_what_chance_has_no_part_in_draws_no_seed(short: Any) -> None:
    """At temperature 0 the seed of an unseeded call is 0, so that equal runs are saved equal."""
    cold = [short.complete("Once", temperature=0, max_tokens=3, reuse=False) for _ in range(2)]
    assert cold[0].receipt == cold[1].receipt
    assert (cold[0].seed, cold[0].seeded) == (0, False)
    assert len({short.complete("Once", max_tokens=1).seed for _ in range(3)}) == 3
    several = short.complete("Once", n=3, temperature=0, max_tokens=2)
    assert len({answer.text for answer in several}) == 1
