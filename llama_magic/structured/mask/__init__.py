"""Masks over the vocabulary, step by step.

`vocab` has the bytes of tokens, a `matcher` is one answer on its way, `digits` bound its numbers.
"""
