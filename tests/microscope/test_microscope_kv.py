"""The KV state against llama.cpp's own positions; forks, saved files, and continuations that are equal."""

from __future__ import annotations

import hashlib
import json
import re
import struct
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from llama_magic.display import to_html, to_text
from llama_magic.display.static import inline
from llama_magic.engine.kv.store import Stretch
from llama_magic.engine.moves import SavedSequence
from llama_magic.engine.snapshot import LaneState, LastCall
from llama_magic.errors import BackendError, OptionError, SourceError
from llama_magic.microscope import savefile
from llama_magic.microscope.cells import KVSequence, KVState

PROMPT = "The lighthouse stood at the end of the point, and every evening the keeper climbed its steps. " * 5


def check(model: Any) -> KVState:
    """Hold the state against `llama_memory_seq_pos_min/max` of every sequence of every context."""
    state: KVState = model.kv
    spans: dict[str, tuple[int, int]] = {}

    def ask(core: Any) -> None:
        for name, lane in core.lanes.named:
            for slot in lane.kv.slots:
                spans[f"{name}-{slot.sequence}"] = lane.context.span(slot.sequence)
            for helper in lane.kv.helpers[: 1 if lane.together else 2]:  # there what was let go is pinned
                assert lane.context.span(helper) == (-1, -1)

    model.backend.call(ask)
    held = {s.id: s for s in state.sequences if s.place == "cells"}
    for name, span in spans.items():
        expected = (0, held[name].n_tokens - 1) if name in held else (-1, -1)
        assert span == expected, name
        if name in held:
            assert held[name].span == span
    assert state.used + state.free == state.total
    assert state.used <= sum(s.n_tokens for s in held.values())
    return state


def test_the_state_is_llama_cpps_after_every_call(model: Any) -> None:
    """After calls of every kind each sequence has exactly the positions that the state says."""
    assert check(model).used == 0
    answer = model.complete(PROMPT, max_tokens=4)
    state = check(model)
    (only,) = (s for s in state.sequences if s.place == "cells")
    assert only.token_ids == (*answer.prompt_token_ids, *answer.token_ids[:-1])  # the last is not fed
    assert state.used == only.n_tokens
    assert only.n_read == len(answer.prompt_token_ids)
    assert state.last is not None
    assert (state.last.reused, state.last.read) == (0, len(answer.prompt_token_ids))

    model.complete(PROMPT + "Then", max_tokens=3)
    state = check(model)
    assert state.last is not None
    assert state.last.reused > 80
    assert state.last.saved_s is not None
    assert state.last.saved_s > 0

    model.complete("Something else entirely", max_tokens=3)
    state = check(model)
    assert any(s.place == "host memory" for s in state.sequences)
    assert state.host_bytes == sum(s.bytes for s in state.sequences if s.place == "host memory")

    model.complete("The sky is", max_tokens=5, n=3, temperature=1.5)
    state = check(model)
    shared = [s for s in state.sequences if s.place == "cells"]
    assert len(shared) == 3
    assert state.used < sum(s.n_tokens for s in shared)

    model.complete("The sky is", max_tokens=5, seed=1)
    model.complete("The sky is", max_tokens=5, seed=1, n=2)
    check(model)
    stream = model.complete("On and on", max_tokens=40, stream=True)
    next(iter(stream))
    stream.cancel()
    check(model)
    model.kv_clear()
    state = check(model)
    assert (state.used, state.host_bytes, state.sequences) == (0, 0, ())


def test_shared_cells_are_counted_once(short: Any) -> None:
    """Three samples of one prompt take its cells once, and each its own last prompt token and answer."""
    short.kv_clear()
    answers = short.complete(
        "The sky over the old harbour is", max_tokens=4, n=3, temperature=1.5, ignore_eos=True
    )
    prompt = len(answers[0].prompt_token_ids)
    written = [len(a.token_ids) for a in answers]
    assert check(short).used == (prompt - 1) + sum(1 + n - 1 for n in written)


def test_restored_continuations_are_fresh_ones(model: Any, tmp_path: Path) -> None:
    """Saved, forgotten and restored, a sequence goes on exactly as after a cold read, and is reused."""
    path = tmp_path / "sequence.kv"
    model.complete(PROMPT, max_tokens=4, seed=7)
    assert model.kv_save(path) == path
    model.kv_clear()
    fresh = model.complete(PROMPT + "Then", max_tokens=12, seed=7)
    assert fresh.usage.cached_tokens == 0
    model.kv_clear()
    model.kv_restore(path)
    assert check(model).used == 0
    restored = model.complete(PROMPT + "Then", max_tokens=12, seed=7)
    check(model)
    assert restored.token_ids == fresh.token_ids
    assert restored.usage.cached_tokens >= 64


def test_an_unseeded_sequence_goes_on_where_it_was(model: Any, tmp_path: Path) -> None:
    """Greedy without a seed: the restored sequence writes what the live one writes, nothing read again."""
    answer = model.complete(PROMPT, max_tokens=6, temperature=0.0)
    longer = PROMPT + answer.text
    model.kv_save(tmp_path / "s.kv")
    live = model.complete(longer, max_tokens=8, temperature=0.0)
    model.kv_clear()
    model.kv_restore(tmp_path / "s.kv")
    restored = model.complete(longer, max_tokens=8, temperature=0.0)
    assert restored.token_ids == live.token_ids
    assert restored.usage.cached_tokens == live.usage.cached_tokens > 80


def test_forks_go_on_as_fresh_ones(model: Any) -> None:
    """Two ways on from one fork are each what a cold read writes; neither disturbs the other."""
    ends = ("Then", "But nobody")
    fresh = []
    for end in ends:
        model.kv_clear()
        fresh.append(model.complete(PROMPT + end, max_tokens=8, seed=7).token_ids)
    model.kv_clear()
    model.complete(PROMPT, max_tokens=3, seed=7)
    source = next(s.id for s in model.kv.sequences if s.place == "cells")
    model.kv_fork(source, "draft")
    for end, tokens in zip(ends, fresh, strict=True):
        again = model.complete(PROMPT + end, max_tokens=8, seed=7)
        assert again.token_ids == tokens
        assert again.usage.cached_tokens >= 64
    check(model)


def test_a_fork_shares_its_cells(short: Any) -> None:
    """Forking uses no cell; the fork has a name, survives other calls in host memory, and can be saved."""
    short.kv_clear()
    short.complete(PROMPT, max_tokens=3)
    before = check(short)
    source = before.sequences[0]
    short.kv_fork(source.id, "draft")
    after = check(short)
    assert after.used == before.used
    assert after["draft"].token_ids == source.token_ids
    short.complete("Something else", max_tokens=2)
    assert check(short)["draft"].place == "host memory"
    short.kv_fork("draft", "second")
    for wrong in ("draft", "main-3", ""):
        with pytest.raises(OptionError):
            short.kv_fork("draft", wrong)
    with pytest.raises(OptionError, match=r"It holds: .*draft"):
        short.kv_fork("nothing", "x")


def test_a_fork_is_kept_whatever_comes_after(short: Any, tmp_path: Path) -> None:
    """A short fork survives a call that goes on with its text and calls that do not, under its one name: for
    save, fork, a lookup and the tree; it holds its own tokens, and the call that goes on reuses them.
    """
    short.kv_clear()
    short.complete("One two three four five six seven", max_tokens=4, temperature=0)
    source = short.kv.sequences[0]
    short.kv_fork(source.id, "branch")
    longer = short.complete("One two three four five six seven eight", max_tokens=4, temperature=0)
    assert longer.usage.cached_tokens == 7
    for text in ("Another text", "A third one here"):
        short.complete(text, max_tokens=2)
        state = check(short)
        assert state["branch"].token_ids == source.token_ids
        assert state["branch"].n_read == source.n_read == 7
        assert state.forks == (("branch", source.n_tokens),)
        assert "= branch" in state.tree_text()
    short.kv_save(tmp_path / "s.kv", sequence="branch")
    short.kv_fork("branch", "second")
    assert check(short)["second"].token_ids == source.token_ids
    with pytest.raises(OptionError) as caught:
        short.kv_save(tmp_path / "t.kv", "third")
    assert caught.value.remedy.count("branch") == 1
    short.kv_clear()
    assert short.kv.forks == ()
    short.kv_restore(tmp_path / "s.kv")
    assert short.kv.sequences[0].n_read == 7


def test_more_forks_than_slots_are_all_kept(short: Any) -> None:
    """Twenty forks of a running cache of sixteen sequences are each there, in cells or in host memory."""
    short.kv_clear()
    short.complete("One two three four", max_tokens=2)
    source = short.kv.sequences[0]
    names = [f"fork{i}" for i in range(20)]
    for name in names:
        short.kv_fork(source.id, name)
    short.complete("One two three four five", max_tokens=2, temperature=0)
    state = check(short)
    assert sorted(name for name, _ in state.forks) == sorted(names)
    assert {state[name].token_ids for name in names} == {source.token_ids}
    assert all(name in state.tree_text() for name in names)


def test_a_fork_of_a_short_seeded_sequence_is_kept(short: Any) -> None:
    """For calls with a seed; where those run one at a time, and reuse 64 tokens or none, for others."""
    short.kv_clear()
    short.complete("One two three four", max_tokens=2, seed=1)
    source = short.kv.sequences[0]
    assert source.id.startswith("seeded-")
    short.kv_fork(source.id, "short")
    assert short.kv["short"].token_ids == source.token_ids
    seed = 1 if short.backend.call(lambda core: core.lane(exact=True).together) else None
    assert short.complete("One two three four five", max_tokens=2, seed=seed).usage.cached_tokens == 4


def test_forks_and_saves_go_on_beside_running_answers(short: Any, tmp_path: Path) -> None:
    """The jobs run between two steps: a stream that is being written is not disturbed."""
    short.kv_clear()
    alone = short.complete("Once upon a time", max_tokens=24, seed=3)
    short.kv_clear()
    short.complete(PROMPT, max_tokens=2)
    stream = short.complete("Once upon a time", max_tokens=24, seed=3, stream=True)
    next(iter(stream))
    short.kv_save(tmp_path / "s.kv")
    short.kv_restore(tmp_path / "s.kv")
    short.kv_clear()
    for _ in stream:
        pass
    assert stream.completion.token_ids == alone.token_ids
    check(short)


# --- the file -----------------------------------------------------------------------------------

OWNER = savefile.Fingerprint("abc", 100, {"type_k": "f16", "type_v": "f16"})
SAVED = SavedSequence((1, 2, 3, 99), 2, (Stretch(0, 2, b"first"), Stretch(2, 4, b"second!")))


def test_a_file_comes_back_as_it_was(tmp_path: Path) -> None:
    """Tokens, stretches and states are the same after a round trip; nothing else is left in the folder."""
    path = savefile.write(tmp_path / "a b.kv", SAVED, OWNER)
    assert savefile.read(path, OWNER) == SAVED
    assert list(tmp_path.iterdir()) == [path]
    assert b"pickle" not in path.read_bytes()


@settings(max_examples=200, deadline=None)
@given(data=st.data())
def test_a_damaged_file_is_refused(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Any changed byte, any cut and anything appended is a SourceError, never a sequence."""
    path = savefile.write(tmp_path_factory.mktemp("kv") / "s.kv", SAVED, OWNER)
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    kind = data.draw(st.sampled_from(["change", "cut", "append"]))
    if kind == "change":
        mask = data.draw(st.integers(1, 255))
        bad = whole[:place] + bytes([whole[place] ^ mask]) + whole[place + 1 :]
    else:
        bad = whole[:place] if kind == "cut" else whole + bytes(1 + place)
    path.write_bytes(bad)
    with pytest.raises(SourceError):
        savefile.read(path, OWNER)


@pytest.mark.parametrize(
    "changes",
    [
        {"n_tokens": 5},
        {"n_tokens": -1},
        {"exact_length": 9},
        {"stretches": [[0, 2, 5], [3, 4, 7]]},
        {"stretches": [[0, 4, 13]]},
        {"stretches": [[0, 2, 5], [2, 2, 7]]},
        {"stretches": "x"},
        {"stretches": []},
        {"n_tokens": None},
    ],
    ids=str,
)
def test_a_forged_header_is_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    """A header that contradicts the content is refused even where the checksum fits."""
    data = savefile.write(tmp_path / "s.kv", SAVED, OWNER).read_bytes()
    magic, version, length = struct.unpack_from("<8sII", data)
    header = json.dumps(json.loads(data[16 : 16 + length]) | changes).encode()
    body = struct.pack("<8sII", magic, version, len(header)) + header + data[16 + length : -32]
    (tmp_path / "s.kv").write_bytes(body + hashlib.sha256(body).digest())
    if changes == {"stretches": [[0, 4, 13]]}:
        with pytest.raises(SourceError, match="do not add up"):
            savefile.read(tmp_path / "s.kv", OWNER)
        return
    with pytest.raises(SourceError, match="damaged"):
        savefile.read(tmp_path / "s.kv", OWNER)


def test_another_models_file_is_refused(short: Any, gemma: Any, tmp_path: Path) -> None:
    """The error says which model or which option differs; other files are called what they are."""
    short.complete("Hello there", max_tokens=2)
    path = short.kv_save(tmp_path / "s.kv")
    with pytest.raises(SourceError, match=r"another model file .*49152 tokens; this one has .*262144"):
        gemma.kv_restore(path)
    other = savefile.Fingerprint("abc", 100, {"type_k": "q8_0", "type_v": "f16"})
    own = savefile.write(tmp_path / "o.kv", SAVED, OWNER)
    with pytest.raises(SourceError, match="type_k f16 there, q8_0 here"):
        savefile.read(own, other)
    (tmp_path / "x.kv").write_bytes(b"\x80\x04pickled")
    with pytest.raises(SourceError, match="not a saved sequence"):
        short.kv_restore(tmp_path / "x.kv")
    for length in (0, 3, 10, 40):
        (tmp_path / "x.kv").write_bytes(path.read_bytes()[:length])
        with pytest.raises(SourceError, match=f"cut short after {length} bytes"):
            short.kv_restore(tmp_path / "x.kv")
    with pytest.raises(SourceError, match="cannot be read"):
        short.kv_restore(tmp_path / "none.kv")
    with pytest.raises(SourceError, match="cannot be written"):
        short.kv_save(tmp_path / "no folder" / "s.kv")


def spoilt(path: Path) -> bytes:
    """Return a saved sequence whose last layer's values are NaN, under a checksum that is right."""
    body = bytearray(path.read_bytes()[:-32])
    body[-30_000:] = b"\x7e" * 30_000  # a NaN of two bytes is these, in any order
    return bytes(body) + hashlib.sha256(body).digest()


def test_a_saved_sequence_that_is_no_numbers_is_refused(short: Any, tmp_path: Path) -> None:
    """Its checksum is right. Nothing of it stays in the cells, and forks that were there are."""
    short.kv_clear()
    short.complete(PROMPT, max_tokens=1)
    path = short.kv_save(tmp_path / "s.kv")
    (tmp_path / "bad.kv").write_bytes(spoilt(path))
    short.kv_fork(short.kv.sequences[0].id, "mine")
    with pytest.raises(BackendError, match="holds values that are no numbers"):
        short.kv_restore(tmp_path / "bad.kv")
    assert [s.names for s in short.kv.sequences if s.names] == [("mine",)]
    answer = short.complete(PROMPT + "And", max_tokens=3, temperature=0.01)
    assert answer.usage.completion_tokens == 3
    short.kv_restore(path)


def test_cells_that_are_no_numbers_are_forgotten(short: Any, tmp_path: Path) -> None:
    """The answer that met them fails and says so; who asks next reads the text anew."""
    short.kv_clear()
    short.complete(PROMPT, max_tokens=1)
    path = short.kv_save(tmp_path / "s.kv")
    path.write_bytes(spoilt(path))
    held = savefile.read(path, short._fingerprint(short.backend))
    short.kv_clear()
    short.backend.call(
        lambda core: core.lane(exact=False).kv.store.put(list(held.tokens), list(held.stretches))
    )
    with pytest.raises(BackendError, match=r"no usable logits at token 1 \(largest is nan\)(.|\n)*Ask again"):
        short.complete(PROMPT + "And", max_tokens=3, temperature=0.5)
    answer = short.complete(PROMPT + "And", max_tokens=3, temperature=0.5)
    assert (answer.usage.cached_tokens, answer.usage.completion_tokens) == (0, 3)


# --- the pure parts -----------------------------------------------------------------------------


def sequence(name: str, text: str) -> KVSequence:
    raw = tuple(c.encode() for c in text)
    return KVSequence(name, "cells", "main", tuple(map(ord, text)), raw, len(text), 0)


def state(**texts: str) -> KVState:
    return KVState((), tuple(sequence(n, t) for n, t in texts.items()), 1, "f16", "f16", 0)


def test_a_character_of_several_tokens_is_whole_in_the_text() -> None:
    """Tokens are pieces of bytes; a tree shows a mark only where sequences part within a character."""
    parts = (b"a\xe6", b"\xbc", b"\xa2b")
    one = KVSequence("one", "cells", "main", (1, 2, 3), parts, 3, 0)
    other = KVSequence("other", "cells", "main", (1, 2, 4), (*parts[:2], b"\xa3"), 3, 0)
    assert one.text == "a漢b"
    assert one.pieces == ("a\ufffd", "\ufffd", "\ufffdb")
    held = KVState((), (one,), 1, "f16", "f16", 0)
    assert [node.text for node in held.tree] == ["a漢b"]
    (root,) = KVState((), (one, other), 1, "f16", "f16", 0).tree
    assert (root.text, [node.text for node in root.children]) == ("a\ufffd", ["\ufffdb", "\ufffd"])
    assert "a漢b" in to_text(held)


def test_the_tree_parts_where_sequences_part() -> None:
    """Each node holds what its sequences share; a sequence that ends inside another has no child."""
    tree = state(a="hello world", b="hello there", c="hello", d="x").tree
    assert [(node.text, node.sequences) for node in tree] == [("hello", ("a", "b", "c")), ("x", ("d",))]
    (space,) = tree[0].children
    assert (space.text, space.sequences) == (" ", ("a", "b"))
    assert [node.text for node in space.children] == ["world", "there"]


@given(st.dictionaries(st.sampled_from("abcdef"), st.text("xy", min_size=1, max_size=6), min_size=1))
def test_every_sequence_can_be_read_off_the_tree(texts: dict[str, str]) -> None:
    """Joined along the way to its last node, the texts are the sequence; no two children begin alike."""
    found: dict[str, str] = {}

    def walk(nodes: Any, before: str) -> None:
        assert len({node.text[0] for node in nodes}) == len(nodes)
        for node in nodes:
            for name in node.sequences:
                found[name] = before + node.text
            walk(node.children, before + node.text)

    walk(state(**texts).tree, "")
    assert found == texts


def test_the_tree_is_lists_within_lists() -> None:
    """Its shape stands in the elements, model text is escaped, and there is no picture to lose."""
    held = state(a="<script>alert(1)</script>", b="<scratch")
    html = re.sub(r"<(?!/?(ul|li)\b)[^>]*>", "", to_html(held))
    tree = re.sub(r' (?:class|style)="[^"]*"', "", html[html.index("<ul") :])
    longer = "21 tokens “ipt&gt;alert(1)&lt;/script&gt;” · a"
    assert tree.startswith(f"<ul><li>4 tokens “&lt;scr” · a, b<ul><li>{longer}</li>")
    assert "<li>4 tokens “atch” · b</li></ul></li></ul>" in tree
    text = held.tree_text()
    assert text.splitlines()[0] == "4 tokens “<scr” a, b"
    assert len(held.to_pandas()) == 25 + 8


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a text of forty characters, not one more", "a text of forty characters, not one more"),
        ("Once upon a time there was a keeper of a lighthouse.", "Once upon a time … of a lighthouse."),
        (
            "<|start|>system\nYou are helpful<|end|>\n<|start|>user\nHi",
            "<|start|>system↵You … <|start|>user↵Hi",
        ),
        ("x" * 50, "x" * 20 + " … " + "x" * 20),
    ],
)
def test_a_label_of_the_tree_breaks_at_words(text: str, words: str) -> None:
    """At most forty characters of a text stand there, whole words from its two ends; a long word is cut."""
    (node,) = state(a=text).tree
    assert node.words() == f"{len(text)} tokens “{words}”"


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (LastCall(80, 64, 16, 0.5), "64 of 80 prompt tokens reused, 16 read; about 0.50 s saved."),
        (LastCall(80, 0, 80, None, "fresh"), "80 read. Nothing was to be reused, as it was asked for."),
        (LastCall(80, 0, 80, None, "empty", "seeded"), "80 read. The seeded context held nothing yet."),
        (LastCall(80, 0, 80, None, "other"), "80 read. What the main context holds begins otherwise."),
        (LastCall(80, 0, 80, None, "short", "seeded", 1), "1 token at the beginning is held, and the seeded"),
        (
            LastCall(80, 0, 80, None, "state", "main", 70),
            "70 tokens at the beginning are held, but this",
        ),
    ],
)
def test_the_view_says_what_was_reused_and_why_nothing_was(last: LastCall, words: str) -> None:
    """A sentence for each reason; each context has its cells, its colour in the bar, and what it is for."""
    lanes = (LaneState("main", 100, 30, 10**6, 0, 10**6), LaneState("seeded", 100, 7, 10**6, 0, 10**6))
    shown = KVState(lanes, (sequence("main-1", "hello"),), 1000, "f16", "f16", 0, last)
    text = to_text(shown)
    assert words in text
    assert re.search(r"^main +30 +70 +1 MB +answers without a seed", text, re.MULTILINE)
    assert re.search(r"^seeded +7 +93 +1 MB +answers with a seed", text, re.MULTILINE)
    html = to_html(shown).replace("\u00a0", " ")
    for kind, named in (("user", "main context 30"), ("variable", "seeded context 7")):
        colour = inline.declarations()[f"lm-k-{kind}"].rstrip(";")
        assert re.search(rf'{re.escape(colour)}"> +</span> {named}', html)
