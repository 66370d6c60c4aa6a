"""What a view is made of: a few kinds of node, each of which HTML, Markdown and plain text can say.

`views` turns an object into nodes, and `render_html`, `render_markdown` and `render_text` turn
nodes into text. So each thing is described once, and each node is written once a format.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from llama_magic.words.tables import Table, cell_text

Tone = Literal["", "warn", "bad"]
Mark = Literal["", "kept", "struck"]


@dataclass(frozen=True)
class Head:
    """The first line of a view: what it is, in bold, then details: figures, or a `sentence` to be read."""

    label: str
    details: str = ""
    tone: Tone = ""
    sentence: bool = False


@dataclass(frozen=True)
class Answer:
    """Text that a model wrote, or that was given to it. `markdown` reads it as light Markdown."""

    text: str
    markdown: bool = False


@dataclass(frozen=True)
class Edited:
    """A text with an editor's marks: "kept" stretches are underlined ({+…+} where nothing can be), "struck"
    ones crossed out ([-…-]).
    """

    parts: tuple[tuple[str, Mark], ...]


@dataclass(frozen=True)
class Line:
    """A sentence of ours, or a line of figures (`dim`)."""

    text: str
    dim: bool = False
    tone: Tone = ""


@dataclass(frozen=True)
class Segment:
    """A stretch of a bar: `kind` chooses its colour, `amount` its width."""

    label: str
    kind: str
    amount: float

    @property
    def words(self) -> str:
        """Name and amount: `system 61`; `user 1: 61` where the name ends in a number."""
        return f"{self.label}{':' if self.label[-1:].isdigit() else ''} {cell_text(self.amount)}"


@dataclass(frozen=True)
class Bar:
    """A bar of segments out of `total`; small ones are drawn large, above a thin bar of the whole.

    Where there is only `room` for less than all of them, the thin bar says how much that is. The words beside
    it say the same, so text formats leave it out.
    """

    segments: tuple[Segment, ...]
    total: float
    legend: bool = False  # name each segment with its amount in text too (HTML does where there are several)
    room: float | None = None

    @property
    def enlarged(self) -> bool:
        """Whether the segments are drawn larger than the whole; one alone would seem to fill it."""
        return len([part for part in self.segments if part.amount > 0]) > 1 and 2 * self.used < self.total

    @property
    def used(self) -> float:
        """The amount of all segments."""
        return sum(part.amount for part in self.segments)


@dataclass(frozen=True)
class Piece:
    """A token: its text, its id, whether it is a control token, a word on hover, a shade from 0 to 1.

    `kind` tints it, with the colours of a bar's segments; `note` is a number that stands beside its shade,
    `below` one that stands under it.
    """

    text: str
    token_id: int | None = None
    special: bool = False
    hint: str = ""
    shade: float = 0.0
    kind: str = ""
    note: str = ""
    below: str = ""


@dataclass(frozen=True)
class Strip:
    """Tokens side by side, blanks shown, control tokens outlined, and in brackets (⟦…⟧)."""

    pieces: tuple[Piece, ...]


@dataclass(frozen=True)
class Grid:
    """A table."""

    table: Table


@dataclass(frozen=True)
class Pages:
    """A table too long for one look, page by page, each with its name.

    HTML shows the first and folds the others; text formats show the first and say `rest`.
    """

    pages: tuple[tuple[str, Table], ...]
    rest: str = ""


@dataclass(frozen=True)
class Branch:
    """A node of a tree: its words, how much it is (a bar beside them), and what grows from it."""

    text: str
    amount: float = 0.0
    branches: tuple[Branch, ...] = ()


@dataclass(frozen=True)
class Tree:
    """Branches within branches: nested lists, so that its shape needs no picture."""

    branches: tuple[Branch, ...]

    @property
    def largest(self) -> float:
        """The largest amount, at least 1."""
        return max([1.0, *(branch.amount for _, branch in self.flat())])

    def flat(self) -> Iterator[tuple[int, Branch]]:
        """Yield every branch with its depth, from the top down."""

        def walk(branches: tuple[Branch, ...], depth: int) -> Iterator[tuple[int, Branch]]:
            for branch in branches:
                yield depth, branch
                yield from walk(branch.branches, depth + 1)

        return walk(self.branches, 0)


@dataclass(frozen=True)
class Code:
    """Verbatim text in a fixed-width face; a `template` is Jinja, its parts told apart.

    What is `drawn` of characters is lost where a line of it breaks: on a narrow page it scrolls.
    """

    text: str
    template: bool = False
    drawn: bool = False


@dataclass(frozen=True)
class Fold:
    """Nodes behind a summary: closed in HTML, indented in text, where a `brief` one shows its first lines."""

    summary: str
    nodes: tuple[Node, ...]
    brief: bool = False


Node = Head | Answer | Edited | Line | Bar | Strip | Grid | Pages | Tree | Code | Fold
