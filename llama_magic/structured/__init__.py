"""Structured output: what an answer must be, as masks over tokens and a check after the answer.

`compile(X)` gives a `Constraint`, which says what the mask enforces and what is only checked
after, and whether a text is possible. Its `start()` gives the engine a `Matcher`, one for each
running answer. Masks come from llguidance; nothing here knows llama.cpp.
"""

from __future__ import annotations

from llama_magic.structured._short import short_form
from llama_magic.structured.answer.report import FieldReport, field_report
from llama_magic.structured.compiler import compile
from llama_magic.structured.constraint import Constraint
from llama_magic.structured.mask.vocab import TokenVocabulary
from llama_magic.structured.schema.schemas import Keyword, schema_text

__all__ = [
    "Constraint",
    "FieldReport",
    "Keyword",
    "TokenVocabulary",
    "compile",
    "field_report",
    "schema_text",
    "short_form",
]
