"""From what a user names to a `Model` in memory: options, weights, provenance, plans, comparisons."""
