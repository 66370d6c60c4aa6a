"""The KV cache of a context: what is held where, what moves in and out.

`slots` says what lies in each sequence, `store` what was parked in host memory. `cells` acts on both (trim,
park, restore, pin, fork, evict), `reuse` finds the prefix that a prompt takes over; the lanes decide when.
`ordered` cells lie in the order of their positions, whatever runs beside them.
"""
