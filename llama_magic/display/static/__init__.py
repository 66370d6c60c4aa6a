"""Nodes, and how they are written: HTML, Markdown, plain text, a cell's bundle."""
