"""Texts that may be control tokens of a server's model: those of its template, and those of all families."""

from __future__ import annotations

import re
from collections.abc import Iterator

from llama_magic import formatters
from llama_magic.formatters import Formatter

# What turn marks look like in the templates of released models.
_LIKE_A_MARK = re.compile(
    r"<\|[^|<>\s]{1,40}\|?>|<[a-z_/]{1,30}\|?>|<｜[^｜<>\s]{1,40}｜>|\[/?[A-Z_]{3,30}\]"
)
# Of released vocabularies, beside those that the families write themselves.
_COMMON = (
    "<s>", "</s>", "<unk>", "<pad>", "<bos>", "<eos>", "<mask>", "<|endoftext|>", "<|end_of_text|>",
    "<|begin_of_text|>", "<|eot_id|>", "<|eom_id|>", "<|im_start|>", "<|im_end|>", "<|im_sep|>",
    "<start_of_turn>", "<end_of_turn>", "<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>",
    "<|file_separator|>", "<think>", "</think>", "<tool_call>", "</tool_call>", "<|start|>", "<|end|>",
    "<|message|>", "<|channel|>", "<|return|>", "<|call|>",
)  # fmt: skip


def marks_of(template: str, formatter: Formatter) -> Iterator[str]:
    """Yield the candidates, each of which a tokenizer is asked about."""
    yield from _LIKE_A_MARK.findall(template)
    yield from formatter.stop
    yield from (mark.text for mark in formatter.spec.marks)
    yield from _COMMON
    for name in formatters.FAMILIES:
        family = formatters.get(name)
        yield from family.stop
        yield from (mark.text for mark in family.spec.marks)
