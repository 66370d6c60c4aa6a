"""What requests may hold, as pydantic models: each field, its type, its limits. No other field is taken.

`common` is what all have; `chat`, `completions`, `responses` and `tokens` are those of these endpoints,
`tools` those of tools; `elsewhere` says what to write in place of other servers' fields, `idle` which of them
are taken where they change nothing.
"""
