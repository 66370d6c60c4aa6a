"""Many answers as one value.

Users call `map`, `sweep`, `decide` and `bench`; and, of answers that there are, `vote`, `tree`, `rerun`,
`verify` and `diff` (`difference`).

- The arguments: `plan` reads them into `rows`, `prompts`, `settings` (every combination of the axes),
  `models` and scores (`scoring`); `caller` knows the line that called.
- At work: an `experiment` carries out its `tasks`; `generation` (of map and sweep) and `deciding` are its
  kinds, `scheduler` keeps the backend busy, `standing` says how far it is, `forecast` is the dry run.
- What comes back: `results`, of which `runs` and `odds` are the kinds; `answers` makes plain data of one.
- Its figures: `comparing` (summaries, pairs), `agreement`, `calibration`, over `statistics`.
- Answers in files: `saved_answers` reads them, `finding` says which model made one.
"""
