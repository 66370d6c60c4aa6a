"""A chat as it is saved: each answer holds its own turn, and the notebook holds all."""

from __future__ import annotations

import copy
import hashlib
import json
import pickle
import sys
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llama_magic.display.bundle import mimebundle
from llama_magic.formatters.gguf import GGUFFormatter, Template
from llama_magic.model.earlier import Digests, Earlier, digest, gathered, restored
from llama_magic.model.results import RECEIPT_MIME, BudgetPart, Completion
from llama_magic.request.filled import Filled
from llama_magic.session.chat import Chat
from llama_magic.session.history import History
from llama_magic.session.turns import Turn, answer_message
from llama_magic.testing import scripted_model

SMOLLM2 = (
    "{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}"
    "{{ '<|im_start|>system\nYou are helpful.<|im_end|>\n' }}{% endif %}"
    "{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)


class Notebook:
    """What `%%llama chat` does with a chat, without a shell; `outputs` are what is saved."""

    def __init__(self, **how: Any) -> None:
        self.model = scripted_model(lambda request: f"answer {len(request.messages)}", **how)
        self.chat = Chat()
        self.outputs: list[dict[str, Any]] = []
        self.answers: list[Completion[Any]] = []

    def ask(self, text: str, *, system: str | None = None, cell: str | None = None, **options: Any) -> None:
        new = [{"role": "user", "content": text}]
        answer = self.model.chat(self.chat.messages_for(new, system=system, cell=cell), seed=1, **options)
        before, last = self.chat.saved_before(system=system, cell=cell)
        earlier = Earlier(before, len(new) + 1, last)
        self.outputs.append(mimebundle(answer, earlier=earlier))
        self.answers.append(answer)
        self.chat.commit(Turn((*new, answer_message(answer)), cell, system, completion=answer))

    def receipts(self) -> list[dict[str, Any]]:
        return [output[RECEIPT_MIME] for output in self.outputs]


def _whole(notebook: Notebook) -> None:
    """The saved receipts of a notebook, put together, are those of its answers."""
    for found, answer in zip(restored(notebook.receipts()), notebook.answers, strict=True):
        receipt = json.loads(json.dumps(answer.receipt))
        assert "earlier" not in found
        for key in ("messages", "text", "file", "engine", "sampling", "seed", "asked"):
            assert found.get(key) == receipt.get(key), key


def test_an_output_is_as_long_as_its_turn() -> None:
    """The 120th answer is saved in no more bytes than the third, and says how much stands before it."""
    notebook = Notebook(window=20_000)
    for number in range(120):
        notebook.ask(f"question {number:03}", system="Be brief." if not number else None)
    sizes = [len(json.dumps(output)) for output in notebook.outputs]
    assert max(sizes[100:]) <= max(sizes[2:6]) + 60  # counts have a digit more
    assert 2 * sum(sizes[20:]) < 700_000  # of 200 turns; with its cells the notebook stays under 1 MB
    last = notebook.receipts()[-1]
    assert (last["earlier"]["messages"], len(last["messages"])) == (239, 1)  # the answer is its text
    assert "earlier\N{NO-BREAK SPACE}turns" in notebook.outputs[-1]["text/html"]
    assert sum(part.tokens for part in notebook.answers[-1].budget.parts) == last["usage"]["prompt_tokens"]
    _whole(notebook)


def _calls(work: Callable[[], None]) -> int:
    """Return how many functions are called by some work of this thread, Python's own among them."""
    found, before = 0, sys.getprofile()

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal found
        found += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return found


@pytest.mark.parametrize("formatter", ["chatml", "template"])
def test_a_turn_costs_as_much_after_a_hundred(formatter: str) -> None:
    """To ask, to answer, to save: no function is called once a message, so a turn costs what is new in it."""
    notebook = Notebook(window=20_000)
    if formatter == "template":
        notebook.model.formatter = GGUFFormatter(Template(SMOLLM2))
    calls = [_calls(lambda at=at: notebook.ask(f"question {at:03}")) for at in range(120)]  # type: ignore[misc]
    early, late = sorted(calls[15:35])[10], sorted(calls[100:])[10]
    assert late < early + 60, (early, late)


def _rerun(notebook: Notebook) -> None:
    for text in ("a", "b", "c"):
        notebook.ask(text, cell=text)
    notebook.ask("b again", cell="b")
    notebook.ask("d", cell="d")


def _other_system(notebook: Notebook) -> None:
    for system in ("S", None, "T", None, "T"):
        notebook.ask("q", system=system)


def _left_out(notebook: Notebook) -> None:
    for number in range(12):
        notebook.ask(f"{number} " * 30, system="S" if not number else None, overflow="drop-oldest")
    assert any(receipt["earlier"].get("left_out") for receipt in notebook.receipts()[1:])


def _cut(notebook: Notebook) -> None:
    for number in (5, 5, 600, 5):
        notebook.ask("w " * number, overflow="truncate-prompt")


def _another_sampling(notebook: Notebook) -> None:
    for temperature in (0.5, 0.5, 0.7, 0.7):
        notebook.ask("q", temperature=temperature)


def _loaded(notebook: Notebook) -> None:
    notebook.chat.commit(Turn(({"role": "user", "content": "old"}, {"role": "assistant", "content": "text"})))
    for text in ("a", "b"):
        notebook.ask(text)
    assert len(notebook.receipts()[0]["messages"]) == 4


@pytest.mark.parametrize(
    "story", [_rerun, _other_system, _left_out, _cut, _another_sampling, _loaded], ids=lambda s: s.__name__
)
def test_nothing_that_an_equal_answer_needs_is_lost(story: Callable[[Notebook], None]) -> None:
    """Turns run again, system prompts, dropped and cut messages, options, chats from files."""
    notebook = Notebook(window=256)
    story(notebook)
    _whole(notebook)


def test_a_reference_to_what_is_not_there_stays() -> None:
    """An output whose earlier turns were deleted keeps its reference: it is not taken for whole."""
    notebook = Notebook()
    for text in ("a", "b"):
        notebook.ask(text)
    [found] = restored(notebook.receipts()[1:])
    assert found["earlier"]["messages"] == 2


_contents = (
    st.none() | st.text(max_size=6) | st.sampled_from([1, True, 1.0, ["a"], Filled("a", [("x", 0, 1)])])
)
_messages = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(("user", "assistant")), "content": _contents}), max_size=5
)


@given(said=st.lists(st.tuples(st.sampled_from(("more", "back", "change", "other")), _messages), max_size=8))
def test_the_digests_of_a_chat_that_grows_are_those_of_its_whole_text(said: list[tuple[str, Any]]) -> None:
    """Turns, turns taken back, a message changed in place, another chat; whatever contents are."""
    told: Digests = Digests()
    chat: list[dict[str, Any]] = []
    for what, messages in said:
        if what == "other":
            chat = list(messages)
        elif what == "back":
            chat = chat[: len(messages)]
        elif what == "change" and chat and messages:
            chat[len(messages) % len(chat)]["content"] = messages[0]["content"]
        else:
            chat = [*chat, *messages]
        assert told.of_messages(chat) == digest(chat)
        text = "".join(str(message["content"]) for message in chat)
        assert told.of_prompt(text) == hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def test_a_list_that_is_changed_in_place_is_told_anew() -> None:
    """What may change is no text that was told before; a message without content has a digest, too."""
    told, chat = Digests(), [{"role": "user", "content": ["a"]}, {"role": "user"}]
    before = told.of_messages(chat)
    chat[0]["content"].append("b")
    assert told.of_messages(chat) == digest(chat) != before


def test_a_chat_that_was_saved_can_be_copied() -> None:
    """A chat with digests is copied and pickled, and says the same afterwards."""
    notebook = Notebook()
    notebook.ask("one")
    notebook.chat.told.of_messages(notebook.chat.messages)
    for copied in (
        copy.deepcopy(Chat("c", notebook.chat.turns[:0], [])),
        pickle.loads(pickle.dumps(Digests())),
    ):
        told = copied.told if isinstance(copied, Chat) else copied
        assert told.of_messages(notebook.chat.messages) == digest(notebook.chat.messages)


def test_an_answer_is_in_the_history_once() -> None:
    """Each answer that is added again is found, until it has fallen out of a list that is full."""
    model, history = scripted_model(["a", "b", "c"]), History(limit=2)
    answers = [model.complete("x") for _ in range(3)]
    assert [history.add(answer).number for answer in (*answers[:2], *answers[:2])] == [1, 2, 1, 2]
    assert history.add(answers[2]).number == 3
    assert history.add(answers[1]).number == 2
    assert history.add(answers[0]).number == 4
    assert [entry.number for entry in history] == [3, 4]
    assert [history.select(1).add(answer).number for answer in answers[:1]] == [4]


def test_the_parts_of_many_turns_are_told_as_one() -> None:
    """All turns but the last are one part, which stands where the first of them did; others stay."""
    kinds = ["template", "system", *["user", "variable", "assistant", "tool"] * 3, "user"]
    parts = [BudgetPart(f"{kind} {at}", kind, at) for at, kind in enumerate(kinds)]
    found = gathered(parts)
    assert [part.kind for part in found] == ["template", "system", "earlier", *["variable"] * 3, "user"]
    assert found[2].tokens == sum(part.tokens for part in parts[2:-1] if part.kind != "variable")
    assert gathered(parts[:12]) == tuple(parts[:12])
    assert gathered([parts[0]] * 13 + parts[2:4]) == (*[parts[0]] * 13, *parts[2:4])
