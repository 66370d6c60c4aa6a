"""Schemas read and understood: sources, bundles, formats, patterns, what is finite or disjoint.

- Read: `source` makes a JSON schema of what a user names (`generator` of a pydantic type, with its bounds by
  `bounded` and its `members`; `short` of a short form), `bundle` brings it into one document, `tree` walks
  it, `values` says when two are equal, `schemas` knows the shape of each keyword, `keywords` finds those
  without effect.
- Refused before any work is done: `size`, `effort` (for one value), `regex_runs` (for one expression).
- Found out: `finite` and `disjoint`, the complement (`negate`), the `shortest` answer.
- Texts: `formats` are checked, `written` is what a model is let write of them, `spans` and `decimal_spans`
  what lies between two bounds; `json_text`; `regex` between its three dialects, `regex_misread` by ours,
  `regex_least` what it asks for at least.
"""
