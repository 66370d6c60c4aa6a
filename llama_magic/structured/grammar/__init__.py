"""Grammars as llguidance takes them: Lark, GBNF.

`grammar` compiles a lowered schema. What llguidance's compiler does not do is written by `lark`, with the
rules of `lark_objects` and `lark_arrays` (`lark_writer` is what these ask of it); `depth` refuses chains
that are too long. `gbnf` is llama.cpp's notation: `gbnf_reader` reads it, `gbnf_rules` says what its rules
come to.
"""
