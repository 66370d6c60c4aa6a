"""How records look."""
