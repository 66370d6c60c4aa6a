"""Answers kept in a file: one SQLite database that several kernels write to and any tool opens.

`record` is the file as a sequence of answers, over its `database`; `saved` says how an answer stands in it. A
`recording` adds every answer of a process, with `facts` of the models and the tokens of texts: by these a
`replay` answers without weights, on the `vocabulary` that was kept.
"""
