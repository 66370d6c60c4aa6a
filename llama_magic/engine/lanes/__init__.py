"""How jobs share a context.

`lane` is one step of any kind: `shared` decodes all jobs together, `exact` one seeded job at a time,
`together` all seeded jobs where that changes no bit.
`running` is a sample on its way, `batch` what goes into a decode, `flight` how a decode is stopped, `guesses`
what may follow in a text, `drafting` how a decode proves it.
"""
