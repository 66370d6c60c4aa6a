"""Scoring where rows are alike: many rows and all their texts in one batch, each token of their tree once.

A token may belong to many sequences: those of all texts that go through it. A path is decoded from its
beginning to its end, so its cells lie in the order of its positions, whatever lies between them: that, and
nothing else, decides the bits. For the same reason only the first path is left for the next rows: its cells
lie at the start of the cache without a hole.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from llama_magic.engine.scoring.reader import PROMPT, Holding, ScoreReader, holding
from llama_magic.engine.scoring.trees import Portion, TokenNode, TokenTree, trees

if TYPE_CHECKING:
    from llama_magic.engine.core import Core


class Together(ScoreReader):
    """Read the trees of some rows, a batch a step."""

    def run(self, rows: Sequence[tuple[Sequence[int], Sequence[Sequence[int]]]]) -> list[list[list[Any]]]:
        """Return what is told of the tokens of each text of each row."""
        self._found: list[list[list[Any]]] = [[[] for _ in texts] for _, texts in rows]
        portions = [
            Portion(i, list(prompt), {j: tuple(text) for j, text in enumerate(texts)})
            for i, (prompt, texts) in enumerate(rows)
        ]
        size, paths = self.engine.call(_room)
        for tree in trees(portions, size, paths):
            tree.number()
            nodes = list(tree.walk())
            held = {id(node) for node in self.engine.call(partial(_begin, tree))}
            left = [node for node in nodes if id(node) not in held]
            while left:
                count = self.engine.call(partial(self._batch, left))
                del left[:count]
            self.engine.call(partial(_leave, tree))
        return self._found

    def _batch(self, nodes: Sequence[TokenNode], core: Core) -> int:
        """Decode as many nodes as a batch takes, and note what their logits say; return how many."""
        context = holding(core)
        part: list[TokenNode] = []
        outputs: list[int] = []
        for node in nodes[: context.n_batch]:
            if node.wanted:
                if len(outputs) == context.n_outputs:
                    break
                outputs.append(len(part))
            part.append(node)
        tokens, positions = [node.token for node in part], [node.position for node in part]
        self.decode(core, tokens, positions, [node.owners for node in part], outputs)
        for index in outputs:
            wanted = part[index].wanted
            odds = self.tell(context, index, [token for _, _, token in wanted])
            for (row, text, _), value in zip(wanted, odds, strict=True):
                self._found[row][text].append(value)
        return len(part)


def _room(core: Core) -> tuple[int, int]:
    context = holding(core)
    return context.n_ctx, context.options.sequences - 1


def _begin(tree: TokenTree, core: Core) -> list[TokenNode]:
    """Let every path begin with what is held of it; return those nodes."""
    context = holding(core)
    held = tree.held(context.tokens)
    context.keep(len(held))
    for depth, node in enumerate(held, 1):
        following = held[depth].owners if depth < len(held) else ()
        for sequence in node.owners:
            if sequence not in following:
                context.copy(PROMPT, sequence, 0, depth)
    return held


def _leave(tree: TokenTree, core: Core) -> None:
    """Keep the prompt of the first row for the next ones, and nothing else."""
    context: Holding = holding(core)
    start, length = len(context.tokens), len(tree.first)
    if start < length:
        context.copy(1, PROMPT, start, length)
    context.tokens = list(tree.first)
    context.keep(length)
