"""How errors speak of a text with `{{ }}`: the body of a cell, or a prompt."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Wording:
    """How errors speak of a text: what it is, where a missing name comes from, how braces are kept.

    With `gaps_are_errors`, so is a value that is none (None, NaN) where a text is made of it.
    """

    what: str
    define: str
    braces: str
    gaps_are_errors: bool = False


BODY = Wording(
    "the body",
    "Define it in an earlier cell. ",
    "Add --raw to the %%llama line to leave every {{ }} as it stands, or write {{ '{{' }} for two braces.",
)
PROMPT = Wording(
    "the prompt",
    "Give it as a column of the rows, as an axis of `over`, or as a keyword. ",
    "Write {{ '{{' }} for two braces that are meant as such.",
    gaps_are_errors=True,
)
