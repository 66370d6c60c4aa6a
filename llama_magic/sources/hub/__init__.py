"""Repositories of the hub and its cache.

`hub` looks repositories up by `asking`, `cache` knows what is here, `quants` chooses the model that is meant.
"""
