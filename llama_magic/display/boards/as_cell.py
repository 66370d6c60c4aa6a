"""Messages and options as a `%%llama chat` cell that asks the same."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from llama_magic.display.static.doc import Code, Line, Node
from llama_magic.microscope.exploring import options_line
from llama_magic.request.sampling import Sampling
from llama_magic.session.blocks import join_blocks, split_blocks

_ON_THE_LINE = re.compile(r"[^\n{}$\"]+")  # a text that a magic line takes as it is, in quotes
_NOT_EXACT = (
    "The cell is not to the letter what the pad asks: a line that would open a block (system:, user:, "
    "assistant:) is indented by a blank, and blank lines around a text are lost."
)
_SESSION = "pad"  # a conversation of its own: the reader's keeps its turns


def cell(
    messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any], base: Sampling, model: str = ""
) -> tuple[str, bool]:
    """Return the cell, and whether its body says the messages to the letter.

    `messages` are a user's text and perhaps a system's before it, `options` keywords of `Model.chat` with a
    `sampling`, `base` what the model's own file says; `model` is named where it is not the current one. The
    conversation begins afresh. What a body cannot say are blank lines around a text that has a block, and a
    line in it that would open another.
    """
    words = ["%%llama chat"]
    if model:
        words.append(f'-m "{model}"' if re.search(r"\s", model) else f"-m {model}")
    words += [f"--session {_SESSION} --new -n {options['max_tokens']}"]
    words.append(options_line(options["sampling"], options.get("seed"), base))
    if options.get("overflow", "error") != "error":
        words.append(f"--overflow {options['overflow']}")
    blocks = [(str(message["role"]), str(message["content"])) for message in messages]
    if blocks[0][0] == "system" and _ON_THE_LINE.fullmatch(blocks[0][1]):
        words.append(f'--system "{blocks[0][1]}"')
        del blocks[0]
    body = join_blocks(blocks)
    if "{{" in body:
        words.append("--raw")  # a cell fills templates
    return f"{' '.join(words)}\n{body}" + "\n" * body.endswith("\n"), split_blocks(body) == blocks


def view(where: str, source: str, exact: bool) -> list[Node]:
    """Return a cell as it is shown to be copied, under words that say where it stands."""
    note = [] if exact else [Line(_NOT_EXACT, tone="warn")]
    return [Line(where, dim=True), Code(source), *note]
