"""Structured output: what an answer must be, as masks over tokens and a check after the answer.

`compile(X)` gives a `Constraint`, which says what the mask enforces and what is only checked
after, and whether a text is possible. Its `start()` gives the engine a `Matcher`, one for each
running answer. Masks come from llguidance; nothing here knows llama.cpp.

The rooms, each of which imports only those before it:
`schema/` what is asked for: read, bundled, measured, and what is known of it alone;
`answer/` a text that came back: strict JSON, the check, decimals, its spellings, a report;
`mask/` tokens: the trie of a vocabulary, the state of one answer, how long a number may become;
`lower/` from the schema to the schema that a mask can enforce, and what is left to the check;
`grammar/` from that to llguidance's grammars (JSON, Lark), and from GBNF;
`constraint.py` all of these for one thing asked; `makers.py` makes one, a maker for each way to ask;
`compiler.py` keeps those that were made; `begun.py` is one for an answer whose beginning is given,
`atleast.py` for one of so many tokens at least; `calls.py` puts tool calls together of them, `callmasks.py`
watches for calls in an answer that is free.
"""

from __future__ import annotations

from llama_magic.structured.answer.report import FieldReport, field_report
from llama_magic.structured.begun import Begun
from llama_magic.structured.compiler import compile
from llama_magic.structured.constraint import Constraint
from llama_magic.structured.mask.vocab import TokenVocabulary
from llama_magic.structured.schema.schemas import Keyword, schema_text
from llama_magic.structured.schema.short import short_form

__all__ = [
    "Begun",
    "Constraint",
    "FieldReport",
    "Keyword",
    "TokenVocabulary",
    "compile",
    "field_report",
    "schema_text",
    "short_form",
]
