"""How requests share a context: one step of a lane, the shared lane, the exact lane, a running sample."""
