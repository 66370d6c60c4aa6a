"""A text that grows ends as the text read at once, and only what changes of it travels."""

from __future__ import annotations

import json
import random
import re
from typing import Any

import hostile
import pytest
from front_ends import apply, text_of
from hypothesis import given
from hypothesis import strategies as st

from llama_magic.display.live.growing import Growing, plain
from llama_magic.display.static.commonmark import read
from llama_magic.words.harmless import visible

MARKS = st.text(st.sampled_from("ab *_`#-+>|[](){}!<&\\$~\n1.:/ \n"), max_size=120)
UNITS = ["a", "b ", "**", "*", "`", "```", "\n", "\n\n", "- ", "1. ", "  - ", "> ", "# ", "|", "|-|",
         "[a](https://b.c)", "[a](x)", "![i](y)", "---", "<b>", "~~~", "_", "\t", "é", "$", "   ",
         "|a|b|\n|-|-|\n", "    ", "2) "]  # fmt: skip
KINDS = {
    "paragraphs": "word word **strong** word word word word `code` word word.\n" * 5 + "\n",
    "list": "- an item of a list with **strong** words\n",
    "numbered": "1. an item\n   that goes on\n   - and an inner one\n\n",
    "code": "    for word in words: print(word)\n",
    "table": "| some words | more words |\n",
    "one paragraph": "word " * 20,
}
OPENINGS = {"code": "```py\n", "table": "| a | b |\n|---|---|\n"}


def whole(text: str) -> list[Any]:
    """Return the elements of a text, as JSON."""
    made: list[Any] = json.loads(json.dumps([plain(one) for one in read(text)]))
    return made


def grown(text: str, cuts: list[int]) -> list[Any]:
    """Return the elements of a text that came in pieces, put together from its changes."""
    growing, root = Growing(markdown=True), []
    for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
        apply(root, growing.add(text[start:end]))
    again: list[Any] = []
    apply(again, growing.anew())
    assert again == root
    return root


@given(MARKS, st.data())
def test_a_growing_text_ends_as_the_text_read_at_once(text: str, data: st.DataObject) -> None:
    """Cut anywhere, whatever the marks; and what is sent whole is what the changes made."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=20)))
    assert grown(text, cuts) == whole(text)


def test_mixtures_of_blocks_end_as_the_text_read_at_once() -> None:
    """700 texts of whole marks and hostile ones, each grown by single characters or pieces."""
    rng = random.Random(7)
    mixed = ["".join(rng.choices(UNITS, k=rng.randint(1, 40))) for _ in range(600)]
    for text in map(visible, [*hostile.TEXTS, *mixed]):
        cuts = list(range(len(text))) if len(text) < 60 else sorted(rng.choices(range(len(text)), k=9))
        assert grown(text, cuts) == whole(text), repr(text)


@pytest.mark.parametrize("kind", KINDS)
def test_what_travels_is_in_proportion_to_the_text(kind: str) -> None:
    """A byte of text costs no more in a text four times as long, and under six bytes in any."""

    def sent(length: int) -> float:
        text = OPENINGS.get(kind, "") + KINDS[kind] * (length // len(KINDS[kind]))
        growing = Growing(markdown=True)
        changes = [growing.add(text[at : at + 40]) for at in range(0, len(text), 40)]
        return sum(len(json.dumps(change)) for change in changes) / len(text)

    few, many = sent(1_000), sent(4_000)
    assert many <= 1.1 * few
    assert many < 6


def test_a_block_without_an_end_goes_on_as_text() -> None:
    """Beyond 100,000 characters of one list nothing is read again, and no word is lost."""
    text = "- item **of** a list\n" * 6_000
    growing, root = Growing(markdown=True), []
    for at in range(0, len(text), 30_000):
        apply(root, growing.add(text[at : at + 30_000]))
    assert [one[0] for one in root] == ["ul", "div"]
    assert root[1][2] == {"class": "lm-raw"}
    assert re.sub(r"[-*\s]", "", text_of(root)) == "itemofalist" * 6_000
