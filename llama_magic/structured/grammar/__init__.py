"""Grammars as llguidance takes them: Lark, GBNF."""
