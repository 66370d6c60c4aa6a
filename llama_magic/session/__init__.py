"""What one kernel holds: models, conversations, history, defaults.

`session` holds all of it by name. A `chat` is made of `turns`; `blocks` are those of a cell's body. `history`
lists what was generated.
"""
