"""What is shown while something runs: the live view, the terminal, progress.

`stream` shows an answer while it is written: in a page by `live`, with a `feed` of what is new in texts that
are `growing`; in a `terminal` as text. `progress` is of a load, `watching` of an experiment with a `waiting`
line, `served` of a server. `leaving` is the base of widgets that static output replaces. `stopped` ends a
cell with a line.
"""
