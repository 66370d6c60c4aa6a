"""How likely texts are after prompts: each token of them, in a context of its own; nothing is drawn.

A text after a prompt has the same probability, bit for bit, whatever else was scored before or is with it.
Where rows are alike (`native.rows_alike`), all rows and texts are read as one tree of tokens (`together`,
`trees`); elsewhere one after the other, cut at fixed places (`apart`). `score` is the door, `reader` what
both have in common.
"""
