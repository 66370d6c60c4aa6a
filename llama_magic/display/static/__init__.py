"""Nodes, and how they are written: HTML, Markdown, plain text, a cell's bundle.

`doc` has the kinds of node; `html`, `markdown` and `text` write them. For HTML, `markup` escapes by building
it, `inline` writes the style sheet into elements, `columns` are those of a table, and words stay `unbroken`.
A model's Markdown is read by `commonmark`, a template's source is cut by `jinja`.
"""
