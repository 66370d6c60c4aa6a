"""A line that ends in a question mark is given to `%llama` whole: `%llama tokens Who is it?`.

IPython takes such a line for its own help on the last word and says that there is no object "it".
`%llama tokens?` asks for help: ours of the verb.
"""

from __future__ import annotations

import re
import tokenize
from collections.abc import Sequence
from typing import Any

from IPython.core.inputtransformer2 import EscapedCommand, MagicAssign

_VERB = re.compile(r"\s*([\w-]+)\s*\?{1,2}\s*\Z")  # and nothing else
Tokens = Sequence[tokenize.TokenInfo]


class _Line(EscapedCommand):
    """`%llama … ?` on a line of its own."""

    priority = 4  # before IPython's help, which begins at the same place with 5

    @classmethod
    def find(cls, tokens_by_line: Sequence[Tokens]) -> Any:
        for tokens in map(_asked, tokens_by_line):
            if len(tokens) > 3 and _is_llama(tokens, 0):
                return cls(tokens[0].start)
        return None

    def transform(self, lines: list[str]) -> list[str]:
        made: list[str] = super().transform(lines)  # type: ignore[no-untyped-call]
        at = self.start_line
        indent = lines[at][: self.start_col]
        given = lines[at][self.start_col :].removeprefix("%llama")
        if verb := _VERB.fullmatch(given):
            made[at] = f"{indent}get_ipython().run_line_magic('llama', '{verb[1]} --help')\n"
        return made


class _Assigned(MagicAssign):
    """`name = %llama … ?`."""

    priority = 4

    def __init__(self, start: tuple[int, int], magic: tuple[int, int]) -> None:
        super().__init__(start)  # type: ignore[no-untyped-call]
        self._magic = magic

    @classmethod
    def find(cls, tokens_by_line: Sequence[Tokens]) -> Any:
        for tokens in map(_asked, tokens_by_line):
            place = next((i for i, token in enumerate(tokens) if token.string == "="), None)
            if place and _is_llama(tokens, place + 1):
                return cls(tokens[0].start, tokens[place + 1].start)
        return None

    def transform(self, lines: list[str]) -> list[str]:
        return list(MagicAssign(self._magic).transform(lines))  # type: ignore[no-untyped-call]


def _asked(tokens: Tokens) -> Tokens:
    """Return the tokens of a line that ends in a question mark, without its indent; none of another."""
    words = [token for token in tokens if token.type not in (tokenize.INDENT, tokenize.DEDENT)]
    return words if len(words) > 2 and words[-2].string == "?" else ()


def _is_llama(tokens: Tokens, at: int) -> bool:
    words = [token.string for token in tokens[at : at + 3]]
    return words[:2] == ["%", "llama"] and words[2:] not in (["?"], [])


def install(shell: Any) -> None:
    """Have a shell's lines looked at; a second call changes nothing."""
    uninstall(shell)
    shell.input_transformer_manager.token_transformers += [_Line, _Assigned]


def uninstall(shell: Any) -> None:
    """Leave the shell's lines to IPython again."""
    known = shell.input_transformer_manager.token_transformers
    known[:] = [one for one in known if one.__module__ != __name__]
