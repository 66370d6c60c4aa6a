"""What one kernel holds: models, conversations, history, defaults."""
