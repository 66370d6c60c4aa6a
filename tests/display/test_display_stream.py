"""Streams in terminals, in plain clients and through the live feed; interrupts and errors on the way."""

from __future__ import annotations

import io
import itertools
import json
import re
import signal
import threading
import time
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
from as_ipython import page_says, traceback_of
from display_answers import ASKED, answering, completion, stream, widgets
from hypothesis import given
from hypothesis import strategies as st

from llama_magic import errors
from llama_magic.display import LoadProgress, hosts, show, show_stream
from llama_magic.display.live.feed import Feed
from llama_magic.display.live.live import Live, LiveView
from llama_magic.display.live.terminal import Terminal
from llama_magic.model.results import Budget, Chunk
from llama_magic.structured.answer.report import FieldReport
from llama_magic.testing import Script, scripted_model
from llama_magic.words.progress import Progress
from llama_magic.words.tables import Table


class Publisher:
    """A display publisher that keeps what it is given, as a front end would show it."""

    def __init__(self) -> None:
        self.sent: list[tuple[dict[str, Any], str | None, bool]] = []

    def publish(self, data: dict[str, Any], metadata: Any, transient: dict[str, str], update: bool) -> None:
        self.sent.append((data, transient.get("display_id"), update))

    def shown(self) -> list[dict[str, Any]]:
        """Return the outputs of the cell after all updates."""
        places: dict[Any, dict[str, Any]] = {}
        for number, (data, display_id, update) in enumerate(self.sent):
            assert not update or display_id in places
            places[display_id or number] = data
        return list(places.values())


def shell(metadata: dict[str, Any] | None = None, allow_stdin: bool = False, kernel: bool = True) -> Any:
    """Return a stand-in for IPython's shell whose running request came from such a client."""
    parent = {"metadata": metadata or {}, "content": {"allow_stdin": allow_stdin}}
    own = {"kernel": SimpleNamespace(get_parent=lambda channel: parent)} if kernel else {}
    return SimpleNamespace(display_pub=Publisher(), **own)


LAB = {"cellId": "4f1c"}


def answer_views() -> None:
    """Say for every ended view, as a page does, that its static output stands in its cell."""
    for view in list(LiveView.unanswered):
        page_says(view, {"settled": True})


@pytest.fixture(autouse=True)
def _no_views_of_other_tests() -> None:
    answer_views()


def test_a_terminal_gets_the_text_as_it_grows_then_one_line_of_figures(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Escapes are shown, not sent; the last line has the window, the speed, the seed and the ending."""
    r = show_stream(stream("One \x1b[31mtwo"), title="chat", model_name="m", shell=shell(kernel=False))
    out = capsys.readouterr().out
    assert out.startswith("One ␛[31mtwo\n[100 prompt + 2 written of 4,096 tokens · 3,994 free")
    assert re.search(r"first token \d+\.\d\d s · [\d.]+ tok/s · seed 42 · ended by itself\]\n", out)
    assert out.count("\n") == 2
    assert r.text == "One \x1b[31mtwo"


class _Broken(io.StringIO):
    """An output that fails, from its n-th write on."""

    def __init__(self, error: Exception, takes: int, *, tty: bool) -> None:
        super().__init__()
        self._error, self._takes, self._tty = error, takes, tty

    def isatty(self) -> bool:
        return self._tty

    def write(self, text: str) -> int:
        self._takes -= 1
        if self._takes < 0:
            raise self._error
        return super().write(text)


@pytest.mark.parametrize("takes", [0, 1, 2])
@pytest.mark.parametrize("tty", [True, False])
@pytest.mark.parametrize(
    "error",
    [BrokenPipeError(32, "Broken pipe"), ValueError("I/O operation on closed file"), KeyError("mine")],
)
def test_an_output_that_fails_costs_no_answer(
    monkeypatch: pytest.MonkeyPatch, error: Exception, takes: int, tty: bool
) -> None:
    """Whatever standard output raises, at the first write or later, is named once; the answer is whole."""
    out = _Broken(error, takes, tty=tty)
    monkeypatch.setattr("sys.stdout", out)
    with pytest.warns(RuntimeWarning, match=rf"took no text \({type(error).__name__}") as named:
        answer = show_stream(stream("One two three"), title="chat", model_name="m", shell=shell(kernel=False))
    assert len(named) == 1
    assert answer.text == "One two three"
    assert "One two three".startswith(out.getvalue().split("\n")[0])


def test_no_standard_output_costs_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is none at all (a program without a console), the answer comes back as well."""
    monkeypatch.setattr("sys.stdout", None)
    with pytest.warns(RuntimeWarning, match="took no text"):
        answer = show_stream(stream("One"), title="chat", model_name="m", shell=shell(kernel=False))
    assert answer.text == "One"


def test_a_terminal_shows_how_hard_the_mask_held(capsys: pytest.CaptureFixture[str]) -> None:
    """`--pressure` shows its table of fields there, too: between the answer and the figures."""
    answer = scripted_model(['{"age": 27}']).structured("Age?", {"type": "object", "properties": {"age": {}}})
    reports = {"/age": FieldReport("/age", 8, 10, 1, 0.25, 0.3, 0.5)}
    shown = Terminal(lambda: None)
    shown.feed(Chunk(delta=answer.text, text=answer.text))
    shown.finish({}, replace(answer, fields=reports))
    answered, head, row, figures = capsys.readouterr().out.splitlines()
    assert answered == '{"age": 27}'
    assert head.split() == ["field", "value", "mass", "outside", "confidence"]
    assert row.split() == ["age", "27", "25%", "50%"]
    assert figures.startswith("[")


def test_jupyter_console_is_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A kernel client that names no cell and takes input gets the text as it grows."""
    console = shell(allow_stdin=True)
    show_stream(stream("text"), title="chat", model_name="m", shell=console)
    assert capsys.readouterr().out.startswith("text\n[")
    assert not console.display_pub.sent


def test_a_client_that_cannot_be_asked_gets_one_plain_output() -> None:
    """nbclient, nbval, papermill: one display_data without an id, so that nothing needs an update."""
    batch = shell()
    show_stream(stream("a b"), title="chat", model_name="m", shell=batch)
    [(data, display_id, update)] = batch.display_pub.sent
    assert "a b" in data["text/plain"]
    assert (display_id, update) == (None, False)


@pytest.mark.parametrize("metadata", [LAB, {"colab": {"cell_id": "x"}}])
def test_a_front_end_sees_a_widget_that_is_replaced_by_static_output(metadata: dict[str, Any]) -> None:
    """What is left is HTML, text and receipt; once the page says so, no widget or model of it stays open."""
    before = widgets()
    lab = shell(metadata)
    show_stream(stream("a b"), title="chat", model_name="m", shell=lab)
    assert "application/vnd.jupyter.widget-view+json" in lab.display_pub.sent[0][0]
    [left] = lab.display_pub.shown()
    assert set(left) == {"text/html", "text/plain", "application/vnd.llama-magic.v1+json"}
    [view] = LiveView.unanswered
    assert view.left["bundle"] == left
    answer_views()
    assert widgets() == before


@pytest.mark.parametrize(("mode", "markdown"), [("chat", True), ("complete", False), ("structured", False)])
@pytest.mark.parametrize("title", ["chat", "complete", "anything"])
def test_the_mode_says_what_is_markdown(mode: str, markdown: bool, title: str) -> None:
    """The title heads the view and decides nothing, while it grows, at the end and after an error."""
    lab, text = shell(LAB), '"**a**"' if mode == "structured" else "**a**"
    show_stream(stream(text, mode=mode), title=title, model_name="m", shell=lab)
    broken = stream(Script(text, at=3, error=errors.BackendError("gone")), mode=mode)
    with pytest.raises(errors.BackendError):
        show_stream(broken, title=title, model_name="m", shell=lab)
    assert [view.head["markdown"] for view in LiveView.unanswered] == [markdown, markdown]
    assert ["<strong>a</strong>" in left["text/html"] for left in lab.display_pub.shown()] == [markdown] * 2


def test_an_error_leaves_the_texts_of_all_samples() -> None:
    """Each under its number, however far it had come."""
    script = Script(samples=("one two", "three four"), at=2, error=errors.BackendError("gone"))
    here = shell(LAB)
    with pytest.raises(errors.BackendError, match="gone"):
        show_stream(stream(script, n=2), title="chat", model_name="m", shell=here)
    [output] = here.display_pub.shown()
    said = output["text/plain"].splitlines()
    assert said[1:5] == ["sample 1", "one two", "sample 2", "three four"]
    assert said[-1] == "Ended by an error: BackendError."


def test_an_ended_view_holds_its_output_for_a_page_that_is_loaded_again() -> None:
    """Its state names the cell, the run and the view; of more than fifty the oldest closes."""
    for number in range(52):
        show_stream(stream(f"answer {number}"), title="chat", model_name="m", shell=shell(LAB))
    views = list(LiveView.unanswered)
    assert len(views) == 50
    assert "answer 2\n" in views[0].get_state("left")["left"]["bundle"]["text/plain"]
    assert (views[-1].left["cell"], views[-1].left["view"]) == ("4f1c", views[-1].model_id)
    page_says(views[-1], {"else": 1})
    assert len(LiveView.unanswered) == 50


def test_quiet_shows_nothing_anywhere(capsys: pytest.CaptureFixture[str]) -> None:
    """`quiet` returns the completion and publishes nothing."""
    lab = shell(LAB)
    assert show_stream(stream("a"), title="chat", model_name="m", shell=lab, quiet=True).text == "a"
    assert not lab.display_pub.sent
    assert not capsys.readouterr().out


@pytest.mark.parametrize("metadata", [LAB, {}])
def test_an_interrupt_keeps_the_text_and_says_so(metadata: dict[str, Any]) -> None:
    """Ctrl-C in the middle: the stream is cancelled, the output marked, the completion on the exception."""
    lab = shell(metadata)
    model = answering(Script("word " * 5, error=KeyboardInterrupt()))
    stopped = model.chat(ASKED, stream=True)
    with pytest.raises(errors.GenerationInterrupted) as caught:
        show_stream(stopped, title="chat", model_name="m", shell=lab)
    assert model.backend.requests[0].handle.cancelled
    assert caught.value.completion.finish_reason == "interrupted"
    [left] = lab.display_pub.shown()
    assert "word word word" in left["text/plain"]
    assert "stopped before its end" in left["text/html"]


def test_an_interrupt_before_the_first_token_says_that_nothing_was_written() -> None:
    """The one line that the cell ends with does not claim that something is kept."""
    nothing = stream(Script(error=KeyboardInterrupt()))
    with pytest.raises(errors.GenerationInterrupted) as caught:
        show_stream(nothing, title="chat", model_name="m", shell=shell(LAB))
    assert traceback_of(caught.value) == ["Interrupted: nothing was written yet."]


@pytest.mark.parametrize("where", [(hosts, "host"), (hosts, "publish"), (threading.Thread, "start")])
def test_an_interrupt_before_the_view_is_there_keeps_the_answer(
    monkeypatch: pytest.MonkeyPatch, where: tuple[Any, str]
) -> None:
    """The stream is cancelled, one output left, and the completion on the exception, as later on."""
    lab = shell(LAB)
    model = answering(Script("word " * 5, at=0, hold=threading.Event()))
    stopped = model.chat(ASKED, stream=True)

    def strike(*_given: Any, **_named: Any) -> Any:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(*where, strike)
    with pytest.raises(errors.GenerationInterrupted) as caught:
        show_stream(stopped, title="chat", model_name="m", shell=lab)
    assert model.backend.requests[0].handle.cancelled
    assert caught.value.completion.finish_reason == "interrupted"
    [left] = lab.display_pub.shown()
    assert "stopped before its end" in left["text/html"]


def test_a_real_sigint_stops_a_slow_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """A signal that arrives while the main thread waits for a token ends the wait."""
    written, main = threading.Event(), threading.main_thread().ident
    assert main is not None

    class Out(io.StringIO):
        def flush(self) -> None:
            if self.getvalue():
                written.set()

    def press() -> None:
        written.wait()
        signal.pthread_kill(main, signal.SIGINT)

    monkeypatch.setattr("sys.stdout", Out())
    presser = threading.Thread(target=press)
    presser.start()
    slow = stream(Script("a b", at=1, hold=threading.Event()))
    with pytest.raises(errors.GenerationInterrupted) as caught:
        show_stream(slow, title="chat", model_name="m", shell=shell(kernel=False))
    presser.join()
    assert caught.value.completion.text == "a"


def test_a_second_interrupt_does_not_leave_a_live_view_behind() -> None:
    """An impatient user interrupts while the output is being replaced; it is replaced all the same."""
    lab = shell(LAB)
    publish, fails = lab.display_pub.publish, iter([True])

    def impatient(**given: Any) -> None:
        if given["update"] and next(fails, False):
            raise KeyboardInterrupt
        publish(**given)

    lab.display_pub.publish = impatient
    stopped = stream(Script("a", error=KeyboardInterrupt()))
    with pytest.raises(errors.GenerationInterrupted):
        show_stream(stopped, title="chat", model_name="m", shell=lab)
    assert "text/html" in lab.display_pub.shown()[0]


@pytest.mark.parametrize("metadata", [LAB, {}])
def test_an_error_leaves_the_text_so_far_and_is_raised_as_it_is(metadata: dict[str, Any]) -> None:
    """The view is replaced by what was written, with the error's name."""
    lab = shell(metadata)
    broken = stream(Script("so far", error=errors.BackendError("decode failed")))
    with pytest.raises(errors.BackendError, match="decode failed"):
        show_stream(broken, title="chat", model_name="m", shell=lab)
    [left] = lab.display_pub.shown()
    assert "so far" in left["text/plain"]
    assert "BackendError" in left["text/html"]


def replay(messages: list[dict[str, Any]], skip: int = 0) -> list[Any]:
    """Put messages together as nodes.js does; `skip` are lost, and a gap waits for all of it."""
    root: list[Any] = []
    state = 0
    for message in messages[skip:]:
        for _, before, after, changes, *whole in message.get("nodes", ()):
            if before == state:
                apply(root, changes)
            elif whole:
                root.clear()
                apply(root, whole[0])
            else:
                continue
            state = after
    return root


def apply(root: list[Any], changes: list[Any]) -> None:
    """Change JSON elements in place, as `Growing.change` of nodes.js changes nodes."""
    for path, kept, what in json.loads(json.dumps(changes)):
        children = root
        for index in path:
            children = children[index][1]
        if isinstance(what, str):
            children[kept] += what
        else:
            children[kept:] = what


def text_of(elements: list[Any]) -> str:
    return "".join(one if isinstance(one, str) else text_of(one[1]) for one in elements)


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


def test_the_live_view_sends_at_most_ten_messages_a_second(monkeypatch: pytest.MonkeyPatch) -> None:
    """However fast chunks come, from one message to the next a tenth of a second passes."""
    sent: list[float] = []
    monkeypatch.setattr(LiveView, "send", lambda self, message, buffers=None: sent.append(time.monotonic()))
    head = {
        "title": "chat",
        "model": "m",
        "markdown": True,
        "form": False,
        "fields": [],
        "samples": 1,
        "after": "",
    }
    live = Live(shell(LAB), head=head, budget=lambda: Budget(4096, 100, 256), progress=lambda: None)
    live.begin()
    written = 0
    while len(sent) < 5:
        live.feed(Chunk("tok ", "", (1,)))
        written += 1
        threading.Event().wait(0.001)
    live.finish({"text/plain": ""}, None)
    assert written > len(sent)
    assert min(after - before for before, after in itertools.pairwise(sent)) >= 0.1


def test_prompt_reading_is_told_while_nothing_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    """Progress messages come before the first text, with done and total tokens."""
    sent: list[Any] = []
    gate = threading.Event()

    def send(self: LiveView, message: Any, buffers: Any = None) -> None:
        sent.append(message)
        if message.get("progress") == [50, 100]:
            gate.set()

    monkeypatch.setattr(LiveView, "send", send)
    show_stream(stream(Script("a", reading=gate)), title="chat", model_name="m", shell=shell(LAB))
    reading = [message["progress"] for message in sent if "progress" in message]
    assert [50, 100] in reading
    assert reading == sorted(reading)
    assert {total for _, total in reading} == {100}


def test_closed_views_are_freed() -> None:
    """Twenty views that a page answered for leave no widget object behind: their number stays flat."""
    import gc

    def alive() -> int:
        gc.collect()
        return sum(isinstance(thing, (LiveView, Live)) for thing in gc.get_objects())

    before = alive()
    for _ in range(20):
        show_stream(stream("a"), title="chat", model_name="m", shell=shell(LAB))
        answer_views()
    assert alive() <= before + 1


def test_load_progress_is_replaced_by_the_card(monkeypatch: pytest.MonkeyPatch) -> None:
    """One display: progress first, then the card in its place."""
    monkeypatch.setattr("llama_magic.display.live.progress.DELAY", 0.0)
    lab = shell(LAB)
    with LoadProgress(lab) as bar:
        bar(Progress("download", 5, 10, unit="B"))
        assert "downloading" in lab.display_pub.shown()[0]["text/plain"]
        bar.done(Table(("a",), (("card",),)))
    assert [out["text/plain"] for out in lab.display_pub.shown()] == ["a\ncard"]


def test_load_progress_without_a_card_leaves_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error on the way takes the progress away."""
    monkeypatch.setattr("llama_magic.display.live.progress.DELAY", 0.0)
    lab = shell(LAB)

    def fails() -> None:
        with LoadProgress(lab) as bar:
            bar(Progress("download", 5, 10))
            raise errors.SourceError("gone")

    with pytest.raises(errors.SourceError):
        fails()
    assert lab.display_pub.shown() == [{"text/plain": ""}]


def test_load_progress_says_nothing_on_its_way_where_nobody_looks() -> None:
    """A batch client gets the card only."""
    batch = shell()
    with LoadProgress(batch) as bar:
        bar(Progress("load", 5, 10, unit="%"))
        bar.done(Table(("a",), (("card",),)))
    assert [data["text/plain"] for data, _, _ in batch.display_pub.sent] == ["a\ncard"]


@pytest.mark.parametrize("screen", [True, False])
def test_load_progress_writes_over_a_line_of_a_terminal_only(
    screen: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the log of a script (`ipython x.ipy > log`) each step stood behind the last one."""
    out = io.StringIO()
    monkeypatch.setattr(out, "isatty", lambda: screen)
    monkeypatch.setattr("sys.stdout", out)
    with LoadProgress(shell(kernel=False), delay=0) as bar:
        bar(Progress("load", 5, 10, unit="%"))
    assert ("\rloading" in out.getvalue()) == screen
    assert screen or not out.getvalue()


def test_without_ipython_things_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    """`show` falls back to the text."""
    show(completion("Hi"), shell=None)
    assert capsys.readouterr().out.startswith("chat: smollm2 · seed 42\nHi\n")


def test_a_terminal_says_how_far_a_long_prompt_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a real terminal the line is drawn, then wiped before the first token."""

    class Tty(io.StringIO):
        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> int:
            if "reading the prompt: 50 of 100 tokens" in text:
                gate.set()
            return super().write(text)

    gate, out = threading.Event(), Tty()
    monkeypatch.setattr("sys.stdout", out)
    slow = stream(Script("text", reading=gate))
    show_stream(slow, title="chat", model_name="m", shell=shell(kernel=False))
    written = out.getvalue()
    assert "\rreading the prompt: " in written
    assert written.split("\r")[-1].startswith("text\n[")
