"""What is said to people, and how: counts, sizes, nearest names, harmless text, tables, progress.

- Said: `counting` and `amounts` are numbers with their noun, `calls` a call, `progress` and `standing` how
  far a job is, `names` which one was probably meant; `harmless` makes every character visible and inert.
- Shown: `shown` is what shows itself, `tables` a small table.
- Taken: `given` makes whole numbers and flags of what a caller gave, `files` paths and texts of what people
  named and editors saved; a `signature` names every option. `screens` says what is a terminal.
- Objects: `plain` makes data and words of values whatever their methods do; `inprocess` cannot be copied,
  `lazy` names are imported at their first use.
"""

import llama_magic.words.shown  # noqa: F401 - for what it tells `errors`: where there are words, errors show them
