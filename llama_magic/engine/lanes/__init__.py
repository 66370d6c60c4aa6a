"""How jobs share a context.

`lane` is one step of any kind: `shared` decodes all jobs together, `exact` one seeded job at a time,
`together` all seeded jobs where that changes no bit; `lanes` are those of an engine. `running` is a sample
on its way, `composing` chooses what is decoded next, `batch` is that as columns; a `prompt_reader`
reads apart, beside the cells of many. `flight` is how a decode is stopped, `logits` what is read off a row
of it. `guesses` say what may follow in a text, or a `draft_model` does; `drafting` has a decode prove it.
"""
