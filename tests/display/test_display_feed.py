"""The live feed: what travels to a page put together is what was written; rows, gauge and figures."""

from __future__ import annotations

import itertools
import json

from front_ends import LAB, replay, shell, text_of
from hypothesis import given
from hypothesis import strategies as st

from llama_magic.display import show_stream
from llama_magic.display.live.feed import Feed
from llama_magic.display.live.live import LiveView
from llama_magic.model.results import Chunk
from llama_magic.testing import scripted_model


@given(st.lists(st.text(st.sampled_from("ab\x1b\n é"), min_size=1, max_size=9), min_size=1, max_size=60))
def test_deltas_put_together_are_the_text(pieces: list[str]) -> None:
    """Whatever the pieces, the messages rebuild the visible text."""
    from llama_magic.words.harmless import visible

    feed, messages = Feed(markdown=False), []
    for piece in pieces:
        feed.add(Chunk(piece, "", (1,)))
        messages.append(feed.take())
    assert replay(messages) == [visible("".join(pieces))]


def late_feed() -> Feed:
    """Return a feed that is past the early seconds, in which everything small is sent again."""
    times = itertools.chain([0.0], itertools.repeat(60.0))
    return Feed(clock=lambda: next(times))


def test_bytes_are_in_proportion_to_the_text_and_late_views_catch_up() -> None:
    """4,000 tokens in 900 messages cost under 6 bytes a byte of text, and a view that
    missed the first 100 messages has at least half the text."""
    feed, messages = late_feed(), []
    for number in range(900):
        for _ in range(4 if number % 9 else 8):
            feed.add(Chunk("word ", "", (1,)))
        messages.append(feed.take())
    text = text_of(replay(messages))
    assert text.split() == ["word"] * 4000
    sent = sum(len(json.dumps(message["nodes"])) for message in messages)
    assert sent < 6 * len(text)
    assert len(text_of(replay(messages, skip=100))) >= len(text) / 2


def test_an_answer_that_stalls_is_sent_again_to_a_view_that_came_late() -> None:
    """What came at once and then stops is sent whole after 0.25 s, 0.5 s, 1 s …, rows of a form too."""
    clock = itertools.count(0, 0.1)
    feed = Feed(clock=lambda: next(clock))
    text = "**One** two.\n\n" * 400  # more than what is sent again while a view may still load
    feed.add(Chunk(text, "", (1,)))
    messages = [feed.take() for _ in range(100)]
    again = [number for number, message in enumerate(messages) if message]
    assert 5 <= len(again) <= 8
    assert again[1] <= 3
    for number in again:
        assert text_of(replay(messages[number:])).replace(".", ". ").split() == ["One", "two."] * 400
    clock = itertools.count(5)
    form = Feed(clock=lambda: next(clock))
    form.add(Chunk("", "", (1,), partial={"name": "Ada"}))
    rows = [message["rows"] for message in [form.take() for _ in range(99)] if message]
    assert len(rows) >= 6
    assert all(row == [[0, "name", 0, "Ada"]] for row in rows)


def test_structured_rows_travel_as_changes() -> None:
    """A growing string sends its new end, a new field its value, an unchanged one nothing; an object or list
    that has just been opened has no row yet: it may become several."""
    feed = late_feed()
    sent = []
    for partial in (
        {"name": "A"},
        {"name": "Ada Lovelace"},
        {"name": "Ada Lovelace", "tags": []},
        {"name": "Ada Lovelace", "tags": ["x"]},
        {"name": "Ada Lovelace", "tags": ["x"]},
        {"name": "Ada Lovelace", "tags": ["x"], "home": {"at": {}}},
        {"name": "Ada Lovelace", "tags": ["x"], "home": {"at": {}}, "born": 1815},
    ):
        feed.add(Chunk("", "", (1,), partial=partial))
        sent.append(feed.take().get("rows"))
    assert sent == [
        [[0, "name", 0, "A"]],
        [[0, "name", 0, "Ada Lovelace"]],
        None,
        [[0, "tags[0]", 0, "x"]],
        None,
        None,
        [[0, "home.at", 0, "{}"], [0, "born", 0, "1815"]],
    ]


def test_early_rows_are_sent_again_for_a_view_that_loads_late() -> None:
    """In the first seconds each message holds all rows, also those that no longer change."""
    feed = Feed()
    sent = []
    for partial in ({"name": "Ada"}, {"name": "Ada", "born": 18}, {"name": "Ada", "born": 1815}):
        feed.add(Chunk("", "", (1,), partial=partial))
        sent.append(feed.take()["rows"])
    assert sent[-1] == [[0, "name", 0, "Ada"], [0, "born", 0, "1815"]]


def test_each_sample_has_its_rows_and_the_gauge_is_that_of_the_longest() -> None:
    """Two samples do not mix; an object that holds nothing yet has no row; the rate counts all tokens."""
    clock = itertools.chain([0.0, 1.0], itertools.repeat(60.0))
    feed = Feed(clock=lambda: next(clock))
    for sample, partial in ((0, {}), (1, {"name": "Ada"}), (0, {"name": "Bo"}), (1, {"name": "Adam"})):
        feed.add(Chunk("", "", (1,), sample=sample, partial=partial))
    feed.add(Chunk("", "", (1, 1), sample=1, partial={"name": "Adam"}))
    message = feed.take()
    assert message["rows"] == [[0, "name", 0, "Bo"], [1, "name", 0, "Adam"]]
    assert message["figures"] == [4, 1.0, round(5 / 59, 1)]
    feed.add(Chunk("", "", (1,), sample=0, partial={"name": "Bob"}))
    assert feed.take()["rows"] == [[0, "name", 2, "b"]]
    begun = Feed()
    begun.add(Chunk("{", "{", (1,), partial={}))
    assert "rows" not in begun.take()


def test_figures_move_while_a_call_is_written_and_rest_while_it_runs() -> None:
    """Tokens without a text are counted as they come. What a tool takes, and the reading of the next prompt,
    is no writing: the speed is that of the tokens that followed others of their answer."""
    times = iter([0.0, 1.0, 1.5, 1.5, 2.0, 2.0, 2.0, 9.0, 9.5, 10.0, 10.0])
    feed = Feed(clock=lambda: next(times))
    feed.add(Chunk("Hm.", "Hm.", (1,)))
    feed.add(Chunk("", "Hm.", (2,)))
    assert feed.take()["figures"] == [2, 1.0, 2.0]
    feed.add(Chunk("", "Hm.", (3,), finish_reason="stop"))
    assert feed.take()["figures"] == [3, 1.0, 2.0]
    feed.add(Chunk("", "", turns=({"role": "tool", "content": "21"},)))
    feed.anew(form=False)
    feed.add(Chunk("It", "It", (4,)))
    feed.add(Chunk(" is", "It is", (5,)))
    assert feed.take()["figures"] == [2, 1.0, 2.0]


def test_the_answer_after_a_tool_has_its_own_gauge() -> None:
    """The live gauge is that of the answer at work: behind a call and its result the prompt is longer."""
    call = '<tool_call>\n{"name": "weather", "arguments": {"city": "Lyon"}}\n</tool_call>'

    def weather(city: str) -> str:
        """Say the weather."""
        return f"clear in {city}, and warm"

    model = scripted_model([call, "It is clear."], window=4096)
    asked = model.chat("Weather?", tools=[weather], tools_auto=True, stream=True)
    written = show_stream(asked, title="chat", model_name="m", shell=shell(LAB))
    [view] = LiveView.unanswered
    first, second = (len(request.prompt) for request in model.backend.requests)
    assert first + 10 < second == view.head["prompt"] == written.usage.prompt_tokens
    assert sum(part["amount"] for part in view.head["parts"]) == view.head["prompt"]


def test_a_form_whose_check_failed_is_filled_again() -> None:
    """Of the answer before nothing is sent: its rows and its thinking are gone, counts begin anew."""
    feed = late_feed()
    feed.add(Chunk("", "", (1,), partial={"name": "ada", "age": 36}, thinking="Hm."))
    feed.take()
    feed.anew(form=True)
    feed.add(Chunk("", "", (1,), partial={"name": "ada"}, thinking="So."))
    message = feed.take()
    assert message["rows"] == [[0, "name", 0, "ada"]]
    assert [node[:3] for node in message["nodes"]] == [["thinking 0", 0, 1]]
    assert message["figures"][0] == 1


def test_thinking_and_ends_are_each_samples_own() -> None:
    """Two samples that think do not mix; of those that are written to their end the page is told which."""
    feed = Feed()
    for sample in (0, 1, 0):
        feed.add(Chunk("", "", (1,), sample=sample, thinking=f"of {sample} "))
    nodes = feed.take()["nodes"]
    assert {node[0]: text_of(replay([{"nodes": [node]}])) for node in nodes} == {
        "thinking 0": "of 0 of 0 ",
        "thinking 1": "of 1 ",
    }
    feed.add(Chunk("Yes", "Yes", (1,), sample=1, finish_reason="stop"))
    assert feed.take()["ended"] == [1]
    feed.add(Chunk("No", "No", (1,), finish_reason="stop"))
    assert "ended" not in feed.take()


def test_guesses_are_shown_while_they_come_and_go() -> None:
    """How many came of how many, and the text's end with them and with those that were struck."""
    feed = Feed()
    feed.add(Chunk("one", "one", (1,)))
    assert "guesses" not in feed.take()
    feed.add(Chunk(" two", "one two", (2,), guessed=1))
    feed.add(Chunk(" three", "one two three", (3,), guessed=1))
    feed.add(Chunk(" four", "one two three four", (4,), struck=(" 5", "\x1b 6")))
    kinds = [["one", "drawn"], [" two three", "accepted"], [" 5␛ 6", "struck"], [" four", "drawn"]]
    assert feed.take()["guesses"] == [2, 4, kinds]
    feed.add(Chunk("", "", (9,), sample=1, guessed=1))
    feed.add(Chunk("x" * 200, "", (5,)))
    came, made, parts = feed.take()["guesses"]
    assert (came, made) == (3, 5)
    assert parts[-1] == ["x" * 60, "drawn"]
