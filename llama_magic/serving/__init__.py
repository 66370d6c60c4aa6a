"""This model for other programs: OpenAI's API, and llama-server's, over the models of this kernel.

A request goes to the same engine as a cell, and is decoded in the same batch. `server.py` is the door:
`serve()` and the `Server` that it gives; `place.py` reads where it listens and who may ask, `http.py` runs
it, `app.py` has its paths, `state.py` what these share. The way of a request: `guard.py` looks at where it
comes from, `exchange.py` goes with it to its end, `reading.py` makes a checked object of its body
(`fields/`), `asking.py` makes a call of that (`held.py` what the answer is held to,
`offering.py` its tools), `answers.py` carries what the engine tells into the loop,
an endpoint (`chat.py`, `completions.py`, `native.py`,
`responses.py` with `items.py`, `embeddings.py`, `tokens.py`, `about.py`) writes it in its own form, in
words that they share (`telling.py`, `columns.py`); `prompt_logprobs.py` reads what was asked, and says how
likely it is. `refusals.py` turns errors into bodies; `log.py` and `metrics.py` keep count; `schema.py` and
`bodies.py` are for `/openapi.json`. Extra `[serve]`: Starlette and uvicorn.
"""
