"""Widgets with controls: the prompt pad, the live trace, the live token strip, questions.

Each is a `board`. The `pad` can become a cell (`as_cell`); the `pen` is a `sheet` of tokens and a list of
`versions`, and finds its way back to a chat by `in_chat`; `trace`, `tokens` and `question` are one file
each. They share `controls` (sliders), `order` (stages to drag), `drawing` (a growing text) and `rest` (what
waits for the keys).
"""
