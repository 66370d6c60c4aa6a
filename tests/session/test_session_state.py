"""The session and chats without a shell."""

from __future__ import annotations

import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_magic.errors import InputTypeError, OptionError, SourceError
from llama_magic.model.journal import journal
from llama_magic.session.blocks import split_blocks
from llama_magic.session.chat import Chat
from llama_magic.session.history import History
from llama_magic.session.session import Session, current
from llama_magic.session.turns import Turn, check_message


class Model:
    """Just enough of a model for a session."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.closed = False

    def close(self) -> None:
        self.closed = True


def session() -> Session:
    def load(source: str | None, *, name: str | None = None, **options: Any) -> Model:
        if source == "missing":
            raise SourceError("There is no model 'missing'.", remedy="Give a path.")
        return Model(name or source or "demo")

    return Session(load)


def test_two_models_of_one_name_are_told_apart() -> None:
    """The second gets a number, unless the user chose the name: then it is refused."""
    s = session()
    s.load("a")
    s.load("a")
    assert list(s.models) == ["a", "a-2"]
    with pytest.raises(OptionError, match="another loaded model"):
        s.load("b", name="a")


def test_a_closed_model_is_forgotten() -> None:
    """model.close() in Python is an unload for the session."""
    s = session()
    first, second = s.load("a"), s.load("b")
    second.close()
    assert s.model() is first
    assert list(s.models) == ["a"]


def test_an_unknown_name_is_a_source_and_leaves_the_current_model() -> None:
    """model("x") loads x but does not make it current; a failure names the nearest loaded one."""
    s = session()
    first = s.load("mine")
    assert s.model("other").name == "other"
    assert s.model() is first
    s.load("missin")
    with pytest.raises(SourceError, match=r"(?s)no model 'missing'.*loaded model missin\?.*Give a path"):
        s.model("missing")


def test_unload_every() -> None:
    """All are closed, and two names of one model are one model."""
    s = session()
    model = s.load("a")
    s.models["alias"] = model
    gone: list[Any] = []
    assert s.unload("a", forget=gone.append) == ["a", "alias"]
    assert gone == [model]
    assert model.closed
    s.load("b")
    s.load("c")
    assert s.unload(every=True) == ["b", "c"]
    assert s.unload(every=True) == []
    with pytest.raises(OptionError, match="none to unload"):
        s.unload()


def test_one_session_a_process_without_a_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plain Python has one session, a shell its own."""
    import IPython

    monkeypatch.setattr(IPython, "get_ipython", lambda: None)
    assert current() is current()

    class Shell:
        pass

    one, two = Shell(), Shell()
    assert current(one) is current(one)
    assert current(one) is not current(two)


def test_history_is_bounded() -> None:
    """The oldest falls out; numbers go on; slices are lists."""
    history = History(limit=3)
    for text in "abcde":
        history.add(SimpleNamespace(text=text))  # type: ignore[arg-type]
    assert [entry.completion.text for entry in history] == ["c", "d", "e"]
    assert history[-1].number - history[0].number == 2
    assert len(history[1:]) == 2
    assert History().to_pandas().empty


def test_history_is_read_while_other_threads_append() -> None:
    """A full list gives and takes entries at once, without an error; each generation stands once."""
    history = History(limit=1000)
    made = [SimpleNamespace(text=str(i)) for i in range(2400)]
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            list(pool.map(history.add, made))
            seen = [len(list(history)) for _ in pool.map(history.add, made[-200:])]
    finally:
        sys.setswitchinterval(before)
    assert set(seen) == {1000}
    assert len({id(entry.completion) for entry in history}) == 1000


def test_entries_of_a_moment() -> None:
    """A loop over the history goes over what it held when it began."""
    history = History(limit=3)
    for text in "abc":
        history.add(SimpleNamespace(text=text))  # type: ignore[arg-type]
    for entry in history:
        history.add(SimpleNamespace(text=entry.completion.text.upper()))  # type: ignore[arg-type]
    assert [entry.completion.text for entry in history] == ["A", "B", "C"]


def test_history_is_in_the_order_in_which_answers_ended() -> None:
    """What Python code made between two cells stands between them, also before there was a session."""
    made = [SimpleNamespace(text=text) for text in "abcd"]
    journal.add(made[0])  # type: ignore[arg-type]
    session = Session()
    for i, answer in enumerate(made[1:]):
        journal.add(answer)  # type: ignore[arg-type]
        if i % 2:
            session.remember(answer)  # type: ignore[arg-type]
    assert [entry.completion.text for entry in session.history] == ["a", "b", "c", "d"]
    assert [entry.completion.text for entry in session.history] == ["a", "b", "c", "d"]


def turn(text: str, cell: str | None = None, system: str | None = None) -> Turn:
    return Turn(
        ({"role": "user", "content": text}, {"role": "assistant", "content": text.upper()}), cell, system
    )


@settings(deadline=None)  # the machine is shared, and the first call imports
@given(st.lists(st.tuples(st.sampled_from("abcd"), st.booleans()), max_size=12))
def test_no_turn_is_ever_lost_but_by_its_own_rerun(runs: list[tuple[str, bool]]) -> None:
    """Whatever runs in whatever order: a turn is in the chat, in a branch, or was replaced by its cell."""
    chat = Chat()
    for number, (cell, fresh) in enumerate(runs):
        before = list(chat.turns)
        new = chat.commit(turn(f"{cell}{number}", cell), fresh=fresh)
        assert chat.turns[-1] is new
        assert len({t.cell for t in chat.turns}) == len(chat.turns)
        kept = {id(t) for t in chat.turns} | {id(t) for branch in chat.branches for t in branch.turns}
        lost = [t for t in before if id(t) not in kept]
        assert all(t.cell == cell and t is before[-1] for t in lost)


def test_messages_for_does_not_change_the_chat() -> None:
    """Asking what would be sent is free of effects, and ends with the new messages."""
    chat = Chat()
    chat.commit(turn("one", "a", system="S"))
    chat.commit(turn("two", "b"))
    new = [{"role": "user", "content": "again"}]
    assert [m["content"] for m in chat.messages_for(new, cell="b")] == ["S", "one", "ONE", "again"]
    assert [m["content"] for m in chat.messages_for(new, cell="a", system="T")] == ["T", "again"]
    assert [m["content"] for m in chat.messages_for(new, fresh=True)] == ["again"]
    assert len(chat.turns) == 2


_TEXT = st.text(alphabet=st.characters(codec="utf-8"), max_size=20)
_TURNS = st.lists(
    st.builds(
        lambda q, a, cell, system, stopped: Turn(
            ({"role": "user", "content": q}, {"role": "assistant", "content": a}), cell, system, stopped
        ),
        _TEXT,
        _TEXT,
        st.none() | st.sampled_from("abc"),
        st.none() | _TEXT,
        st.booleans(),
    ),
    max_size=4,
)


@settings(deadline=None)  # the machine is shared, and the first call imports
@given(_TURNS, _TURNS)
def test_a_saved_chat_loads_equal(
    tmp_path_factory: pytest.TempPathFactory, turns: list[Turn], more: list[Turn]
) -> None:
    """Turns, cells, marks and branches survive the file, in any script."""
    path = tmp_path_factory.mktemp("chat") / "c.json"
    chat = Chat("c", list(turns))
    for item in more:
        chat.commit(item)
    chat.save(path)
    loaded = Chat.load(path)
    assert loaded.name == "c"
    assert loaded.messages == chat.messages
    assert loaded.turns == chat.turns
    assert loaded.branches == chat.branches


def test_files_of_other_tools(tmp_path: Path) -> None:
    """A bare list, an object with messages, content parts; an edited file of ours keeps the edit."""
    path = tmp_path / "other.json"
    messages = [
        {"role": "system", "content": "S"},
        {"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
        {"role": "assistant", "content": "c"},
        {"role": "user", "content": "d"},
    ]
    path.write_text(json.dumps(messages))
    chat = Chat.load(path)
    assert [m["content"] for m in chat.messages] == ["S", "ab", "c", "d"]
    assert len(chat.turns) == 2
    chat.save(path)
    data = json.loads(path.read_text())
    data["messages"][1]["content"] = "edited"
    path.write_text(json.dumps(data))
    assert Chat.load(path).messages[1]["content"] == "edited"


@pytest.mark.parametrize(
    ("content", "kind"),
    [
        (None, SourceError),
        ("not json", SourceError),
        ("{}", InputTypeError),
        ('{"messages": "x"}', InputTypeError),
        ('[{"role": "robot", "content": "x"}]', InputTypeError),
        ('[{"role": "user", "content": 5}]', InputTypeError),
        ('[{"role": "user", "content": [{"type": "image_url"}]}]', InputTypeError),
        ('{"messages": [], "llama_magic": {"turns": 5}}', InputTypeError),
        ('{"messages": [], "llama_magic": {"turns": [5], "branches": [{}]}}', InputTypeError),
        ('{"messages": [], "llama_magic": {"turns": [], "branches": [5]}}', InputTypeError),
    ],
)
def test_broken_chat_files_are_refused(tmp_path: Path, content: str | None, kind: type[Exception]) -> None:
    """A missing or malformed file is one of our errors."""
    path = tmp_path / "broken.json"
    if content is not None:
        path.write_text(content)
    with pytest.raises(kind):
        Chat.load(path)


def test_a_chat_that_cannot_be_written_says_so(tmp_path: Path) -> None:
    """A missing folder is a SourceError."""
    with pytest.raises(SourceError, match="cannot be written"):
        Chat().save(tmp_path / "no" / "c.json")


@settings(deadline=None)  # the machine is shared, and the first call imports
@given(st.text(alphabet="user:asytem \n\tassistant"))
def test_blocks_lose_no_text_but_blank_lines_and_headings(body: str) -> None:
    """Every body cuts into blocks of known roles; one that opens none is returned untouched."""
    blocks = split_blocks(body)
    assert all(role in ("system", "user", "assistant") for role, _ in blocks)
    if len(blocks) == 1 and blocks[0][1] == body:
        assert blocks[0][0] == "user"


def test_a_message_must_be_one() -> None:
    """Roles and texts are checked; tool calls may stand without a text."""
    assert check_message({"role": "assistant", "content": None, "tool_calls": [{}]})["tool_calls"] == [{}]
    with pytest.raises(InputTypeError):
        check_message("hello")
    with pytest.raises(InputTypeError):
        check_message({"role": "assistant", "content": None})


def test_load_with_nothing_is_the_current_model(
    monkeypatch: pytest.MonkeyPatch, scripted_file: Any, tmp_path: Path
) -> None:
    """`load()` returns the session's current model, with options its file; no current one: the demo model."""
    import IPython

    import llama_magic as lm
    from llama_magic.session import session as module

    monkeypatch.setattr(IPython, "get_ipython", lambda: None)
    monkeypatch.setattr(module, "_without_shell", [])
    asked: list[Any] = []
    monkeypatch.setattr("llama_magic.sources.resolve", lambda source, **_: asked.append(source) or 1 / 0)
    monkeypatch.setattr(module, "loaded", list)
    with pytest.raises(ZeroDivisionError):
        lm.load()
    assert asked == [None]
    monkeypatch.undo()
    monkeypatch.setattr(IPython, "get_ipython", lambda: None)
    monkeypatch.setattr(module, "_without_shell", [])
    loaded, others = module.loaded, module.loaded()  # of other tests
    monkeypatch.setattr(module, "loaded", lambda: [m for m in loaded() if m not in others])
    s = current()
    with s.load(str(scripted_file.path), ctx=512, threads=1, name="mine") as model:
        assert lm.load() is model
        assert s.load() is model
        with lm.load(ctx=256, threads=1) as smaller:
            assert (smaller.path, smaller.window) == (model.path, 256)
            assert lm.load() is model
            s.use(next(name for name, known in s.models.items() if known is smaller))
            assert lm.load() is smaller
        assert lm.load(dry_run=True).info.path == model.path


def test_a_chat_is_one_line_of_a_jsonl_file(tmp_path: Path) -> None:
    """As fine-tuning data has it; a file of several lines says how one is taken."""
    turn = Turn([{"role": "user", "content": "a\nb"}, {"role": "assistant", "content": "c"}])
    path = Chat("c", [turn]).save(tmp_path / "c.jsonl")
    line = path.read_text()
    assert line.count("\n") == 1
    assert json.loads(line)["messages"] == turn.messages
    assert Chat.load(path).messages == turn.messages
    path.write_text(line * 2)
    with pytest.raises(SourceError, match=r"holds JSON line by line(.|\n)*rows\[0\]\['messages'\]"):
        Chat.load(path)
    for damaged in (b"{not JSON}\n{}", b'[{"role": "user", "content": "caf\xe9"}]'):
        path.write_bytes(damaged)
        with pytest.raises(SourceError, match="is not JSON"):
            Chat.load(path)
