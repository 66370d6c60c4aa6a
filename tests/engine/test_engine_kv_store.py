"""Sequences in host memory: found by their tokens, kept within a budget."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from llama_magic.engine.kv.store import PrefixStore, Stretch, common_prefix


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
def test_common_prefix_counts_equal_leading_tokens(a: list[int], b: list[int]) -> None:
    """`common_prefix` agrees with a loop."""
    n = 0
    while n < min(len(a), len(b)) and a[n] == b[n]:
        n += 1
    assert common_prefix(a, b) == n


def _state(size: int) -> list[Stretch]:
    return [Stretch(0, 1, b"x" * size)]


def test_store_keeps_the_longest_and_the_latest() -> None:
    """A sequence replaces those that it extends; within the budget the least recently used goes first."""
    store = PrefixStore(100)
    store.put([1, 2], _state(20))
    store.put([1, 2, 3], _state(30))
    assert [e.tokens for e in store.entries] == [[1, 2, 3]]
    store.put([1], _state(10))  # already covered
    assert store.bytes_used == 30
    store.put([7], _state(40))
    assert store.best([1, 2, 9], 3)[1] == 2  # and is used now
    store.put([8], _state(40))
    assert sorted(e.tokens for e in store.entries) == [[1, 2, 3], [8]]
    store.put([9], _state(101))  # larger than the budget
    assert sorted(e.tokens for e in store.entries) == [[1, 2, 3], [8]]
    assert store.best([5], 1) == (None, 0)
    store.clear()
    assert (store.entries, store.bytes_used) == ([], 0)


def test_what_is_put_again_counts_as_used() -> None:
    """Also where a longer sequence covers it, which stays in its place."""
    store = PrefixStore(100)
    store.put([1, 2, 3], _state(40))
    store.put([7], _state(40))
    store.put([1, 2], _state(30))
    store.put([8], _state(40))
    assert [entry.tokens for entry in store.entries] == [[1, 2, 3], [8]]


def test_a_state_that_is_of_use_as_a_whole_stands_for_no_other() -> None:
    """Of a recurrent model each is kept; a prompt takes the longest that it contains."""
    store = PrefixStore(100, recurrent=True)
    for tokens in ([1, 2, 3], [1, 2, 3, 4, 5], [1, 2]):
        store.put(tokens, _state(20))
    store.put([1, 2], _state(30))
    assert [e.tokens for e in store.entries] == [[1, 2, 3], [1, 2, 3, 4, 5], [1, 2]]
    for prompt, limit, length in (
        ([1, 2, 3, 4, 9], 4, 3),
        ([1, 2, 3, 4, 5, 6], 5, 5),
        ([1, 2, 3, 4, 5], 4, 3),
        ([1, 2, 9], 2, 2),
        ([1, 9], 1, 0),
    ):
        entry, taken = store.best(prompt, limit)
        assert taken == length
        assert (None if entry is None else entry.tokens) == (prompt[:length] or None)


@given(
    st.lists(st.tuples(st.lists(st.integers(0, 2), min_size=1, max_size=5), st.integers(1, 60)), max_size=20)
)
def test_store_never_exceeds_its_budget(puts: list[tuple[list[int], int]]) -> None:
    """`bytes_used` is the sum over the entries, and at most the budget."""
    store = PrefixStore(100)
    for tokens, size in puts:
        store.put(tokens, _state(size))
        assert store.bytes_used == sum(e.size for e in store.entries) <= 100


def test_a_fork_gives_way_to_the_budget_of_host_memory_only() -> None:
    """A named entry is not replaced by a longer one; over the budget the oldest goes, names and all."""
    store = PrefixStore(30)
    store.put([1, 2], [Stretch(0, 2, bytes(10))], 2, ("a",))
    store.put([1, 2, 3], [Stretch(0, 3, bytes(12))], 3)
    store.put([1, 2], [Stretch(0, 2, bytes(10))], 2, ("b",))
    assert [(e.tokens, e.names) for e in store.entries] == [([1, 2], ["a", "b"]), ([1, 2, 3], [])]
    store.put([9], [Stretch(0, 1, bytes(25))])
    assert [(e.tokens, e.names) for e in store.entries] == [([9], [])]
