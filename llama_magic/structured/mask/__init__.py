"""Masks over the vocabulary, step by step."""
