"""From what a user names to a `Model` in memory: options, weights, provenance, plans, comparisons.

`load` is the door. It checks `options` (`keywords`: the same for signatures); `opening` goes from a file to
a model: `checks` of the machine, `weights` tried and mapped, a `draft` model beside it, `facts` and
`provenance` for receipts. `dry` does none of it and says what it would take. `inspect` reads a header,
`plan` says how to load it here, `compare` does so for all quants of a repository, `alias` names a model
with its options. By `hooks` a session, which stands above, tells which model is current.
"""
