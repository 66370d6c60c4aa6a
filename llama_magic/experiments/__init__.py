"""Many answers as one value."""
