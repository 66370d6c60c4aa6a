"""Schemas read and understood: sources, bundles, formats, patterns, what is finite or disjoint."""
