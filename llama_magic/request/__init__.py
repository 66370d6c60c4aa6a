"""What is asked of a source of tokens, and what comes back: sampling, requests, events, the seam itself.

- The seam: a `backend` answers a `request` with `events`. Its `tokenizer` makes tokens of text, `text` makes
  text of their bytes, a `matcher` says what a constraint allows.
- What is asked: `sampling`, by the rows of `stages`; `messages`, and texts that were `filled` in.
- What comes back: sequences that are `fixed`, and `vectors`; what answers have in common is held `once`.
"""
