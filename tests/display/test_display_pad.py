"""The prompt pad counts, runs, stops and becomes a cell."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from fake_stream import FakeStream

from llama_magic.display.boards.pad import Pad as pad  # noqa: N813
from llama_magic.errors import ModelClosedError, OptionError


class Model:
    """A model whose tokens are words."""

    name = "fake"
    window = 40

    def __init__(self, stream: Any = None) -> None:
        self.stream, self.asked = stream, {}

    def count_tokens(self, messages: Any) -> int:
        return sum(len(message["content"].split()) for message in messages)

    def chat(self, messages: Any, **options: Any) -> Any:
        self.asked = {"messages": messages, **options}
        return self.stream


def settle() -> None:
    """Wait for the pad's threads."""
    for thread in threading.enumerate():
        if thread.name == "llama_magic-pad" or isinstance(thread, threading.Timer):
            thread.join(10)


def test_the_gauge_counts_what_is_typed() -> None:
    """After a rest the gauge shows the tokens of system and prompt, and what is too many."""
    board = pad(Model(), system="be brief")
    board.max_tokens.value = 30
    board.prompt.value = "one two three"
    settle()
    assert "5 prompt + 0 written of 40 tokens" in board.gauge.value
    board.prompt.value = "w " * 20
    settle()
    assert "Does not fit: 12 tokens too many." in board.gauge.value


def test_an_error_while_counting_stands_on_the_pad() -> None:
    """A closed model is said where the gauge would stand."""
    model = Model()
    model.count_tokens = lambda messages: (_ for _ in ()).throw(ModelClosedError("The model is closed."))  # type: ignore[method-assign]
    board = pad(model, prompt="x")
    assert "The model is closed." in board.gauge.value


def test_run_shows_the_answer_and_keeps_it() -> None:
    """Run passes the messages and the moved sliders on; the answer stands below, escaped."""
    model = Model(FakeStream(["Hello ", "<b>you</b>"]))
    board = pad(model, prompt="Hi", system="S")
    board.sliders["temperature"].value = 0.2
    board.seed.value = "7"
    board.run_button.click()
    settle()
    assert model.asked == {
        "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Hi"}],
        "stream": True,
        "max_tokens": 256,
        "temperature": 0.2,
        "seed": 7,
    }
    assert board.answer.text == "Hello <b>you</b>"
    assert "Hello &lt;b&gt;you&lt;/b&gt;" in board.output.value
    assert (board.run_button.disabled, board.stop_button.disabled) == (False, True)


def test_stop_cancels_the_stream() -> None:
    """Stop ends a slow answer and the pad can run again."""
    stream = FakeStream(["a"] * 1000, rate=5)

    class Ending(FakeStream):
        def cancel(self) -> None:
            super().cancel()
            self._queue.put(None)

    stream = Ending(["a"] * 1000, rate=5)
    board = pad(Model(stream), prompt="Hi")
    board.run_button.click()
    assert board.run_button.disabled
    board.stop_button.click()
    settle()
    assert stream.cancelled.is_set()
    assert "stopped before its end" in board.output.value
    assert not board.run_button.disabled


def test_insert_as_cell_writes_the_magic() -> None:
    """The cell repeats the pad's options; a prompt with braces is marked raw."""
    cells: list[str] = []
    board = pad(Model(), prompt="Say {{ x }}", system='a "b"', insert=cells.append)
    board.sliders["top_k"].value = 5
    board.seed.value = "3"
    board.insert_button.click()
    assert cells == ['%%llama chat -n 256 --top-k 5 --seed 3 --system "a \\"b\\"" --raw\nSay {{ x }}']


def test_a_seed_that_is_no_number_is_an_error_on_the_pad() -> None:
    """Nothing runs, and the pad says what was found and expected."""
    board = pad(Model(), prompt="Hi")
    board.seed.value = "abc"
    with pytest.raises(OptionError, match="'abc'"):
        board.options()
    board.run_button.click()
    assert "abc" in board.output.value


def test_saved_notebooks_say_what_the_pad_was() -> None:
    """In one bundle with the widget stand its texts, not the repr of twenty widgets."""
    bundle = pad(Model(), prompt="<b>Ahoy</b>")._repr_mimebundle_()
    assert bundle["text/plain"].splitlines()[:3] == ["prompt pad: fake", "user", "<b>Ahoy</b>"]
    assert "&lt;b&gt;Ahoy&lt;/b&gt;" in bundle["text/html"]
    assert "application/vnd.jupyter.widget-view+json" in bundle
