"""Texts after prompts as one tree of tokens, each read once, however many of the texts go through it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Portion:
    """Some texts to score after one prompt: those of `texts` in row `row`, by their places in it."""

    row: int
    prompt: Sequence[int]
    texts: dict[int, tuple[int, ...]]

    @property
    def halves(self) -> tuple[Portion, Portion]:
        """Return two portions with half of the texts each."""
        pairs = list(self.texts.items())
        middle = len(pairs) // 2
        return Portion(self.row, self.prompt, dict(pairs[:middle])), Portion(
            self.row, self.prompt, dict(pairs[middle:])
        )


@dataclass
class TokenNode:
    """A token at a position. `wanted` are the tokens whose odds after it are asked for: row, text, token."""

    token: int
    position: int
    children: dict[int, TokenNode] = field(default_factory=dict)
    wanted: list[tuple[int, int, int]] = field(default_factory=list)
    owners: list[int] = field(default_factory=list)  # the sequences that go through it


class TokenTree:
    """The tree of some portions. `walk` goes through it depth first, so that a path lies in order.

    `size` is how many nodes there are, `leaves` how many paths, each of which is a sequence of its own.
    """

    def __init__(self) -> None:
        self.first: Sequence[int] = ()  # the prompt of the first portion
        self.size = self.leaves = 0
        self._root = TokenNode(-1, -1)
        # What the last portion brought, so that it can be taken back.
        self._before = (0, 0)
        self._made: list[tuple[TokenNode, int]] = []
        self._wanting: list[TokenNode] = []

    def add(self, portion: Portion) -> None:
        """Add the texts of a portion; of each the last token is never read."""
        self.first = self.first or portion.prompt
        self._before, self._made, self._wanting = (self.size, self.leaves), [], []
        end = self._path(self._root, portion.prompt)
        for place, text in portion.texts.items():
            node = end
            for token in text[:-1]:
                self._want(node, (portion.row, place, token))
                node = self._path(node, (token,))
            self._want(node, (portion.row, place, text[-1]))

    def take_back(self) -> None:
        """Be as before the last portion was added, which was not the first."""
        for node in self._wanting:
            node.wanted.pop()
        for parent, token in reversed(self._made):
            del parent.children[token]
        self.size, self.leaves = self._before

    def _want(self, node: TokenNode, wanted: tuple[int, int, int]) -> None:
        node.wanted.append(wanted)
        self._wanting.append(node)

    def _path(self, node: TokenNode, tokens: Sequence[int]) -> TokenNode:
        for token in tokens:
            following = node.children.get(token)
            if following is None:
                # Behind the end of a path that path goes on; elsewhere there is one more.
                self.leaves += bool(node.children) or node is self._root
                following = node.children[token] = TokenNode(token, node.position + 1)
                self.size += 1
                self._made.append((node, token))
            node = following
        return node

    def walk(self) -> Iterator[TokenNode]:
        """Give every node, a path to its end before the next."""
        stack = list(self._root.children.values())[::-1]
        while stack:
            node = stack.pop()
            yield node
            stack += list(node.children.values())[::-1]

    def number(self) -> None:
        """Give each path a sequence, from 1 on, and every node the sequences that go through it."""
        nodes = list(self.walk())
        count = 0
        for node in nodes:
            node.owners = []
            if not node.children:
                count += 1
                node.owners.append(count)
        for node in reversed(nodes):
            for child in node.children.values():
                node.owners += child.owners

    def held(self, tokens: Sequence[int]) -> list[TokenNode]:
        """Return the nodes that need not be read, for `tokens` hold them: the beginning of the first path.

        Those whose odds are asked for are read in any case.
        """
        found: list[TokenNode] = []
        node = self._root
        for token, first in zip(tokens, self.first, strict=False):
            if token != first or node.children[token].wanted:
                break
            node = node.children[token]
            found.append(node)
        return found


def trees(portions: Sequence[Portion], size: int, sequences: int) -> Iterator[TokenTree]:
    """Put portions into trees of at most `size` tokens and `sequences` paths, in order.

    A portion that needs more is cut into portions with fewer texts; one text alone is taken to fit.
    """
    stack = list(portions)[::-1]
    tree = TokenTree()
    while stack:
        portion = stack.pop()
        is_first = not tree.size
        tree.add(portion)
        if tree.size <= size and tree.leaves <= sequences:
            continue
        if not is_first:
            tree.take_back()
            stack.append(portion)
            yield tree
        elif len(portion.texts) > 1:
            stack += portion.halves[::-1]
        else:
            yield tree
        tree = TokenTree()
    if tree.size:
        yield tree
