"""This model for other programs: OpenAI's API, and llama-server's, over the models of this kernel.

A request goes to the same engine as a cell, and is decoded in the same batch. `server.py` is the door:
`serve()` and the `Server` that it gives. The way of a request: `guard.py` looks at where it comes from,
`reading.py` makes a checked object of its body (`fields/`), `asking.py` makes a call of that, `answers.py`
carries what the engine tells into the loop, an endpoint (`chat.py`, `completions.py`, `native.py`,
`responses.py`, `embeddings.py`, `tokens.py`, `about.py`) writes it in its own form. `refusals.py` turns
errors into bodies. Extra `[serve]`: Starlette and uvicorn.
"""
