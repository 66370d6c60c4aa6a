"""Reuse of the KV cache: what is held where, what moves in and out."""
