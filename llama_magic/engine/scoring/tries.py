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
        """Return two pieces with half of the texts each."""
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
    """The tree of some pieces. `walk` goes through it depth first, so that a path lies in order.

    `size` is how many nodes there are, `leaves` how many paths, each of which is a sequence of its own.
    """

    def __init__(self) -> None:
        self.first: Sequence[int] = ()  # the prompt of the first piece
        self.size = self.leaves = 0
        self._root = TokenNode(-1, -1)
        # What the last piece brought, so that it can be taken back.
        self._before = (0, 0)
        self._made: list[tuple[TokenNode, int]] = []
        self._wanting: list[TokenNode] = []

    def add(self, piece: Portion) -> None:
        """Add the texts of a piece; of each the last token is never read."""
        self.first = self.first or piece.prompt
        self._before, self._made, self._wanting = (self.size, self.leaves), [], []
        end = self._path(self._root, piece.prompt)
        for place, text in piece.texts.items():
            node = end
            for token in text[:-1]:
                self._want(node, (piece.row, place, token))
                node = self._path(node, (token,))
            self._want(node, (piece.row, place, text[-1]))

    def take_back(self) -> None:
        """Be as before the last piece was added, which was not the first."""
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


def tries(pieces: Sequence[Portion], size: int, sequences: int) -> Iterator[TokenTree]:
    """Put pieces into trees of at most `size` tokens and `sequences` paths, in order.

    A piece that needs more is cut into pieces with fewer texts; one text alone is taken to fit.
    """
    stack = list(pieces)[::-1]
    trie = TokenTree()
    while stack:
        piece = stack.pop()
        is_first = not trie.size
        trie.add(piece)
        if trie.size <= size and trie.leaves <= sequences:
            continue
        if not is_first:
            trie.take_back()
            stack.append(piece)
            yield trie
        elif len(piece.texts) > 1:
            stack += piece.halves[::-1]
        else:
            yield trie
        trie = TokenTree()
    if trie.size:
        yield trie
