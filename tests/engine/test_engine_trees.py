"""The tree of tokens that scoring reads: what is shared stands once, and what fits goes together."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from llama_magic.engine.scoring.trees import Portion, TokenTree, trees

TOKENS = st.lists(st.integers(0, 2), min_size=1, max_size=5)
ROWS = st.lists(
    st.tuples(TOKENS, st.lists(TOKENS.map(tuple), min_size=1, max_size=4)), min_size=1, max_size=6
)


def _portions(rows: list[tuple[list[int], list[tuple[int, ...]]]]) -> list[Portion]:
    return [Portion(i, prompt, dict(enumerate(texts))) for i, (prompt, texts) in enumerate(rows)]


def test_two_rows_and_their_options_as_a_tree() -> None:
    """Prompts 1 2 3 and 1 2 4 with texts 5 6 and 5 7: five tokens and two of the texts, in two paths."""
    tree = TokenTree()
    for portion in _portions([([1, 2, 3], [(5, 6), (5, 7)]), ([1, 2, 4], [(5, 6), (8,)])]):
        tree.add(portion)
    tree.number()
    nodes = list(tree.walk())
    assert [(n.token, n.position, n.owners) for n in nodes] == [
        (1, 0, [1, 2]), (2, 1, [1, 2]), (3, 2, [1]), (5, 3, [1]), (4, 2, [2]), (5, 3, [2]),
    ]  # fmt: skip
    assert nodes[2].wanted == [(0, 0, 5), (0, 1, 5)]
    assert nodes[3].wanted == [(0, 0, 6), (0, 1, 7)]
    assert nodes[4].wanted == [(1, 0, 5), (1, 1, 8)]
    assert [n.token for n in tree.held([1, 2, 3, 5])] == [1, 2]  # the odds after 3 are asked for
    assert tree.held([1, 9]) == nodes[:1]


@given(rows=ROWS, size=st.integers(9, 30), paths=st.integers(1, 6), held=TOKENS)
def test_every_token_of_every_text_is_asked_for_once(
    rows: list[tuple[list[int], list[tuple[int, ...]]]], size: int, paths: int, held: list[int]
) -> None:
    """Cut to size or not: each text's tokens, each behind what stands before it, in order."""
    asked: dict[tuple[int, int], list[int]] = {}
    for tree in trees(_portions(rows), size, paths):
        tree.number()
        nodes = list(tree.walk())
        assert len(nodes) == tree.size <= size
        assert sum(not node.children for node in nodes) == tree.leaves <= paths
        held_nodes = tree.held(held)
        assert not any(node.wanted for node in held_nodes)
        assert [n.token for n in held_nodes] == [*held[: len(held_nodes)]]
        last: dict[int, list[int]] = {}
        for node in nodes:
            for owner in node.owners:
                path = last.setdefault(owner, [])
                assert len(path) == node.position
                path.append(node.token)
            for row, text, token in node.wanted:
                found = asked.setdefault((row, text), [])
                before = [*rows[row][0], *found]
                assert all(last[owner] == before for owner in node.owners)
                found.append(token)
    wanted = {(i, j): [*text] for i, (_, texts) in enumerate(rows) for j, text in enumerate(texts)}
    assert asked == wanted


@given(rows=ROWS)
def test_a_piece_that_is_taken_back_leaves_nothing(
    rows: list[tuple[list[int], list[tuple[int, ...]]]],
) -> None:
    """The tree is that of the portions before it: a tree is not built anew for each row that may fit."""
    *before, last = _portions([([9], [(9,)]), *rows])
    tree, plain = TokenTree(), TokenTree()
    for portion in before:
        tree.add(portion)
        plain.add(portion)
    tree.add(last)
    tree.take_back()
    assert (tree.size, tree.leaves, tree.first) == (plain.size, plain.leaves, plain.first)
    assert list(tree.walk()) == list(plain.walk())
