"""The KV cache as data: sequences and their tokens, what shares what, bytes, and the prefix tree."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from llama_magic.engine.kv.store import common_prefix
from llama_magic.engine.snapshot import HeldSequence, LaneState, LastCall, Snapshot, snapshot
from llama_magic.words.counting import counted
from llama_magic.words.harmless import one_line
from llama_magic.words.shown import Printed

if TYPE_CHECKING:
    from llama_magic.engine.engine import Engine
    from llama_magic.gguf import GGUFInfo
    from llama_magic.request.tokenizer import Tokenizer

_SHOWN = 40  # characters of a text in the tree


@dataclass(frozen=True)
class KVSequence:
    """One sequence: its tokens stand at positions 0, 1, 2, …

    `id` names it (`main-0` lies in the cells of the context that was loaded, `seeded-0` in those of the
    one for answers with a seed, `main-parked-1` in host memory); `names` are those given by `fork`.
    The first `n_read` tokens were read as a prompt, the others were written. `span` is
    llama.cpp's own lowest and highest position, None in host memory.
    """

    id: str
    place: str
    lane: str
    token_ids: tuple[int, ...]
    raw: tuple[bytes, ...] = field(repr=False)  # of each token; a character may be spread over several
    n_read: int
    bytes: int
    names: tuple[str, ...] = ()
    running: bool = False
    span: tuple[int, int] | None = None

    @property
    def n_tokens(self) -> int:
        return len(self.token_ids)

    @property
    def pieces(self) -> tuple[str, ...]:
        """The text of each token by itself, with a replacement character for what is no whole one."""
        return tuple(_decoded(piece) for piece in self.raw)

    @property
    def text(self) -> str:
        return _decoded(b"".join(self.raw))

    @property
    def owner(self) -> str:
        """Where it lies, in words, and the names that it was given."""
        state = "running" if self.running else "idle"
        where = f"{self.lane} context, {state}" if self.place == "cells" else "parked"
        return ", ".join((*self.names, where))


@dataclass(frozen=True)
class PrefixNode:
    """Tokens that all of `sequences` hold from here on, and where they part.

    A sequence is its id, with the names of forks: `main-1 = draft`.
    """

    token_ids: tuple[int, ...]
    text: str
    sequences: tuple[str, ...]
    children: tuple[PrefixNode, ...] = ()

    def words(self) -> str:
        """Say how many tokens, and which: of a long text the words at its two ends."""
        return f"{counted(len(self.token_ids), 'token')} “{one_line(_ends(self.text))}”"


def _ends(text: str) -> str:
    """Return a text, of a long one the words at its two ends; a word that is long itself is cut."""
    if len(text) <= _SHOWN:
        return text
    half, words = _SHOWN // 2, re.findall(r"\s*\S+", text)
    ends = [
        list(itertools.accumulate(words)),
        list(itertools.accumulate(reversed(words), lambda a, b: b + a)),
    ]
    first, last = (max((end for end in of if len(end) <= half), key=len, default="") for of in ends)
    return f"{first or text[:half]} … {(last or text[-half:]).lstrip()}"


@dataclass(frozen=True)
class KVState(Printed):
    """The KV caches of a model at one moment.

    `used` and `total` count cells (a cell that sequences share is counted once); `bytes` is what
    the used ones hold, `bytes_total` what is allocated for the full window of every context.
    `sliding_window` is how far back the sliding-window layers look, 0 without any. `last` says
    what the last call reused.
    """

    lanes: tuple[LaneState, ...]
    sequences: tuple[KVSequence, ...]
    bytes_per_token: int
    type_k: str
    type_v: str
    sliding_window: int
    last: LastCall | None = None

    @property
    def forks(self) -> tuple[tuple[str, int], ...]:
        """The names that `fork` gave, each with its number of tokens."""
        return tuple((name, s.n_tokens) for s in self.sequences for name in s.names)

    @property
    def used(self) -> int:
        return sum(lane.used for lane in self.lanes)

    @property
    def total(self) -> int:
        return sum(lane.cells for lane in self.lanes)

    @property
    def free(self) -> int:
        return self.total - self.used

    @property
    def bytes(self) -> int:
        return self.used * self.bytes_per_token

    @property
    def bytes_total(self) -> int:
        return sum(lane.kv_bytes for lane in self.lanes)

    @property
    def host_bytes(self) -> int:
        """Bytes of host memory that sequences moved out of the cells take."""
        return sum(lane.host_bytes for lane in self.lanes)

    def __getitem__(self, name: str) -> KVSequence:
        for sequence in self.sequences:
            if name == sequence.id or name in sequence.names:
                return sequence
        raise KeyError(name)

    @property
    def tree(self) -> tuple[PrefixNode, ...]:
        """Everything in the caches as a tree of common beginnings, a root for each first token."""
        items = [(" = ".join((s.id, *s.names)), s.token_ids, s.raw) for s in self.sequences if s.token_ids]
        return tuple(_nodes(items, 0))

    def tree_text(self) -> str:
        """Return the prefix tree as indented lines."""
        return "\n".join(f"{'  ' * depth}{_words(node)}" for depth, node in _flat(self.tree))

    def to_pandas(self) -> Any:
        """Return one row a token: sequence, place, position, id, text, read (else written)."""
        import pandas

        columns = ["sequence", "place", "position", "id", "text", "read"]
        rows = [
            (s.id, s.place, i, token, piece, i < s.n_read)
            for s in self.sequences
            for i, (token, piece) in enumerate(zip(s.token_ids, s.pieces, strict=True))
        ]
        return pandas.DataFrame(rows, columns=columns)


def kv_state(engine: Engine, tokenizer: Tokenizer, info: GGUFInfo) -> KVState:
    """Return what the caches of a model hold now; see `Model.kv`."""
    taken: Snapshot = engine.call(snapshot)
    options = engine.options.context
    per_token = sum(info.kv_bytes_per_token(options.type_k, options.type_v, options.swa_full))
    return KVState(
        lanes=taken.lanes,
        sequences=tuple(_sequence(tokenizer, held, per_token) for held in taken.sequences),
        bytes_per_token=per_token,
        type_k=options.type_k,
        type_v=options.type_v,
        sliding_window=engine.weights.n_swa,
        last=taken.last,
    )


def _sequence(tokenizer: Tokenizer, held: HeldSequence, per_token: int) -> KVSequence:
    return KVSequence(
        id=held.id,
        place="cells" if held.in_cells else "host memory",
        lane=held.lane,
        token_ids=held.tokens,
        raw=tuple(tokenizer.piece(token) for token in held.tokens),
        n_read=held.n_read,
        bytes=len(held.tokens) * per_token if held.in_cells else held.host_bytes,
        names=held.names,
        running=held.running,
        span=held.span,
    )


def _decoded(raw: bytes) -> str:
    return raw.decode("utf-8", "replace")


# --- the prefix tree ----------------------------------------------------------------------------

_Item = tuple[str, tuple[int, ...], tuple[bytes, ...]]  # id, tokens, their bytes


def _nodes(items: Sequence[_Item], depth: int) -> Iterator[PrefixNode]:
    """Yield a node for each group of sequences that go on with the same token at position `depth`."""
    groups: dict[int, list[_Item]] = {}
    for item in items:
        if len(item[1]) > depth:
            groups.setdefault(item[1][depth], []).append(item)
    for group in groups.values():
        first = group[0]
        end = min(common_prefix(first[1], other[1]) for other in group)
        yield PrefixNode(
            first[1][depth:end],
            _decoded(b"".join(first[2][depth:end])),
            tuple(item[0] for item in group),
            tuple(_nodes(group, end)),
        )


def _flat(nodes: Sequence[PrefixNode], depth: int = 0) -> Iterator[tuple[int, PrefixNode]]:
    for node in nodes:
        yield depth, node
        yield from _flat(node.children, depth + 1)


def _words(node: PrefixNode) -> str:
    return f"{node.words()} {', '.join(node.sequences)}"
