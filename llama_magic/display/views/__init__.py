"""What each result says: one file a kind of result."""
